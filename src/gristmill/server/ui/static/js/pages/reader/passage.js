// @ts-check
/** The passage that the reader is opened at, and the other hits of the search that found it. */

import { api } from "../../api.js";
import { fromQuery, toRequest } from "../../search/criteria.js";

/** @typedef {{page: number, start: number, end: number, x0: number, y0: number, x1: number, y1: number}} Box */
/**
 * @typedef {{id: string, page: number | null, start: number, end: number, boxes: Box[], words: string[],
 *   matches: [number, number][]}} Passage `words` are those of the query that it has, `matches` where they are
 */
/**
 * @typedef {{chunkId: string, itemId: string, baseId: string, text: string, highlights: [number, number][],
 *   boxes: Box[], source: {page: number | null, start: number, end: number}}} Hit
 */

const PAGE = 200;
const MAX_PAGES = 25; // loaded at most to find the chunk that the URL names

/** @param {Hit} hit @returns {Passage} */
export function passageOf(hit) {
  const letters = [...hit.text]; // the server counts code points
  return {
    id: hit.chunkId,
    page: hit.source.page,
    start: hit.source.start,
    end: hit.source.end,
    boxes: hit.boxes ?? [],
    words: [...new Set(hit.highlights.map(([from, to]) => letters.slice(from, to).join("")))],
    matches: hit.highlights.map(([from, to]) => [hit.source.start + from, hit.source.start + to]),
  };
}

/** @param {URLSearchParams} query Whether the hit was opened on the page that searches over all bases. */
export const isFromSearchPage = (query) => query.get("from") === "search";

/**
 * The hits of the search in the URL: that of the search page, or that of the base, which has fewer filters.
 * @param {string} base @param {URLSearchParams} query @returns {Promise<Hit[]>}
 */
export async function findHits(base, query) {
  const criteria = fromQuery(query);
  if (!criteria.text.trim()) return [];
  const limit = Number(query.get("limit") || 10);
  if (isFromSearchPage(query)) return (await api.post("/search", { ...toRequest(criteria), limit })).hits;
  const { text, mode, types, minScore } = criteria;
  const request = toRequest({ ...fromQuery(new URLSearchParams()), text, mode, types, minScore });
  return (await api.post(`/knowledge-bases/${base}/search`, { ...request, limit })).hits;
}

/**
 * The chunk with an id or an index, for a link whose search no longer finds it.
 * @param {string} item @param {string} name @returns {Promise<Passage | null>}
 */
export async function findChunk(item, name) {
  /** @type {string | null} */ let cursor = null;
  for (let n = 0; n < MAX_PAGES; n++) {
    /** @type {any} */
    const page = await api.get(`/knowledge-items/${item}/chunks`, { limit: PAGE, cursor, boxes: true });
    for (const chunk of page.items) {
      if (chunk.itemId === item && (chunk.id === name || String(chunk.index) === name)) {
        const { id, start, end, boxes } = chunk;
        return { id, page: chunk.page, start, end, boxes: boxes ?? [], words: [], matches: [] };
      }
    }
    cursor = page.nextCursor;
    if (!cursor) break;
  }
  return null;
}
