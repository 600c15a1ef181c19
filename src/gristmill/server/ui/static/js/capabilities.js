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
let isLoading = false;

/** Fetches them, unless they are there. After a failure, the next call tries again. */
export async function loadCapabilities() {
  if (isLoading || capabilities.peek()) return;
  isLoading = true;
  try {
    capabilities.value = await api.get("/capabilities");
  } catch {
    // what depends on them is not offered
  } finally {
    isLoading = false;
  }
}
