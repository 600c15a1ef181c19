// @ts-check
/** A search hit: its location, how it was found, and its text with the matched words highlighted. */

import { html } from "../../core.js";
import { formatNumber, t } from "../../i18n.js";
import { itemIcon } from "../../components/icon.js";
import { lazy } from "../../components/lazy.js";
import { readable } from "../../readable.js";
import { bestPlace, bestRange } from "../../search/best-place.js";

/**
 * @typedef {{chunkId: string, itemId: string, baseId: string, title: string, type: string, text: string,
 *   headings: string[], highlights: [number, number][], score: number, fits: boolean,
 *   ranks: {vector: number | null, text: number | null}, metadata: any,
 *   boxes?: {page: number, start: number, end: number}[],
 *   source: {url: string | null, path: string | null, page: number | null, start: number, end: number},
 *   explain: {vectorWeight: number, similarity: number | null, textScore: number | null, rerankScore: number | null,
 *   coverage: number | null, hasEveryWord: boolean | null,
 *   terms: {term: string, count: number, chunks: number, score: number}[]} | null}} Hit
 */

const CONTEXT_BEFORE = 90; // characters shown before the first match
const MAX_LENGTH = 420;

/** @param {string} text @param {number} position @returns {number} not within a character that is two units long */
const outsidePair = (text, position) => position + Number(/[\udc00-\udfff]/.test(text[position] ?? ""));

/**
 * @param {Hit} hit Its text where most of the query stands, as nodes, without markup, with the matched words
 *   highlighted.
 */
function excerpt(hit) {
  const { text, ranges } = readable(hit.text, hit.highlights);
  const best = bestRange(ranges, ranges.map(([from, to]) => text.slice(from, to)), MAX_LENGTH - CONTEXT_BEFORE);
  let position = Math.max(0, (ranges[best]?.[0] ?? 0) - CONTEXT_BEFORE);
  if (position) position += Math.max(0, text.slice(position, position + 20).search(/\s/) + 1);
  position = outsidePair(text, position);
  const end = outsidePair(text, Math.min(text.length, position + MAX_LENGTH));
  /** @type {Node[]} */ const nodes = [];
  const addText = (/** @type {string} */ words) => nodes.push(document.createTextNode(words));
  if (position) addText("… ");
  for (const [from, to] of ranges) {
    if (from < position || from >= end) continue;
    addText(text.slice(position, from));
    const mark = document.createElement("mark");
    mark.textContent = text.slice(from, Math.min(to, end));
    nodes.push(mark);
    position = to;
  }
  if (position < end) addText(text.slice(position, end));
  if (end < text.length) addText(" …");
  return nodes;
}

/**
 * Whether a word of the query is in the text, in the title or in a heading. Words that every text has, such as "the",
 * are no match: the server neither highlights nor counts them.
 * @param {Hit} hit
 */
export const hasKeyword = (hit) => hit.highlights.length > 0 || (hit.explain?.coverage ?? 0) > 0;

/** @param {Hit} hit The address of a web page, where that is not its title. */
const addressOf = (hit) =>
  hit.type === "url" && hit.source.url !== hit.title ? hit.source.url?.replace(/^https?:\/\//, "") : "";

/** @param {Hit} hit @param {string} [place] */
function hitLocation(hit, place = "") {
  const folder = hit.metadata?.folder ?? hit.source.path?.split("/").slice(-3, -1).join(" / ") ?? addressOf(hit);
  const { page: number } = bestPlace(hit);
  const kind = /\.(pptx?|pps[xm]?|potx?|odp|key)$/i.test(hit.title)
    ? "slide {page}"
    : /\.(xls[xmb]?|xltx?|ods|numbers)$/i.test(hit.title)
    ? "sheet {page}"
    : "page {page}";
  const page = number === null ? "" : t(kind, { page: number });
  const heading = readable(hit.headings.at(-1) ?? "", []).text;
  return [place, folder, page, heading].filter(Boolean).join(" · ");
}

/**
 * Two bars that compare the hits of one search.
 * @param {Hit} hit @param {number} best the best keyword score of the response
 */
function scoreBars(hit, best) {
  const explanation = hit.explain;
  const words = explanation?.textScore ? Math.max(0.06, explanation.textScore / (best || 1)) : 0;
  const meaning = explanation?.similarity ? Math.max(0, Math.min(1, explanation.similarity)) : 0;
  const label = t("Keyword rank {text}, semantic rank {vector}", {
    text: hit.ranks.text ?? "–",
    vector: hit.ranks.vector ?? "–",
  });
  return html`
    <span class="bars" role="img" aria-label="${label}" title="${label}">
      <i class="by-words" style.--share=${words}></i>
      <i class="by-meaning" style.--share=${meaning}></i>
    </span>
  `;
}

const meaningOnly = () => html`<span class="dim small-text">${t("by meaning only")}</span>`;

/** @param {Hit} hit @param {string} mode In words, and the figures for whoever wants them. */
function explanationView(hit, mode) {
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
  const matches = terms.map((term) => t("{term} {count}× (in {chunks} chunks)", { ...term, n: term.chunks })).join(
    ", ",
  );
  const isInTitle = !hit.highlights.length && hasKeyword(hit);
  const figures = html`
    <dl class="explain">
      ${row(t("Score, from 0 to 1"), figure(hit.score))}
      ${row(t("Keyword rank"), hit.ranks.text ?? "–")}
      ${row(t("Keyword score"), figure(textScore))}
      ${row(t("Semantic rank"), hit.ranks.vector ?? "–")}
      ${row(t("Similarity"), figure(similarity))}
      ${row(t("Semantic weight"), `${Math.round(vectorWeight * 100)}%`)}
      ${rerankScore === null ? null : row(t("Reranker score"), figure(rerankScore))}
      ${terms.length ? row(t("Matched words"), matches, "wide") : null}
    </dl>
  `;
  const words = lazy(
    () => import("../../search/explain.js"),
    ({ explainInWords }) => html`<p>${explainInWords(hit, mode, isInTitle)}</p>`,
  );
  return html`
    <div class="hit-reason">
      ${words}
      <details><summary>${t("Figures")}</summary>${figures}</details>
    </div>
  `;
}

/**
 * @param {Hit} hit @param {number} best the best keyword score of the response
 * @param {{explain: () => boolean, to: (hit: Hit) => string, mode: string, place?: string}} options
 */
export function hitRow(hit, best, options) {
  const relevance = options.mode === "hybrid" && !hasKeyword(hit) ? meaningOnly() : scoreBars(hit, best);
  return html`
    <li class="hit">
      <a href="${() => options.to(hit)}" data-focus="${hit.chunkId}">
        <span class="hit-head">${itemIcon(hit.type)}<b class="cut">${hit.title}</b>${relevance}</span>
        <span class="hit-where dim small-text cut">${hitLocation(hit, options.place)}</span>
        <span class="hit-text">${excerpt(hit)}</span>
      </a>
      ${() => (options.explain() ? explanationView(hit, options.mode) : null)}
    </li>
  `;
}

/** @param {number} milliseconds @param {number} n */
export const hitCount = (milliseconds, n) =>
  t("{n} results in {ms} ms", { n, ms: formatNumber(Math.round(milliseconds)) });
