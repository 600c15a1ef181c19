// @ts-check
/**
 * Talks to the public JSON API. A refusal is a `Refused` with the server's code and words; no answer at all is one with
 * the code `offline`. Every change carries an `Idempotency-Key`, so that sending it again is safe.
 */

import { t } from "./i18n.js";

/** What the server refused, or that it could not be asked. */
export class Refused extends Error {
  /** @param {number} status @param {{code?: string, detail?: string, title?: string, errors?: any[]}} problem */
  constructor(status, problem) {
    super(problem.detail || problem.title || t("The server answered {status}.", { status }));
    this.status = status;
    this.code = problem.code ?? "unknown";
    this.errors = problem.errors ?? [];
    /** @type {any} */ this.problem = problem;
  }
}

/** @typedef {{query?: Record<string, unknown>, match?: string, signal?: AbortSignal}} Asking */

/** @type {Set<(error: Refused) => void>} */ const listeners = new Set();

/** @param {(error: Refused) => void} listener Is told of every 401, so that the shell can ask for a key. */
export function onLockedOut(listener) {
  listeners.add(listener);
}

/** @param {string} path @param {Record<string, unknown>} [query] A list is sent as so many parameters of its name. */
function address(path, query) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") search.append(name, String(one));
    }
  }
  return `/api${path}${search.size ? `?${search}` : ""}`;
}

/** @param {number} status @param {string} body @returns {Refused} */
function refusal(status, body) {
  /** @type {Record<string, any>} */ let problem = {};
  try {
    problem = JSON.parse(body);
  } catch {
    problem = { code: "unknown" };
  }
  const error = new Refused(status, problem);
  if (status === 401) for (const listener of listeners) listener(error);
  return error;
}

const offline = () => new Refused(0, { code: "offline", detail: t("The server can't be reached. Try again in a moment.") });

/** @param {string} method @param {string} path @param {unknown} body @param {Asking} asking @returns {Promise<{data: any, etag: string | null}>} */
async function send(method, path, body, asking) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["Idempotency-Key"] = crypto.randomUUID();
  if (asking.match) headers["If-Match"] = asking.match;
  /** @type {Response} */ let answer;
  try {
    answer = await fetch(address(path, asking.query), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: asking.signal,
      credentials: "same-origin",
    });
  } catch (error) {
    if (asking.signal?.aborted) throw error;
    throw offline();
  }
  const text = await answer.text();
  if (!answer.ok) throw refusal(answer.status, text);
  const json = (answer.headers.get("Content-Type") ?? "").includes("json");
  return { data: text ? (json ? JSON.parse(text) : text) : null, etag: answer.headers.get("ETag") };
}

/** The verbs; each answers the parsed body. `tagged` answers `{data, etag}`, for a later `match`. */
export const api = {
  /** @param {string} path @param {Record<string, unknown>} [query] @param {AbortSignal} [signal] @returns {Promise<any>} */
  get: async (path, query, signal) => (await send("GET", path, undefined, { query, signal })).data,
  /** @param {string} path */
  tagged: (path) => send("GET", path, undefined, {}),
  /** @param {string} path @param {unknown} [body] @param {Asking} [asking] @returns {Promise<any>} */
  post: async (path, body, asking) => (await send("POST", path, body, asking ?? {})).data,
  /** @param {string} path @param {unknown} body @param {Asking} [asking] @returns {Promise<any>} */
  patch: async (path, body, asking) => (await send("PATCH", path, body, asking ?? {})).data,
  /** @param {string} path @param {unknown} body @param {Asking} [asking] @returns {Promise<any>} */
  put: async (path, body, asking) => (await send("PUT", path, body, asking ?? {})).data,
  /** @param {string} path @param {Asking} [asking] @returns {Promise<any>} */
  delete: async (path, asking) => (await send("DELETE", path, undefined, asking ?? {})).data,
};

/**
 * All pages of a list, at most `most` of its entries.
 * @param {string} path @param {Record<string, unknown>} [query] @param {number} [most] @returns {Promise<any[]>}
 */
export async function all(path, query = {}, most = 1000) {
  /** @type {any[]} */ const found = [];
  /** @type {string | null} */ let cursor = null;
  do {
    const page = await api.get(path, { limit: 500, ...query, cursor });
    found.push(...page.items);
    cursor = page.nextCursor;
  } while (cursor && found.length < most);
  return found;
}

/**
 * Sends a form with files; tells how many bytes have left.
 * @param {string} path @param {FormData} form @param {(sent: number, total: number) => void} progress
 * @param {AbortSignal} [signal] @returns {Promise<any>}
 */
export function upload(path, form, progress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address(path));
    request.setRequestHeader("Accept", "application/json");
    request.setRequestHeader("Idempotency-Key", crypto.randomUUID());
    request.upload.onprogress = (event) => progress(event.loaded, event.total);
    request.onerror = () => reject(offline());
    request.onabort = () => reject(new DOMException("aborted", "AbortError"));
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) resolve(JSON.parse(request.responseText || "null"));
      else reject(refusal(request.status, request.responseText));
    };
    signal?.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}
