// @ts-check
/**
 * The bases that the sidebar, the pages and the palette show: fetched once, then each anew when something happens in it,
 * at most once a second. While the server can't be asked, the last figures stay.
 */

import { all, api } from "./api.js";
import { computed, signal } from "./core.js";
import { live } from "./live.js";

/** @typedef {{id: string, name: string, status: string, error: {code: string, message: string} | null, embedder: string,
 *   dimensions: number, chunking: {maxTokens?: number}, onRestart: string, settings: any, fileProcessorId: string | null,
 *   acl: string[], itemCounts: Record<string, number>, leafCounts: Record<string, number>, chunkCount: number,
 *   progress: number, changedAt: string, createdAt: string, updatedAt: string}} Base */

export const bases = signal(/** @type {Base[] | null} */ (null));
/** Why there is no list, when there is none. */
export const basesError = signal(/** @type {Error | null} */ (null));
const REST = 1000; // between two looks, and ten times as long as one takes
/** @type {Set<string>} */ const changed = new Set();
let everything = true;
let resting = false;

/** @param {string | null} [id] The base that changed; null for all of them. */
export async function renewBases(id = null) {
  if (id) changed.add(id);
  else everything = true;
  if (resting) return;
  resting = true;
  const began = performance.now();
  const [whole, some] = [everything, [...changed]];
  everything = false;
  changed.clear();
  try {
    if (whole || !bases.peek()) bases.value = await all("/knowledge-bases");
    else await Promise.all(some.map(renewOne));
    basesError.value = null;
  } catch (error) {
    basesError.value = /** @type {Error} */ (error);
  }
  setTimeout(() => {
    resting = false;
    if (everything || changed.size) renewBases(everything ? null : [...changed][0]);
  }, Math.max(REST, 10 * (performance.now() - began)));
}

/** @param {string} id */
async function renewOne(id) {
  try {
    putBase(await api.get(`/knowledge-bases/${id}`));
  } catch (error) {
    if (/** @type {any} */ (error).status === 404) dropBase(id);
    else throw error;
  }
}

/** @param {Base} base Shows it as it is now. */
export function putBase(base) {
  const known = bases.peek() ?? [];
  const at = known.findIndex((one) => one.id === base.id);
  bases.value = at < 0 ? [...known, base] : known.with(at, base);
}

/** @param {string} id */
export function dropBase(id) {
  bases.value = (bases.peek() ?? []).filter((one) => one.id !== id);
}

/** Starts following; for the shell, once. */
export function followBases() {
  renewBases();
  live.on({}, (changes) => {
    for (const change of changes) {
      const id = change.type === "item" ? change.item.baseId : change.type === "event" ? change.event.baseId : change.base;
      const listed = change.type !== "event" || !/^Base/.test(change.event.type);
      renewBases(listed ? id : null);
    }
  });
}

/** @param {() => string} id */
export const baseOf = (id) => computed(() => bases.value?.find((one) => one.id === id()) ?? null);

const ACTIVE = ["preparing", "processing", "reading", "embedding"];
/** @param {Record<string, number>} counts @param {string[]} statuses */
export const sum = (counts, statuses) => statuses.reduce((n, one) => n + (counts[one] ?? 0), 0);
/** @param {Base} base Leaves, whatever their status. */
export const total = (base) => Object.values(base.leafCounts).reduce((n, one) => n + one, 0);
/** @param {Base} base Items that are not done. */
export const active = (base) => sum(base.itemCounts, ACTIVE);

/** @param {Base} base @returns {import("./parts/status.js").Tone} */
export function toneOf(base) {
  if (base.status === "failed") return "failed";
  if (active(base)) return "running";
  return base.leafCounts.failed ? "failed" : "ok";
}
