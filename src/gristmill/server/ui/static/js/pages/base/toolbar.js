// @ts-check
/** The bar above the tree: filters by status and name, or actions while items are selected. */

import { countOf, leafCount } from "../../bases.js";
import { computed, html } from "../../core.js";
import { t } from "../../i18n.js";
import { button, iconButton } from "../../components/button.js";
import { icon } from "../../components/icon.js";
import { kebab } from "../../components/menu.js";
import { tabs } from "../../components/tabs.js";
import { setQuery } from "../../router.js";
import { sortMenu } from "./sort.js";

/** @import { LiveRoute } from "../../router.js" */
/** @import { Selection } from "./selection.js" */
/** @import { LiveBase } from "./summary.js" */

/** @type {Record<string, string[]>} */
export const STATUSES = {
  processing: ["reading", "embedding"],
  queued: ["preparing", "processing"],
  failed: ["failed"],
};
const TYPING_DELAY = 250;

/**
 * @typedef {{reindex(ids: string[]): void, remove(ids: string[]): void, move(ids: string[]): void,
 *   tag(ids: string[]): void, retryAll(): void, canChange(): boolean}} ToolbarActions
 */

/** @param {LiveBase} base @param {LiveRoute} route @param {Selection} selection @param {ToolbarActions} actions */
export function toolbar(base, route, selection, actions) {
  const isSelecting = computed(() => selection.ids.value.size > 0);
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
    const isOffered = actions.canChange() && filter() === "failed" && !isSelecting.value && count("failed")();
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
      ${() => (isSelecting.value ? selectionActions(selection, actions) : statusTabs())}
      ${retryButton}
      ${() => (route.value.query.get("tag") ? tagFilter(route.value.query.get("tag") ?? "") : null)}
      <span class="hide-desk">${sortMenu(route)}</span>
      <label class="find">
        ${icon("search")}
        <span class="sr">${t("Filter by name")}</span>
        <input type="search" placeholder="${t("Filter")}" .value=${find} @input=${oninput}>
      </label>
    </div>
  `;
}

/** @param {string} tag A filter by a tag, which can be removed. */
const tagFilter = (tag) =>
  html`
    <span class="tag-filter">
      ${icon("tag")}<span class="cut">${tag}</span>
      ${iconButton(t("Remove the filter {tag}", { tag }), "close", () => setQuery({ tag: null }))}
    </span>
  `;

/** @param {Selection} selection @param {ToolbarActions} actions */
function selectionActions(selection, actions) {
  const ids = () => [...selection.ids.peek()];
  const more = kebab(t("More"), () => [
    { label: t("Tags"), icon: "tag", onselect: () => actions.tag(ids()) },
    { label: t("Move"), icon: "folder", onselect: () => actions.move(ids()) },
    { label: t("Reindex"), icon: "retry", onselect: () => actions.reindex(ids()) },
    { label: t("Select all"), icon: "check", onselect: selection.selectAll },
  ]);
  const selectAll = () =>
    selection.all.value ? null : button(t("Select all"), selection.selectAll, { small: true, kind: "quiet" });
  return html`
    <div class="chosen">
      <b>${() => t("{n} selected", { n: selection.count.value })}</b>
      <span class="hide-phone chosen">
        ${selectAll}
        ${button(t("Tags"), () => actions.tag(ids()), { icon: "tag", small: true })}
        ${button(t("Move"), () => actions.move(ids()), { icon: "folder", small: true })}
        ${button(t("Reindex"), () => actions.reindex(ids()), { icon: "retry", small: true })}
      </span>
      ${button(t("Delete"), () => actions.remove(ids()), { icon: "trash", small: true })}
      <span class="hide-desk">${more}</span>
      ${iconButton(t("Clear selection"), "close", selection.clear)}
    </div>
  `;
}
