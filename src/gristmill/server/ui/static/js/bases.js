// @ts-check
/**
 * The bases that the sidebar, the pages and the palette show. The list is fetched once; then each base is fetched again
 * when something changes in it, at most once a second. While the server can't be reached, the last figures stay.
 */

import { api, fetchAll } from "./api.js";
import { computed, signal } from "./core.js";
import { live } from "./live.js";

/** @import { Tone } from "./components/status.js" */

/**
 * @typedef {{id: string, name: string, status: string, error: {code: string, message: string} | null, embedder: string,
 *   dimensions: number, chunking: {maxTokens?: number}, onRestart: string, settings: any,
 *   index: "embedded" | "opensearch", movingTo: "embedded" | "opensearch" | null, suggestedEmbedder: string | null,
 *   fileProcessorId: string | null, acl: string[], itemCounts: Record<string, number>, leafCounts: Record<string,
 *   number>, chunkCount: number, progress: number, changedAt: string, createdAt: string, updatedAt: string}} Base
 */

export const bases = signal(/** @type {Base[] | null} */ (null));
/** Why the last fetch failed, or null. */
export const basesError = signal(/** @type {Error | null} */ (null));
const REFRESH_INTERVAL = 1000; // milliseconds; longer where a fetch takes more than a tenth of it
/** @type {Set<string>} */ const changedIds = new Set();
let mustRefreshAll = true;
let isWaiting = false;

/** @param {string | null} [id] The base that changed; null for all of them. */
export async function refreshBases(id = null) {
  if (id) changedIds.add(id);
  else mustRefreshAll = true;
  if (isWaiting) return;
  isWaiting = true;
  const started = performance.now();
  const [refreshAll, ids] = [mustRefreshAll, [...changedIds]];
  mustRefreshAll = false;
  changedIds.clear();
  try {
    if (refreshAll || !bases.peek()) bases.value = await fetchAll("/knowledge-bases");
    else await Promise.all(ids.map(refreshBase));
    basesError.value = null;
  } catch (error) {
    basesError.value = /** @type {Error} */ (error);
  }
  setTimeout(() => {
    isWaiting = false;
    if (mustRefreshAll || changedIds.size) refreshBases(mustRefreshAll ? null : [...changedIds][0]);
  }, Math.max(REFRESH_INTERVAL, 10 * (performance.now() - started)));
}

/** @param {string} id */
async function refreshBase(id) {
  try {
    putBase(await api.get(`/knowledge-bases/${id}`));
  } catch (error) {
    if (/** @type {any} */ (error).status === 404) dropBase(id);
    else throw error;
  }
}

/** @param {Base} base Adds the base to the list, or replaces its old state. */
export function putBase(base) {
  const list = bases.peek() ?? [];
  const index = list.findIndex((other) => other.id === base.id);
  bases.value = index < 0 ? [...list, base] : list.with(index, base);
}

/** @param {string} id */
export function dropBase(id) {
  bases.value = (bases.peek() ?? []).filter((base) => base.id !== id);
}

/** Starts to follow changes. `main.js` calls this once. Resolves when the first attempt to fetch the bases ended. */
export function watchBases() {
  live.on({}, (changes) => {
    for (const change of changes) {
      const id = change.type === "item"
        ? change.item.baseId
        : change.type === "event"
        ? change.event.baseId
        : change.base;
      const isInsideBase = change.type !== "event" || !/^Base/.test(change.event.type);
      refreshBases(isInsideBase ? id : null);
    }
  });
  return refreshBases();
}

/** @param {() => string} id */
export const baseById = (id) => computed(() => bases.value?.find((base) => base.id === id()) ?? null);

const ACTIVE = ["preparing", "processing", "reading", "embedding"];
/** @param {Record<string, number>} counts @param {string[]} statuses */
export const countOf = (counts, statuses) => statuses.reduce((n, status) => n + (counts[status] ?? 0), 0);
/** @param {Base} base Leaf items of any status. */
export const leafCount = (base) => Object.values(base.leafCounts).reduce((n, count) => n + count, 0);
/** @param {Base} base Items that are queued or being processed. */
export const activeCount = (base) => countOf(base.itemCounts, ACTIVE);
/** @param {Base} base Failed documents; else failed containers, such as a site whose start page can't be fetched. */
export const failedCount = (base) => base.leafCounts.failed || base.itemCounts.failed || 0;

/** @param {Base} base @returns {Tone} */
export function toneOf(base) {
  if (base.status === "failed") return "failed";
  if (activeCount(base)) return "running";
  return failedCount(base) ? "failed" : "ok";
}

/** @param {string} id The name of a base; empty while it is unknown. */
export const baseName = (id) => bases.value?.find((base) => base.id === id)?.name ?? "";
