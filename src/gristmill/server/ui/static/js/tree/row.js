// @ts-check
/** One row of the tree: name, status, progress, chunks and actions. */

import { computed, html, signal } from "../core.js";
import { errorMessage, formatNumber, t } from "../i18n.js";
import { iconButton } from "../components/button.js";
import { icon, itemIcon } from "../components/icon.js";
import { kebab } from "../components/menu.js";
import { bar, isContainer, status, statusOf } from "../components/status.js";
import { waitingText } from "./waiting.js";
import { warningsOf } from "./warnings.js";

/** @import { Signal } from "../core.js" */
/** @import { Item } from "./model.js" */
/** @import { TreeView, VisibleRow } from "./view.js" */

/** @param {Signal<VisibleRow>} row @param {TreeView} view @returns {globalThis.Node} */
export function createRow(row, view) {
  if (!row.peek().item) return placeholder(row);
  const item = () => /** @type {Item} */ (row.value.item ?? row.peek().item);
  const node = () => /** @type {import("./model.js").Node} */ (row.value.node);
  const selected = () => view.isSelected(id);
  const { id, type } = item();
  // action buttons are created when the pointer enters, not for every row that scrolls by
  const hasPointer = signal(false);
  const onpointer = () => {
    hasPointer.value = true;
  };
  const isActive = () => view.active.value === id;
  const canExpand = () => Boolean(row.value.node) && view.canExpand(node());
  const states = () =>
    [item().status, isActive() ? "active" : "", view.state.current() === id ? "current" : ""].join(" ");
  const onclick = (/** @type {MouseEvent} */ event) => handleClick(event, node(), view);
  const onselect = (/** @type {MouseEvent} */ event) =>
    withoutPropagation(event, () => {
      view.select(node(), event.shiftKey);
      view.box.focus({ preventScroll: true }); // keys are for the rows, not for their boxes
    });
  const checkbox = () =>
    html`
      <input
        type="checkbox"
        tabindex="-1"
        aria-label="${() => t("Select {title}", { title: item().title })}"
        .checked=${selected}
        @click=${onselect}
      >
    `;
  // buttons stay while the item changes: a click on a replaced one is lost
  const isFailed = computed(() => item().status === "failed");
  const tagText = computed(() => JSON.stringify(tagsOf(item())));
  const chevron = () => (canExpand() ? icon("chevron", row.value.open ? "open" : "") : null);
  const actions = () => {
    const isShown = hasPointer.value || view.isPhone() || isActive() || isFailed.value;
    return isShown && view.state.canChange() ? rowActions(item, view) : null;
  };
  return html`
    <div
      role="row"
      id="row-${id}"
      class="item-row ${states}"
      aria-level="${() => row.value.depth + 1}"
      aria-posinset="${() => row.value.index + 1}"
      aria-setsize="${() => row.value.size}"
      aria-rowindex="${() => row.value.ordinal + 1}"
      aria-selected="${() => String(selected())}"
      aria-expanded=${() => (canExpand() ? String(row.value.open) : null)}
      style.transform=${() => `translateY(${row.value.top}px)`}
      style.height=${() => `${row.value.height}px`}
      style.--depth=${() => row.value.depth}
      @pointerenter=${onpointer}
      @focusin=${onpointer}
      @click=${onclick}
    >
      <div role="gridcell" class="name">
        ${() => (view.state.canChange() ? checkbox() : null)}
        <span class="twist" aria-hidden="true">${chevron}</span>
        ${itemIcon(type)}
        <span class="title">
          <span class="cut" title=${() => tooltip(item())}>${() => item().title}</span>
          ${() => hint(item(), Boolean(view.tree.filter))}
          ${() => tagList(JSON.parse(tagText.value), view)}
          ${() => warning(item())}
        </span>
      </div>
      <div role="gridcell" class="state">${() => status(statusOf(item()))}</div>
      <div role="gridcell" class="done">${() => progress(item())}</div>
      <div role="gridcell" class="chunks">${() => chunkCount(item())}</div>
      <div role="gridcell" class="row-actions">${actions}</div>
      ${() => noteLine(item())}
    </div>
  `;
}

/** @param {Item} item Its title, and the address of a web page. */
const tooltip = (item) => [...new Set([item.title, item.source?.url ?? item.title])].join("\n");

/** @param {Item} item */
function chunkCount(item) {
  if (isContainer(item.type)) return "";
  return item.chunkCount ? formatNumber(item.chunkCount) : "–";
}

/** @param {Item} item */
function noteLine(item) {
  const text = rowNote(item);
  return text ? html`<p class="note ${item.error ? "bad" : ""}">${text}</p>` : null;
}

/** @param {() => Item} item @param {TreeView} view */
function rowActions(item, view) {
  const ids = () => [item().id];
  const reindexLabel = () => (item().status === "failed" ? t("Retry") : t("Reindex"));
  const more = kebab(t("More"), () => [
    { label: t("Details"), icon: "file", onselect: () => view.actions.open(item()) },
    { label: reindexLabel(), icon: "retry", onselect: () => view.actions.reindex(ids()) },
    { label: t("Rename"), icon: "note", onselect: () => view.actions.rename(item()) },
    { label: t("Move"), icon: "folder", onselect: () => view.actions.move(ids()) },
    { label: t("Tags"), icon: "tag", onselect: () => view.actions.tag(ids()) },
    { label: t("Delete"), icon: "trash", danger: true, onselect: () => view.actions.remove(ids()) },
  ]);
  const buttons = view.isPhone() ? [more] : [
    iconButton(t("Reindex"), "retry", (event) => withoutPropagation(event, () => view.actions.reindex(ids()))),
    iconButton(t("Delete"), "trash", (event) => withoutPropagation(event, () => view.actions.remove(ids()))),
    more,
  ];
  for (const actionButton of buttons) actionButton.tabIndex = -1; // the grid's keyboard shortcuts do the same
  return buttons;
}

/** @param {Item} item */
function progress(item) {
  const failed = item.status === "failed";
  const isBarHidden = item.status === "completed" || (!item.progress && !failed);
  return [
    isBarHidden ? null : bar(item.progress, failed ? "failed" : "running"),
    html`<span>${`${item.progress}%`}</span>`,
  ];
}

/** @param {Item} item */
function warning(item) {
  if (!item.warnings.length) return null;
  const messages = warningsOf(item);
  return html`
    <span class="warning" title="${messages.join("\n")}">
      ${icon("warn")}<span class="sr">${messages.join(" ")}</span>
    </span>
  `;
}

/** @param {Item} item The line below the name. */
export const rowNote = (item) =>
  item.status === "failed" ? errorMessage(item.error?.code, item.error?.message ?? "") : waitingText(item);

/** @param {Event} event @param {() => void} action */
function withoutPropagation(event, action) {
  event.stopPropagation();
  action();
}

/** @param {MouseEvent} event @param {import("./model.js").Node} node @param {TreeView} view */
function handleClick(event, node, view) {
  if (event.metaKey || event.ctrlKey || event.shiftKey) return view.select(node, event.shiftKey);
  view.active.value = node.item.id;
  if (view.canExpand(node) && isContainer(node.item.type)) view.toggle(node);
  else if (/** @type {Element} */ (event.target).closest(".twist") && view.canExpand(node)) view.toggle(node);
  else view.actions.open(node.item);
}

const SHOWN_TAGS = 3;

/** @param {string[]} tags @param {TreeView} view */
function tagList(tags, view) {
  if (!tags.length) return null;
  const more = tags.length - SHOWN_TAGS;
  return html`
    <span class="tags" title="${tags.join(", ")}">
      ${tags.slice(0, SHOWN_TAGS).map((tag) => tagButton(tag, view))}
      ${more > 0 ? html`<span class="tag">${`+${more}`}</span>` : null}
    </span>
  `;
}

/** @param {string} tag @param {TreeView} view */
function tagButton(tag, view) {
  const onclick = (/** @type {Event} */ event) => withoutPropagation(event, () => view.actions.filterByTag(tag));
  return html`<button type="button" class="tag" tabindex="-1" @click=${onclick}>${tag}</button>`;
}

/** @param {{metadata?: any}} item @returns {string[]} */
export const tagsOf = (item) => (Array.isArray(item.metadata?.tags) ? item.metadata.tags.map(String) : []);

/** @param {Item} item @param {boolean} flat */
function hint(item, flat) {
  const children = item.childCount ? t("{n} items", { n: item.childCount }) : "";
  const text = flat ? (item.path ?? []).join(" / ") : children;
  return text ? html`<span class="dim small-text cut hint">${text}</span>` : null;
}

/** @param {Signal<VisibleRow>} row */
function placeholder(row) {
  return html`
    <div
      role="row"
      class="item-row blank"
      aria-level="${() => row.value.depth + 1}"
      aria-busy="true"
      style.transform=${() => `translateY(${row.value.top}px)`}
      style.height=${() => `${row.value.height}px`}
      style.--depth=${() => row.value.depth}
    >
      <div role="gridcell" class="name"><i></i><span class="sr">${t("Loading")}</span></div>
    </div>
  `;
}
