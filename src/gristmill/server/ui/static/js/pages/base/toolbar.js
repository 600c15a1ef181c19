// @ts-check
/** The bar above the tree: filters by status and name, or actions while items are selected. */

import { countOf, leafCount } from "../../bases.js";
import { html } from "../../core.js";
import { t } from "../../i18n.js";
import { button, iconButton } from "../../components/button.js";
import { icon } from "../../components/icon.js";
import { tabs } from "../../components/tabs.js";
import { setQuery } from "../../router.js";

/** @import { Signal } from "../../core.js" */
/** @import { LiveRoute } from "../../router.js" */
/** @import { LiveBase } from "./summary.js" */

/** @type {Record<string, string[]>} */
export const STATUSES = {
  processing: ["reading", "embedding"],
  queued: ["preparing", "processing"],
  failed: ["failed"],
};
const TYPING_DELAY = 250;

/**
 * @param {LiveBase} base @param {LiveRoute} route
 * @param {Signal<Set<string>>} selected
 * @param {{reindex(ids: string[]): void, remove(ids: string[]): void, retryAll(): void, canChange(): boolean}} actions
 */
export function toolbar(base, route, selected, actions) {
  /** @type {ReturnType<typeof setTimeout>} */ let timer;
  const count =
    (/** @type {string} */ kind) => () => (base.value ? countOf(base.value.leafCounts, STATUSES[kind]) : null);
  const choices = [
    { id: "", label: t("All"), count: () => (base.value ? leafCount(base.value) : null) },
    { id: "processing", label: t("Processing"), count: count("processing") },
    { id: "queued", label: t("Queued"), count: count("queued") },
    { id: "failed", label: t("Failed"), count: count("failed") },
  ];
  const filter = () => route.value.query.get("filter") ?? "";
  const statusTabs = () =>
    tabs(t("Filter by status"), choices, filter, (kind) => setQuery({ filter: kind }, { push: true }));
  const retryButton = () => {
    const isOffered = actions.canChange() && filter() === "failed" && !selected.value.size && count("failed")();
    return isOffered ? button(t("Retry all"), actions.retryAll, { icon: "retry", small: true }) : null;
  };
  const oninput = (/** @type {Event} */ event) => {
    clearTimeout(timer);
    const { value } = /** @type {HTMLInputElement} */ (event.target);
    timer = setTimeout(() => setQuery({ find: value.trim() }), TYPING_DELAY);
  };
  const find = () => route.value.query.get("find") ?? "";
  return html`
    <div class="toolbar">
      ${() => (selected.value.size ? selectionActions(selected, actions) : statusTabs())}
      ${retryButton}
      <label class="find hide-phone">
        ${icon("search")}
        <span class="sr">${t("Filter by name")}</span>
        <input type="search" placeholder="${t("Filter")}" .value=${find} @input=${oninput}>
      </label>
    </div>
  `;
}

/**
 * @param {Signal<Set<string>>} selected
 * @param {{reindex(ids: string[]): void, remove(ids: string[]): void}} actions
 */
function selectionActions(selected, actions) {
  const ids = () => [...selected.peek()];
  const clear = () => {
    selected.value = new Set();
  };
  return html`
    <div class="chosen">
      <b>${t("{n} selected", { n: selected.value.size })}</b>
      ${button(t("Reindex"), () => actions.reindex(ids()), { icon: "retry", small: true })}
      ${button(t("Delete"), () => actions.remove(ids()), { icon: "trash", small: true })}
      ${iconButton(t("Clear selection"), "close", clear)}
    </div>
  `;
}
