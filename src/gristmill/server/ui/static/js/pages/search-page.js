// @ts-check
/** Search over all bases, or some of them: the query and every filter are in the URL. Searches can be saved. */

import "../find-locale.js";
import { baseName, bases } from "../bases.js";
import { computed, html, signal } from "../core.js";
import { t } from "../i18n.js";
import { button } from "../components/button.js";
import { icon } from "../components/icon.js";
import { lazy } from "../components/lazy.js";
import { emptyState, setPageTitle } from "../components/status.js";
import { segments } from "../components/tabs.js";
import { readerUrl } from "../reader-link.js";
import { setQuery } from "../router.js";
import { searchBox } from "../search/box.js";
import { countFilters, fromQuery, MAX_BASES, NO_FILTERS, toQuery, toRequest } from "../search/criteria.js";
import { resultsView } from "../search/results.js";
import { runSearch } from "../search/run.js";
import { filterPanel } from "./search/filters.js";
import { savedSearches, watchSaved } from "./search/saved.js";

/** @import { LiveRoute } from "../router.js" */
/** @import { Criteria } from "../search/criteria.js" */
/** @import { Hit } from "./base/hits.js" */

const MODES = { hybrid: "Hybrid", vector: "Semantic", text: "Keyword" };

/** @param {LiveRoute} route */
export function page(route) {
  setPageTitle(() => t("Search"));
  const param = (/** @type {string} */ name) => route.value.query.get(name) ?? "";
  const text = computed(() => route.value.query.toString());
  const criteria = computed(() => fromQuery(new URLSearchParams(text.value)));
  const change = (/** @type {Partial<Criteria>} */ changes) =>
    setQuery({ ...toQuery({ ...criteria.peek(), ...changes }), limit: null, ask: null });
  // A base that was deleted, or that the caller can't see, is left out; without any other there is nothing to search.
  const known = computed(() => criteria.value.bases.filter((id) => !bases.value || baseName(id)));
  const isWithoutBases = computed(() => criteria.value.bases.length > 0 && !known.value.length);
  const request = () => toRequest({ ...criteria.value, bases: known.value });
  const search = runSearch(() => {
    if (!criteria.value.text.trim() || isWithoutBases.value) return null;
    return { path: "/search", body: { ...request(), limit: Number(param("limit") || 10), explain: true } };
  });
  const saved = watchSaved();
  const isPanelOpen = signal(false);
  const save = async () => (await import("./search/save-dialog.js")).openSaveDialog(criteria.peek(), saved);
  const saveButton = () =>
    criteria.value.text.trim() ? button(t("Save search"), save, { icon: "bookmark", small: true }) : null;
  if (!criteria.peek().text && matchMedia("(pointer: fine)").matches) focusField();
  return html`
    <div class="page finder" data-search>
      <div class="top">
        <h1>${t("Search")}</h1>
        <div class="actions">${saveButton}</div>
      </div>
      <div class="find-head">
        ${searchBox(route, t("Search all bases"))}
        <div class="find-options">
          ${modeControl(criteria, change)}
          ${() =>
            panelButton(
              isPanelOpen.value,
              countFilters(criteria.value),
              () => (isPanelOpen.value = !isPanelOpen.peek()),
            )}
        </div>
      </div>
      <div class="find-body ${() => (isPanelOpen.value ? "show-refine" : "")}">
        <aside class="refine" aria-label="${t("Filters")}" id="filters">
          ${savedSearches(saved, criteria)}${filterPanel(criteria, change)}
        </aside>
        ${resultsRegion({ search, param, criteria, request, known, isWithoutBases, change })}
      </div>
    </div>
  `;
}

/** Focuses the field once the page is shown, and the shell has set the focus to it. */
function focusField() {
  requestAnimationFrame(() => {
    const field = document.querySelector(".finder input[type=search]");
    if (field instanceof HTMLElement) field.focus();
  });
}

/** @param {{value: Criteria}} criteria @param {(changes: Partial<Criteria>) => void} change */
function modeControl(criteria, change) {
  const choices = Object.entries(MODES).map(([id, label]) => ({ id, label: t(label) }));
  return segments(t("Mode"), choices, () => criteria.value.mode, (mode) => change({ mode }));
}

/** @param {boolean} isOpen @param {number} count @param {() => void} toggle Shows the filters on phones. */
function panelButton(isOpen, count, toggle) {
  const label = count ? t("Filters ({count})", { count }) : t("Filters");
  const element = button(label, toggle, { icon: "filter", small: true });
  element.classList.add("hide-desk");
  element.setAttribute("aria-expanded", String(isOpen));
  element.setAttribute("aria-controls", "filters");
  return element;
}

/**
 * @param {{search: import("../search/run.js").RunningSearch, param: (name: string) => string,
 *   criteria: {value: Criteria, peek(): Criteria}, request: () => Record<string, any>, known: {value: string[]},
 *   isWithoutBases: {value: boolean}, change: (changes: Partial<Criteria>) => void}} parts
 */
function resultsRegion({ search, param, criteria, request, known, isWithoutBases, change }) {
  // The reader goes on to the other hits of this search, and back to it.
  const origin = computed(() => {
    const values = Object.entries({ ...toQuery({ ...criteria.value, bases: known.value }), limit: param("limit") });
    return new URLSearchParams([...values.flatMap(([name, value]) => (value ? [[name, value]] : [])), [
      "from",
      "search",
    ]]);
  });
  const toUrl = (/** @type {Hit} */ hit) => readerUrl({ ...hit, page: hit.source.page }, origin.value);
  const options = {
    param,
    toUrl,
    title: t("Search all bases"),
    place: (/** @type {Hit} */ hit) => baseName(hit.baseId),
    clearFilters: () => (countFilters(criteria.peek()) ? () => change(NO_FILTERS) : null),
  };
  const question = computed(() => {
    const { query, baseIds, filters } = request();
    return param("ask") && query.trim() && !isWithoutBases.value
      ? JSON.stringify({ question: query, baseIds, filters })
      : "";
  });
  const answer = () => {
    const body = question.value;
    if (!body) return null;
    const place = JSON.parse(body).baseIds?.length === 1 ? undefined : options.place;
    const show = (/** @type {any} */ module) => module.answerView({ request: () => JSON.parse(body), toUrl, place });
    return lazy(() => import("../search/answer.js"), show);
  };
  const missingNote = () => {
    const count = bases.value?.length ?? 0;
    const isLimited = criteria.value.text.trim() && !criteria.value.bases.length && count > MAX_BASES;
    const values = { n: MAX_BASES, count };
    const text = known.value.length < criteria.value.bases.length && known.value.length
      ? t("A base of this search no longer exists, or you can't see it.")
      : isLimited
      ? t("The first {n} of your {count} bases are searched. Choose bases in the filters to search others.", values)
      : "";
    return text ? html`<p class="no-keyword">${icon("warn")}<span>${text}</span></p>` : null;
  };
  const content = () => {
    if (isWithoutBases.value) {
      const all = button(t("Search all bases"), () => change({ bases: [] }));
      const text = t("The bases of this search no longer exist, or you can't see them.");
      return emptyState("base", t("Nothing to search"), text, all);
    }
    return resultsView(search, options);
  };
  const isBusyText = () => String(search.isBusy.value);
  return html`
    <div class="scroll hits" tabindex="0" aria-label="${t("Results")}" role="region" aria-busy="${isBusyText}">
      <div class="find-column">${missingNote}${answer}${content}</div>
    </div>
  `;
}
