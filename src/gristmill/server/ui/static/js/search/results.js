// @ts-check
/** The results of a search: what was found, what was changed about the query, and what to do if nothing fits. */

import { html } from "../core.js";
import { t } from "../i18n.js";
import { button } from "../components/button.js";
import { icon } from "../components/icon.js";
import { emptyState } from "../components/status.js";
import { setQuery } from "../router.js";
import { hasKeyword, hitCount, hitRow } from "../pages/base/hits.js";
import { skippedSentence } from "./skipped.js";

/** @import { Hit } from "../pages/base/hits.js" */
/** @import { RunningSearch, SearchResponse } from "./run.js" */

/**
 * @typedef {{param: (name: string) => string, toUrl: (hit: Hit) => string, title: string,
 *   place?: (hit: Hit) => string, tools?: () => unknown, footer?: () => unknown,
 *   clearFilters: () => (() => void) | null}} ResultsOptions `place` is what a hit shows before its location, `tools`
 *   are next to the number of results, `footer` below them; `clearFilters` gives null where there are none.
 */

const MAX_LIMIT = 100;
const MORE = 20;

/** @param {RunningSearch} search @param {ResultsOptions} options */
export function resultsView(search, options) {
  keepFocus();
  const failure = search.failure.value;
  const response = search.response.value;
  if (failure) {
    const again = button(t("Try again"), search.retry, { icon: "retry" });
    return emptyState("warn", t("The search failed"), failure.message, again);
  }
  if (response) return responseView(response, options);
  if (options.param("q").trim()) return html`<p class="empty-note plain">${t("Searching …")}</p>`;
  const text = t('Enter words or a question. Use "quotes" for an exact phrase, and -word to exclude a word.');
  return emptyState("search", options.title, text);
}

/** @param {SearchResponse} response @param {ResultsOptions} options */
function responseView(response, options) {
  const { hits, tookMs } = response;
  const { param } = options;
  const mode = param("mode") || "hybrid";
  const limit = Number(param("limit") || 10);
  const best = Math.max(0, ...hits.map((hit) => hit.explain?.textScore ?? 0));
  const explain = () => param("explain") === "1";
  const toggleExplain = () => setQuery({ explain: explain() ? null : "1" });
  const showMore = () => setQuery({ limit: String(Math.min(MAX_LIMIT, limit + MORE)) });
  const explainButton = button(t("Explain"), toggleExplain, { small: true, kind: "quiet" });
  explainButton.setAttribute("aria-pressed", String(explain()));
  explainButton.dataset.focus = "explain";
  const row = (/** @type {Hit} */ hit) =>
    hitRow(hit, best, { explain, to: options.toUrl, mode, place: options.place?.(hit) });
  const isMeaningOnly = mode === "hybrid" && hits.length > 0 && !hits.some(hasKeyword);
  return html`
    <div class="results">
      <div class="tally">
        <span class="dim small-text" role="status">${hitCount(tookMs, hits.length)}</span>
        ${options.tools?.()}${explainButton}
      </div>
      ${isMeaningOnly ? noKeywordNote() : response.fits || !hits.length ? null : nothingFitsNote()}
      ${response.skipped.map(skippedSentence).map(note)}${queryChanges(response).map(note)}
      ${hits.length ? html`<ol @keydown=${moveBetweenHits}>${hits.map(row)}</ol>` : noHits(response, options)}
      <div class="list-footer">
        ${hits.length >= limit && limit < MAX_LIMIT ? button(t("More"), showMore, { small: true }) : null}
        ${options.footer?.()}
      </div>
    </div>
  `;
}

/** @param {SearchResponse} response @param {ResultsOptions} options */
function noHits({ bestScore }, options) {
  if (bestScore === null) {
    const clear = options.clearFilters();
    const text = clear ? t("Try other words, or fewer filters.") : t("Try different words or another mode.");
    return emptyState("search", t("No results"), text, clear ? button(t("Clear filters"), clear) : undefined);
  }
  const showAnyway = button(t("Show the closest anyway"), () => setQuery({ min: "0" }));
  const text = t("The closest text has a score of {score}, which is below the lowest score that is shown.", {
    score: bestScore.toFixed(2),
  });
  return emptyState("search", t("Nothing fits"), text, showAnyway);
}

/** @param {SearchResponse} response What was changed about the query, one sentence each. */
const queryChanges = ({ relaxed, corrected }) => [
  ...relaxed.map((phrase) => t("Nothing contains “{phrase}”. These results have some of its words.", { phrase })),
  ...corrected.map(({ word, replacement }) =>
    t("Nothing contains “{word}”. These results are for “{replacement}”.", { word, replacement })
  ),
];

/** @param {string} text */
const note = (text) => html`<p class="no-keyword">${icon("warn")}<span>${text}</span></p>`;

const noKeywordNote = () => note(t("No document contains these words. These are the closest by meaning."));
const nothingFitsNote = () => note(t("Nothing fits this search well. These are the closest texts."));

/**
 * Keeps the focus when new results replace the ones that have it: at the same hit or button, else at the first hit, or
 * in the search field. It is called while the old results are still there.
 */
function keepFocus() {
  const focused = document.activeElement?.closest("[data-search] .results [data-focus]");
  if (!(focused instanceof HTMLElement)) return;
  const region = focused.closest("[data-search]");
  const name = focused.dataset.focus;
  queueMicrotask(() => {
    if (!region || focused.isConnected) return;
    const same = [...region.querySelectorAll("[data-focus]")].find((e) => e.getAttribute("data-focus") === name);
    const target = same ?? region.querySelector(".hit > a") ?? region.querySelector("input[type=search]");
    if (target instanceof HTMLElement) target.focus({ preventScroll: same !== undefined });
  });
}

/** @param {Element} place The hits of the same list, and the search field above it. */
function focusStops(place) {
  const region = place.closest("[data-search]") ?? document.body;
  const field = region.querySelector("input[type=search]");
  const links = [...region.querySelectorAll(".hit > a")];
  return /** @type {HTMLElement[]} */ ([...(field ? [field] : []), ...links]);
}

/** @param {KeyboardEvent} event Arrow keys move between the search field and the hits. */
export function moveBetweenHits(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const target = /** @type {Element} */ (event.target);
  const stops = focusStops(target);
  const current = stops.findIndex((stop) => stop === target || stop.contains(target));
  const next = stops[current + step];
  if (current < 0 || !next) return;
  event.preventDefault();
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}
