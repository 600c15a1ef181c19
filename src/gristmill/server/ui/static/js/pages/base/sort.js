// @ts-check
/** The head of the tree: its columns, by which it can be sorted; a menu has those that it does not show. */

import { html } from "../../core.js";
import { t } from "../../i18n.js";
import { iconButton } from "../../components/button.js";
import { icon } from "../../components/icon.js";
import { openMenu } from "../../components/menu.js";
import { setQuery } from "../../router.js";

/** @import { LiveRoute } from "../../router.js" */

/** Columns whose largest values come first. */
const LARGEST_FIRST = new Set(["size", "chunks", "updated"]);

/** @param {string} sort `-` in front means descending @param {string} key @returns {string} after one more click */
export function nextSort(sort, key) {
  const first = LARGEST_FIRST.has(key) ? `-${key}` : key;
  const second = LARGEST_FIRST.has(key) ? key : `-${key}`;
  return sort === first ? second : sort === second ? "" : first;
}

/** @param {LiveRoute} route */
const sortOf = (route) => route.value.query.get("sort") ?? "";

/** @param {LiveRoute} route */
export function treeHead(route) {
  const column = (/** @type {string} */ key, /** @type {string} */ label) => {
    const isChosen = () => sortOf(route).replace("-", "") === key;
    const onclick = () => setQuery({ sort: nextSort(sortOf(route), key) });
    const arrow = () => isChosen() ? icon("chevron", sortOf(route).startsWith("-") ? "down" : "up") : null;
    const name = () => {
      if (!isChosen()) return t("Sort by {column}", { column: label });
      return sortOf(route).startsWith("-")
        ? t("Sorted by {column}, descending", { column: label })
        : t("Sorted by {column}, ascending", { column: label });
    };
    return html`
      <button type="button" class="sort ${() => (isChosen() ? "on" : "")}" aria-label=${name} @click=${onclick}>
        <span>${label}</span>${arrow}
      </button>
    `;
  };
  return html`
    <div class="tree-head" role="group" aria-label="${t("Sort")}">
      ${column("title", t("Name"))}${column("status", t("Status"))}
      <span>${t("Progress")}</span>
      ${column("chunks", t("Chunks"))}
      <span class="end">${sortMenu(route)}</span>
    </div>
  `;
}

/** @param {LiveRoute} route A button with a menu of every order. */
export function sortMenu(route) {
  const columns = () => [
    ["", t("Order of adding")],
    ["title", t("Name")],
    ["type", t("Type")],
    ["status", t("Status")],
    ["size", t("Size")],
    ["chunks", t("Chunks")],
    ["updated", t("Changed")],
  ];
  const entries = () =>
    columns().map(([key, label]) => ({
      label,
      icon: sortOf(route).replace("-", "") === key ? "check" : undefined,
      onselect: () => setQuery({ sort: key ? nextSort(sortOf(route), key) : null }),
    }));
  const trigger = iconButton(t("Sort"), "sort", () => openMenu(trigger, entries()));
  trigger.setAttribute("aria-haspopup", "menu");
  return trigger;
}
