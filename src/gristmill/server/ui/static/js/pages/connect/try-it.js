// @ts-check
/** Makes the call that a program would make, with the key alone and not with this browser's session. */

import { errorMessage, t } from "../../i18n.js";
import { mcpAddress, storeId } from "./snippets.js";

/** @import { Target } from "./snippets.js" */

/** @param {Target} target @param {string} url @param {unknown} body @returns {Promise<any>} */
async function call(target, url, body) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json, text/event-stream", "Content-Type": "application/json" };
  if (target.key) headers.Authorization = `Bearer ${target.key}`;
  /** @type {RequestInit} */ const request = {
    method: "POST",
    headers,
    body: JSON.stringify(body),
    credentials: "omit",
  };
  const response = await fetch(url, request).catch(() => {
    throw new Error(t("The server can't be reached. Try again in a moment."));
  });
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  const { status } = response;
  const detail = answer.detail ?? answer.error?.message ?? answer.error_msg;
  const code = answer.code ?? answer.error?.code ?? (status === 401 ? "bad_key" : undefined); // Dify has numbers
  throw new Error(detail ? errorMessage(code, detail) : t("The server returned {status}.", { status }));
}

/** @param {string} id the program @param {Target} target @returns {Promise<string>} what came back, in a sentence */
export async function tryIt(id, target) {
  const { origin, base } = target;
  if (["claude", "cursor", "vscode"].includes(id)) {
    const body = { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} };
    const answer = await call(target, mcpAddress(target), body);
    if (answer.error) throw new Error(answer.error.message);
    return t("It works: the agent gets {n} tools.", { n: answer.result.tools.length });
  }
  if (id.startsWith("openai")) {
    const answer = await call(target, `${origin}/v1/vector_stores/${storeId(target)}/search`, { query: "refund" });
    return t("It works: {n} results.", { n: answer.data.length });
  }
  if (id === "dify") {
    const setting = { top_k: 5, score_threshold: 0 };
    const body = { knowledge_id: base?.id, query: "refund", retrieval_setting: setting };
    return t("It works: {n} results.", { n: (await call(target, `${origin}/dify/retrieval`, body)).records.length });
  }
  const path = base ? `/api/knowledge-bases/${base.id}/search` : "/api/search";
  const answer = await call(target, origin + path, { query: "refund", limit: 5 });
  return t("It works: {n} results.", { n: answer.hits.length });
}
