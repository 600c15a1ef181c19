// @ts-check
/** The passage that the reader is opened at, and the other hits of the search that found it. */

import { api } from "../../api.js";

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
export const passageOf = (hit) => ({
  id: hit.chunkId,
  page: hit.source.page,
  start: hit.source.start,
  end: hit.source.end,
  boxes: hit.boxes ?? [],
  words: [...new Set(hit.highlights.map(([from, to]) => hit.text.slice(from, to)))],
  matches: hit.highlights.map(([from, to]) => [hit.source.start + from, hit.source.start + to]),
});

/**
 * The hits of the search in the URL.
 * @param {string} base @param {URLSearchParams} query @returns {Promise<Hit[]>}
 */
export async function findHits(base, query) {
  const text = query.get("q")?.trim();
  if (!text) return [];
  const types = query.get("types");
  const body = {
    query: text,
    mode: query.get("mode") ?? "hybrid",
    limit: Number(query.get("limit") ?? 10),
    filters: types ? { types: types.split(",") } : undefined,
  };
  return (await api.post(`/knowledge-bases/${base}/search`, body)).hits;
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
