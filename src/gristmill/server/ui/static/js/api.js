// @ts-check
/**
 * The client of the public JSON API. An error response becomes an `ApiError` with the server's code and message; a
 * request that gets no response becomes one with the code `offline`. Every change carries an `Idempotency-Key`, so it
 * can be retried.
 */

import { errorMessage, t } from "./i18n.js";

/** An error response of the server, or the lack of a response. */
export class ApiError extends Error {
  /** @param {number} status @param {{code?: string, detail?: string, title?: string, errors?: any[]}} problem */
  constructor(status, problem) {
    const message = problem.detail || problem.title || t("The server returned {status}.", { status });
    super(errorMessage(problem.code, message));
    this.status = status;
    this.code = problem.code ?? "unknown";
    this.errors = problem.errors ?? [];
    /** @type {any} */ this.problem = problem;
  }
}

/**
 * @typedef {{query?: Record<string, unknown>, match?: string, signal?: AbortSignal, keepalive?: boolean}}
 *   RequestOptions `keepalive`: the browser has to finish the request although the page is being left
 */

/** @type {Set<(error: ApiError) => void>} */ const unauthorizedListeners = new Set();

/** @param {(error: ApiError) => void} listener Called with every 401 response, so that the shell can ask for a key. */
export function onUnauthorized(listener) {
  unauthorizedListeners.add(listener);
}

/** @param {string} path @param {Record<string, unknown>} [query] A list becomes one parameter per value. */
function apiUrl(path, query) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== undefined && item !== null && item !== "") search.append(name, String(item));
    }
  }
  return `/api${path}${search.size ? `?${search}` : ""}`;
}

const MAX_KEPT_ALIVE = 4096;

/** @param {number} status @param {string} body @returns {ApiError} */
function errorFrom(status, body) {
  /** @type {Record<string, any>} */ let problem = {};
  try {
    problem = JSON.parse(body);
  } catch {
    // A proxy has answered in place of the server.
    if ([502, 503, 504].includes(status)) return offlineError();
    problem = { code: "unknown", detail: status === 413 ? t("This is too large for a proxy before the server.") : "" };
  }
  const error = new ApiError(status, problem);
  if (status === 401) { for (const listener of unauthorizedListeners) listener(error); }
  return error;
}

/** @returns {string} not by `randomUUID`, which pages that came by plain HTTP from another machine don't have */
const randomKey = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const offlineError = () =>
  new ApiError(0, { code: "offline", detail: t("The server can't be reached. Try again in a moment.") });

/**
 * @param {string} method @param {string} path @param {unknown} body @param {RequestOptions} options
 * @returns {Promise<{data: any, etag: string | null}>}
 */
async function send(method, path, body, options) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["Idempotency-Key"] = randomKey();
  if (options.match) headers["If-Match"] = options.match;
  const content = body === undefined ? undefined : JSON.stringify(body);
  /** @type {Response} */ let response;
  try {
    response = await fetch(apiUrl(path, options.query), {
      method,
      headers,
      body: content,
      signal: options.signal,
      credentials: "same-origin",
      // A change is sent even if the person leaves the page at once. Browsers refuse this for large bodies.
      keepalive: options.keepalive ?? (method !== "GET" && (content?.length ?? 0) < MAX_KEPT_ALIVE),
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw offlineError();
  }
  const text = await response.text();
  if (!response.ok) throw errorFrom(response.status, text);
  const isJson = (response.headers.get("Content-Type") ?? "").includes("json");
  return { data: text ? (isJson ? JSON.parse(text) : text) : null, etag: response.headers.get("ETag") };
}

/** @type {Map<string, Promise<any>>} */ const changesUnderWay = new Map();

/**
 * Sends a change. One that is sent again before it was answered, by a second click, is the same one.
 * @param {string} method @param {string} path @param {unknown} body @param {RequestOptions} [options]
 */
async function sendChange(method, path, body, options = {}) {
  if (options.signal) return (await send(method, path, body, options)).data;
  const key = JSON.stringify([method, path, body, options]);
  let sent = changesUnderWay.get(key);
  if (!sent) {
    sent = send(method, path, body, options).finally(() => changesUnderWay.delete(key));
    changesUnderWay.set(key, sent);
  }
  return (await sent).data;
}

/** The HTTP methods; each returns the parsed body. `getWithEtag` returns `{data, etag}`, for a later `match`. */
export const api = {
  /**
   * @param {string} path @param {Record<string, unknown>} [query] @param {AbortSignal} [signal] @returns {Promise<any>}
   */
  get: async (path, query, signal) => (await send("GET", path, undefined, { query, signal })).data,
  /** @param {string} path */
  getWithEtag: (path) => send("GET", path, undefined, {}),
  /** @param {string} path @param {unknown} [body] @param {RequestOptions} [options] @returns {Promise<any>} */
  post: (path, body, options) => sendChange("POST", path, body, options),
  /** @param {string} path @param {unknown} body @param {RequestOptions} [options] @returns {Promise<any>} */
  patch: (path, body, options) => sendChange("PATCH", path, body, options),
  /** @param {string} path @param {unknown} body @param {RequestOptions} [options] @returns {Promise<any>} */
  put: (path, body, options) => sendChange("PUT", path, body, options),
  /** @param {string} path @param {RequestOptions} [options] @returns {Promise<any>} */
  delete: (path, options) => sendChange("DELETE", path, undefined, options),
};

/**
 * Sends a request whose response is a stream of text, and passes each piece on as it arrives.
 * @param {string} path @param {unknown} body @param {(text: string) => void} onText @param {AbortSignal} signal
 */
export async function postForStream(path, body, onText, signal) {
  /** @type {Response} */ let response;
  try {
    response = await fetch(apiUrl(path), {
      method: "POST",
      headers: { Accept: "text/event-stream, application/json", "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
      credentials: "same-origin",
    });
  } catch (error) {
    if (signal.aborted) throw error;
    throw offlineError();
  }
  if (!response.ok || !response.body) throw errorFrom(response.status, await response.text());
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) onText(part.value);
  } catch (error) {
    if (signal.aborted) throw error;
    throw offlineError();
  }
}

/**
 * Fetches all pages of a list, up to about `limit` items.
 * @param {string} path @param {Record<string, unknown>} [query] @param {number} [limit] @returns {Promise<any[]>}
 */
export async function fetchAll(path, query = {}, limit = 1000) {
  /** @type {any[]} */ const items = [];
  /** @type {string | null} */ let cursor = null;
  do {
    const page = await api.get(path, { limit: 500, ...query, cursor });
    items.push(...page.items);
    cursor = page.nextCursor;
  } while (cursor && items.length < limit);
  return items;
}

/**
 * Sends a form with files, and reports how many bytes were sent.
 * @param {string} path @param {FormData} form @param {(sent: number, total: number) => void} progress
 * @param {AbortSignal} [signal] @returns {Promise<any>}
 */
export function upload(path, form, progress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", apiUrl(path));
    request.setRequestHeader("Accept", "application/json");
    request.setRequestHeader("Idempotency-Key", randomKey());
    request.upload.onprogress = (event) => progress(event.loaded, event.total);
    request.onerror = () => reject(offlineError());
    request.onabort = () => reject(new DOMException("aborted", "AbortError"));
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) resolve(JSON.parse(request.responseText || "null"));
      else reject(errorFrom(request.status, request.responseText));
    };
    signal?.addEventListener("abort", () => request.abort());
    if (signal?.aborted) reject(new DOMException("aborted", "AbortError"));
    else request.send(form);
  });
}
