// @ts-check
/**
 * The bases that the sidebar, the first page and the palette show: fetched once, renewed when something happens in them.
 * While the list can't be had, the last one stays.
 */

import { all, api } from "./api.js";
import { signal } from "./core.js";
import { live } from "./live.js";

/** @typedef {{id: string, name: string, status: string, error: {code: string, message: string} | null, embedder: string,
 *   itemCounts: Record<string, number>, updatedAt: string, createdAt: string, dimensions: number,
 *   chunking: {maxTokens: number}, onRestart: string, settings: any, fileProcessorId: string | null, acl: string[],
 *   leafCounts?: Record<string, number>, chunkCount?: number, progress?: number, changedAt?: string | null}} Base */

export const bases = signal(/** @type {Base[] | null} */ (null));
const REST = 1000; // between two looks, however much happens
let due = false;
let looking = false;

export async function renewBases() {
  if (looking) {
    due = true;
    return;
  }
  looking = true;
  due = false;
  try {
    bases.value = await all("/knowledge-bases");
  } catch {
    bases.value ??= null; // the banner tells that the server is away
  }
  setTimeout(() => {
    looking = false;
    if (due) renewBases();
  }, REST);
}

/** Starts following; for the shell, once. */
export function followBases() {
  renewBases();
  live.on({}, () => void renewBases());
}

/** @param {Base} base @returns {import("./parts/status.js").Tone} */
export function toneOf(base) {
  const counts = base.itemCounts;
  if (base.status === "failed") return "failed";
  if (["preparing", "processing", "reading", "embedding"].some((one) => counts[one])) return "running";
  return counts.failed ? "failed" : "ok";
}

/** @param {Base} base */
export const total = (base) => Object.values(base.itemCounts).reduce((sum, n) => sum + n, 0);

/** @param {string} id */
export const baseName = (id) => bases.value?.find((one) => one.id === id)?.name ?? "";
/** @param {string} id @param {Partial<Base>} what */
export const changeBase = (id, what) => api.patch(`/knowledge-bases/${id}`, what);
