// @ts-check
/** A hit: where it is, why it stands there, and its text with the words that were found. Offsets are the server's. */

import { html } from "../../core.js";
import { number, t } from "../../i18n.js";
import { iconOf } from "../../parts/icon.js";

/** @typedef {{chunkId: string, itemId: string, baseId: string, title: string, type: string, text: string, headings: string[],
 *   highlights: [number, number][], score: number, ranks: {vector: number | null, text: number | null},
 *   source: {url: string | null, path: string | null, page: number | null}, metadata: any,
 *   explain: {vectorWeight: number, similarity: number | null, textScore: number | null, rerankScore: number | null,
 *   terms: {term: string, count: number, chunks: number, score: number}[]} | null}} Hit */

const BEFORE = 90; // characters shown before the first word that was found
const MOST = 420;

/**
 * Text with its ranges marked, as nodes. The server counts characters, JavaScript halves of some: those are told apart.
 * @param {string} text @param {[number, number][]} ranges @param {{cut?: boolean}} [how] @returns {Node[]}
 */
export function marked(text, ranges, how = {}) {
  const letters = /[\ud800-\udfff]/.test(text) ? [...text] : null;
  const slice = (/** @type {number} */ a, /** @type {number} */ b) => (letters ? letters.slice(a, b).join("") : text.slice(a, b));
  const length = letters ? letters.length : text.length;
  let at = how.cut ? Math.max(0, (ranges[0]?.[0] ?? 0) - BEFORE) : 0;
  if (at) at += Math.max(0, slice(at, at + 20).search(/\s/) + 1);
  const end = how.cut ? Math.min(length, at + MOST) : length;
  /** @type {Node[]} */ const nodes = [];
  const say = (/** @type {string} */ words) => nodes.push(document.createTextNode(words));
  if (at) say("… ");
  for (const [from, to] of ranges) {
    if (from < at || from >= end) continue;
    say(slice(at, from));
    const mark = document.createElement("mark");
    mark.textContent = slice(from, Math.min(to, end));
    nodes.push(mark);
    at = to;
  }
  if (at < end) say(slice(at, end));
  if (end < length) say(" …");
  return nodes;
}

/** @param {Hit} hit */
function where(hit) {
  const folder = hit.metadata?.folder ?? hit.source.path?.split("/").slice(-3, -1).join(" / ");
  return [folder, hit.source.page === null ? "" : t("page {page}", { page: hit.source.page }), hit.headings.at(-1)].filter(Boolean).join(" · ");
}

/** @param {Hit} hit @param {number} best the best score by words of the answer */
function scores(hit, best) {
  const told = hit.explain;
  const words = told?.textScore ? Math.max(0.06, told.textScore / (best || 1)) : 0;
  const meaning = told?.similarity ? Math.max(0, Math.min(1, told.similarity)) : 0;
  const label = t("Score {score}: keyword rank {text}, semantic rank {vector}", {
    score: hit.score.toFixed(2),
    text: hit.ranks.text ?? "–",
    vector: hit.ranks.vector ?? "–",
  });
  return html`<span class="scores" title="${label}"><span class="bars" role="img" aria-label="${label}"><i class="by-words" style.--share=${words}></i><i class="by-meaning" style.--share=${meaning}></i></span>${hit.score.toFixed(2)}</span>`;
}

/** @param {Hit} hit */
function explained(hit) {
  const told = hit.explain;
  if (!told) return null;
  const row = (/** @type {string} */ name, /** @type {unknown} */ value, kind = "") => html`<div class="${kind}"><dt>${name}</dt><dd>${value}</dd></div>`;
  const figure = (/** @type {number | null} */ n) => (n === null ? "–" : n.toFixed(3));
  return html`<dl class="explain">${row(t("Keyword rank"), hit.ranks.text ?? "–")}${row(t("Keyword score"), figure(told.textScore))}${row(t("Semantic rank"), hit.ranks.vector ?? "–")}${row(
    t("Similarity"),
    figure(told.similarity),
  )}${row(t("Weight of meaning"), `${Math.round(told.vectorWeight * 100)}%`)}${told.rerankScore === null ? null : row(t("Reranker"), figure(told.rerankScore))}${
    told.terms.length ? row(t("Words"), told.terms.map((term) => t("{term} {count}× (in {chunks} chunks)", { ...term })).join(", "), "wide") : null
  }</dl>`;
}

/** @param {Hit} hit @param {number} best @param {{explain: () => boolean, to: (hit: Hit) => string}} how */
export function hitOf(hit, best, how) {
  return html`<li class="hit"><a href="${() => how.to(hit)}">
    <span class="hit-head">${iconOf(hit.type)}<b class="cut">${hit.title}</b>${scores(hit, best)}</span>
    <span class="hit-where dim small-text cut">${where(hit)}</span>
    <span class="hit-text">${marked(hit.text, hit.highlights, { cut: true })}</span></a>${() => (how.explain() ? explained(hit) : null)}</li>`;
}

/** @param {number} took @param {number} n */
export const tally = (took, n) => t("{n} hits in {ms} ms", { n, ms: number(Math.round(took)) });
