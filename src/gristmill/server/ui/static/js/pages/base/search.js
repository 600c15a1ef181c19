// @ts-check
/**
 * The search pane of a base: the query, its mode and its filters are in the URL, and hits show the matched words. Where
 * the server has a chat model, the query can also be answered as a question.
 */

import { computed, html } from "../../core.js";
import { t } from "../../i18n.js";
import { button } from "../../components/button.js";
import { lazy } from "../../components/lazy.js";
import { openMenu } from "../../components/menu.js";
import { segments } from "../../components/tabs.js";
import { readerUrl } from "../../reader-link.js";
import { setQuery } from "../../router.js";
import { allows } from "../../session.js";
import { searchBox } from "../../search/box.js";
import { resultsView } from "../../search/results.js";
import { runSearch } from "../../search/run.js";

/** @import { LiveRoute } from "../../router.js" */
/** @import { Hit } from "./hits.js" */

const TYPES = { file: "Files", url: "Web pages", note: "Notes", record: "Records" };

/** @param {string} base @param {LiveRoute} route */
export function searchPane(base, route) {
  const param = (/** @type {string} */ name) => route.value.query.get(name) ?? "";
  const mode = () => param("mode") || "hybrid";
  const filters = () => (param("types") ? { types: param("types").split(",") } : undefined);
  const minScore = () => (param("min") ? Number(param("min")) : undefined);
  const search = runSearch(() => {
    const query = param("q");
    if (!query.trim()) return null;
    const limit = Number(param("limit") || 10);
    const body = { query, mode: mode(), limit, filters: filters(), minScore: minScore(), explain: true };
    return { path: `/knowledge-bases/${base}/search`, body };
  });
  const toUrl = (/** @type {Hit} */ hit) => {
    const query = new URLSearchParams(location.search);
    for (const name of ["ask", "from"]) query.delete(name);
    return readerUrl({ ...hit, baseId: base, page: hit.source.page }, query);
  };
  const openWhyNot = async () => (await import("./why-not.js")).openWhyNot(base, param("q"), mode());
  const whyNotButton = () => button(t("Why is a document missing?"), openWhyNot, { small: true, kind: "quiet" });
  const options = {
    param,
    toUrl,
    title: t("Search this base"),
    clearFilters: () => (param("types") || param("min") ? () => setQuery({ types: null, min: null }) : null),
    tools: () => filterButton(param),
    footer: () => html`${() => (allows("admin") ? whyNotButton() : null)}`,
  };
  const modes = [
    { id: "hybrid", label: t("Hybrid") },
    { id: "vector", label: t("Semantic") },
    { id: "text", label: t("Keyword") },
  ];
  const chooseMode = (/** @type {string} */ id) => setQuery({ mode: id === "hybrid" ? null : id });
  const question = computed(() => (param("ask") && param("q").trim() ? `${param("q")} ${param("types")}` : ""));
  const answer = () =>
    question.value
      ? lazy(
        () => import("../../search/answer.js"),
        ({ answerView }) =>
          answerView({
            request: () => ({ question: param("q"), baseIds: [base], filters: filters() }),
            toUrl,
          }),
      )
      : null;
  const isBusyText = () => String(search.isBusy.value);
  return html`
    <div class="search-pane" data-search>
      <div class="search-head">
        ${searchBox(route, t("Search this base"))}
        <div class="search-options">
          ${segments(t("Mode"), modes, mode, chooseMode)}
          <span class="legend">
            <span class="by-words">${t("Keyword")}</span>
            <span class="by-meaning">${t("Semantic")}</span>
          </span>
        </div>
      </div>
      <div class="scroll hits" tabindex="0" aria-label="${t("Results")}" role="region" aria-busy="${isBusyText}">
        ${answer}${() => resultsView(search, options)}
      </div>
    </div>
  `;
}

/** @param {(name: string) => string} param */
function filterButton(param) {
  const types = param("types").split(",").filter(Boolean);
  const label = types.length
    ? types.map((type) => t(TYPES[/** @type {keyof typeof TYPES} */ (type)] ?? type)).join(", ")
    : t("All types");
  const toggle = (/** @type {string} */ id) => () =>
    setQuery({ types: (types.includes(id) ? types.filter((type) => type !== id) : [...types, id]).join(",") });
  const entries = [
    { label: t("All types"), icon: types.length ? undefined : "check", onselect: () => setQuery({ types: null }) },
    ...Object.entries(TYPES).map(([id, word]) => ({
      label: t(word),
      icon: types.includes(id) ? "check" : undefined,
      onselect: toggle(id),
    })),
  ];
  const trigger = button(label, () => openMenu(trigger, entries), { small: true, kind: "quiet" });
  trigger.setAttribute("aria-haspopup", "menu");
  return trigger;
}
