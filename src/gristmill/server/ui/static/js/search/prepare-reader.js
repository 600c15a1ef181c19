// @ts-check
/**
 * Prepares the reader while people look at the hits: its modules, and the pages of the first hit that has some. The
 * server starts the process that draws pages with the first list of them, which would otherwise delay the first page.
 */

import { api } from "../api.js";

/** @type {Set<string>} documents whose pages were listed */
const prepared = new Set();

/** @param {{itemId: string, boxes?: unknown[]}[]} hits */
export function prepareReader(hits) {
  const id = hits.find((hit) => hit.boxes?.length)?.itemId;
  if (!id || prepared.has(id)) return;
  prepared.add(id);
  const ignore = () => {}; // the reader reports what goes wrong
  api.get(`/knowledge-items/${id}/pages`, { required: false }).catch(ignore);
  import("../pages/reader.js").catch(ignore);
}
