// @ts-check
/** A search hit: its location, its scores, and its text with the matched words highlighted at the server's offsets. */

import { html } from "../../core.js";
import { formatNumber, t } from "../../i18n.js";
import { itemIcon } from "../../components/icon.js";

/**
 * @typedef {{chunkId: string, itemId: string, baseId: string, title: string, type: string, text: string,
 *   headings: string[], highlights: [number, number][], score: number, ranks: {vector: number | null,
 *   text: number | null}, source: {url: string | null, path: string | null, page: number | null}, metadata: any,
 *   explain: {vectorWeight: number, similarity: number | null, textScore: number | null, rerankScore: number | null,
 *   terms: {term: string, count: number, chunks: number, score: number}[]} | null}} Hit
 */

const CONTEXT_BEFORE = 90; // characters shown before the first match
const MAX_LENGTH = 420;

/**
 * Text as nodes, with the ranges highlighted. The server counts code points, JavaScript counts UTF-16 units: this
 * converts.
 * @param {string} text @param {[number, number][]} ranges @param {{cut?: boolean}} [options] @returns {Node[]}
 */
export function highlight(text, ranges, options = {}) {
  const letters = /[\ud800-\udfff]/.test(text) ? [...text] : null;
  /** @param {number} from @param {number} to */
  const slice = (from, to) => (letters ? letters.slice(from, to).join("") : text.slice(from, to));
  const length = letters ? letters.length : text.length;
  let position = options.cut ? Math.max(0, (ranges[0]?.[0] ?? 0) - CONTEXT_BEFORE) : 0;
  if (position) position += Math.max(0, slice(position, position + 20).search(/\s/) + 1);
  const end = options.cut ? Math.min(length, position + MAX_LENGTH) : length;
  /** @type {Node[]} */ const nodes = [];
  const addText = (/** @type {string} */ words) => nodes.push(document.createTextNode(words));
  if (position) addText("… ");
  for (const [from, to] of ranges) {
    if (from < position || from >= end) continue;
    addText(slice(position, from));
    const mark = document.createElement("mark");
    mark.textContent = slice(from, Math.min(to, end));
    nodes.push(mark);
    position = to;
  }
  if (position < end) addText(slice(position, end));
  if (end < length) addText(" …");
  return nodes;
}

/** @param {Hit} hit */
function hitLocation(hit) {
  const folder = hit.metadata?.folder ?? hit.source.path?.split("/").slice(-3, -1).join(" / ");
  const page = hit.source.page === null ? "" : t("page {page}", { page: hit.source.page });
  return [folder, page, hit.headings.at(-1)].filter(Boolean).join(" · ");
}

/** @param {Hit} hit @param {number} best the best keyword score of the response */
function scoreBars(hit, best) {
  const explanation = hit.explain;
  const words = explanation?.textScore ? Math.max(0.06, explanation.textScore / (best || 1)) : 0;
  const meaning = explanation?.similarity ? Math.max(0, Math.min(1, explanation.similarity)) : 0;
  const score = hit.score.toFixed(2);
  const label = t("Score {score}: keyword rank {text}, semantic rank {vector}", {
    score,
    text: hit.ranks.text ?? "–",
    vector: hit.ranks.vector ?? "–",
  });
  return html`
    <span class="scores" title="${label}">
      <span class="bars" role="img" aria-label="${label}">
        <i class="by-words" style.--share=${words}></i>
        <i class="by-meaning" style.--share=${meaning}></i>
      </span>
      ${score}
    </span>
  `;
}

/** @param {Hit} hit */
function explanationView(hit) {
  const explanation = hit.explain;
  if (!explanation) return null;
  const row = (/** @type {string} */ name, /** @type {unknown} */ value, kind = "") =>
    html`
      <div class="${kind}">
        <dt>${name}</dt>
        <dd>${value}</dd>
      </div>
    `;
  const figure = (/** @type {number | null} */ n) => (n === null ? "–" : n.toFixed(3));
  const { textScore, similarity, vectorWeight, rerankScore, terms } = explanation;
  const matches = terms.map((term) => t("{term} {count}× (in {chunks} chunks)", { ...term })).join(", ");
  return html`
    <dl class="explain">
      ${row(t("Keyword rank"), hit.ranks.text ?? "–")}
      ${row(t("Keyword score"), figure(textScore))}
      ${row(t("Semantic rank"), hit.ranks.vector ?? "–")}
      ${row(t("Similarity"), figure(similarity))}
      ${row(t("Semantic weight"), `${Math.round(vectorWeight * 100)}%`)}
      ${rerankScore === null ? null : row(t("Reranker score"), figure(rerankScore))}
      ${terms.length ? row(t("Matched words"), matches, "wide") : null}
    </dl>
  `;
}

/** @param {Hit} hit @param {number} best @param {{explain: () => boolean, to: (hit: Hit) => string}} options */
export function hitRow(hit, best, options) {
  return html`
    <li class="hit">
      <a href="${() => options.to(hit)}">
        <span class="hit-head">${itemIcon(hit.type)}<b class="cut">${hit.title}</b>${scoreBars(hit, best)}</span>
        <span class="hit-where dim small-text cut">${hitLocation(hit)}</span>
        <span class="hit-text">${highlight(hit.text, hit.highlights, { cut: true })}</span>
      </a>
      ${() => (options.explain() ? explanationView(hit) : null)}
    </li>
  `;
}

/** @param {number} milliseconds @param {number} n */
export const hitCount = (milliseconds, n) =>
  t("{n} results in {ms} ms", { n, ms: formatNumber(Math.round(milliseconds)) });
