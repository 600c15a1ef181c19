// @ts-check
/** The address of the reader: it can be shared, and opens at the same passage. */

/**
 * @param {{baseId: string, itemId: string, chunkId?: string, page?: number | null}} passage
 * @param {URLSearchParams | Record<string, string>} [search] the search that found it, to go on to its other hits
 */
export function readerUrl({ baseId, itemId, chunkId, page }, search = {}) {
  const query = new URLSearchParams(search);
  for (const name of ["tab", "pane", "page", "at", "chunk", "add"]) query.delete(name);
  if (chunkId) query.set("chunk", chunkId);
  if (page) query.set("page", String(page));
  return `/b/${baseId}/i/${itemId}/read${query.size ? `?${query}` : ""}`;
}
