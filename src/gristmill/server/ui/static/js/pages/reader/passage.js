// @ts-check
/** The passage that the reader is opened at, and the other hits of the search that found it. */

import { api } from "../../api.js";
import { bestPlace } from "../../search/best-place.js";
import { fromQuery, toRequest } from "../../search/criteria.js";

/** @typedef {{page: number, start: number, end: number, x0: number, y0: number, x1: number, y1: number}} Box */
/** @typedef {{text: string, isWhole: boolean}} Word `isWhole`: no part of a longer word, as `get` of `getName` is */
/**
 * @typedef {{id: string, page: number | null, start: number, end: number, boxes: Box[], words: Word[],
 *   matches: [number, number][], place: number}} Passage `words` are those of the query that it has, `matches` where
 *   they are, `place` is the character at which it is opened
 */
/**
 * @typedef {{chunkId: string, itemId: string, baseId: string, text: string, highlights: [number, number][],
 *   boxes: Box[], source: {page: number | null, start: number, end: number}}} Hit
 */

const LETTER = /[\p{L}\p{N}\p{M}]/u;
const PAGE = 200;
const MAX_PAGES = 25; // loaded at most to find the chunk that the URL names

/** @param {string[]} letters @param {[number, number]} range @returns {Word} */
function wordAt(letters, [from, to]) {
  const isWhole = ![letters[from - 1], letters[to]].some((letter) => LETTER.test(letter ?? ""));
  return { text: letters.slice(from, to).join(""), isWhole };
}

/** @param {Hit} hit @returns {Passage} */
export function passageOf(hit) {
  const letters = [...hit.text]; // the server counts code points
  const words = hit.highlights.map((range) => wordAt(letters, range));
  return {
    id: hit.chunkId,
    page: hit.source.page,
    start: hit.source.start,
    end: hit.source.end,
    boxes: hit.boxes ?? [],
    words: [...new Map(words.map((word) => [`${word.isWhole} ${word.text}`, word])).values()],
    matches: hit.highlights.map(([from, to]) => [hit.source.start + from, hit.source.start + to]),
    place: bestPlace(hit).at,
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
 * @param {string} item @param {string} name @returns {Promise<Passage | null | undefined>} undefined: not known
 */
export async function findChunk(item, name) {
  /** @type {string | null} */ let cursor = null;
  for (let n = 0; n < MAX_PAGES; n++) {
    /** @type {any} */
    const page = await api.get(`/knowledge-items/${item}/chunks`, { limit: PAGE, cursor, boxes: true });
    for (const chunk of page.items) {
      if (chunk.itemId === item && (chunk.id === name || String(chunk.index) === name)) {
        const { id, start, end, boxes } = chunk;
        return { id, page: chunk.page, start, end, boxes: boxes ?? [], words: [], matches: [], place: start };
      }
    }
    cursor = page.nextCursor;
    if (!cursor) return null;
  }
  return undefined;
}
