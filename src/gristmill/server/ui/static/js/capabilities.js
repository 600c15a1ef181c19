// @ts-check
/** What this installation can do: formats, limits, languages, and whether it answers questions. Fetched once. */

import { api } from "./api.js";
import { signal } from "./core.js";

/**
 * @typedef {{version: string, chatModel: string | null, formats: {family: string, extensions: string[]}[],
 *   limits: {documentBytes: number, uploadBytes: number, requestBytes: number},
 *   languages: {code: string, name: string}[]}} Capabilities
 */

/** Null until the server has responded. */
export const capabilities = signal(/** @type {Capabilities | null} */ (null));
/** @type {Promise<void> | null} */ let loading = null;

/** Fetches them, unless they are there. After a failure, the next call tries again. */
export function loadCapabilities() {
  if (!capabilities.peek()) loading ??= load();
  return loading ?? Promise.resolve();
}

async function load() {
  try {
    capabilities.value = await api.get("/capabilities");
  } catch {
    // what depends on them is not offered
  } finally {
    loading = null;
  }
}
