// @ts-check
/** One row of the tree: name, status, one percentage, chunks, and what can be done with it. */

import { html, signal } from "../core.js";
import { number, t } from "../i18n.js";
import { iconButton } from "../parts/button.js";
import { icon, iconOf } from "../parts/icon.js";
import { kebab } from "../parts/menu.js";
import { bar, holds, status, statusOf } from "../parts/status.js";
import { warningsOf } from "./warnings.js";

/** @typedef {import("./view.js").Shown} Shown */
/** @typedef {import("./view.js").TreeView} TreeView */

/** @param {import("../core.js").Signal<Shown>} row @param {TreeView} view @returns {globalThis.Node} */
export function rowOf(row, view) {
  if (!row.peek().item) return placeholder(row);
  const item = () => /** @type {import("./model.js").Item} */ (row.value.item ?? row.peek().item);
  const node = () => /** @type {import("./model.js").Node} */ (row.value.node);
  const selected = () => view.state.selected.value.has(id);
  const { id, type } = item();
  const at = signal(false); // whether a hand is over it: what can be done is made then, not for every row that scrolls by
  const over = () => {
    at.value = true;
  };
  return html`<div role="row" id="row-${id}" class="item-row ${() => item().status} ${() => (view.active.value === id ? "active" : "")} ${() =>
    view.state.current() === id ? "current" : ""}" aria-level="${() => row.value.depth + 1}" aria-posinset="${() => row.value.index + 1}"
    aria-setsize="${() => row.value.size}" aria-rowindex="${() => row.value.place + 1}" aria-selected="${() => String(selected())}"
    aria-expanded=${() => (row.value.node && view.opens(node()) ? String(row.value.open) : null)}
    style.transform=${() => `translateY(${row.value.top}px)`} style.height=${() => `${row.value.height}px`} style.--depth=${() => row.value.depth}
    @pointerenter=${over} @focusin=${over} @click=${(/** @type {MouseEvent} */ event) => clicked(event, node(), view)}>
    <div role="gridcell" class="name">
      <input type="checkbox" tabindex="-1" aria-label="${t("Select {title}", { title: item().title })}" .checked=${selected} @click=${(
        /** @type {MouseEvent} */ event,
      ) => act(event, () => view.select(node(), event.shiftKey))}>
      <span class="twist" aria-hidden="true">${() => (row.value.node && view.opens(node()) ? icon("chevron", row.value.open ? "open" : "") : null)}</span>
      ${iconOf(type)}
      <span class="title"><span class="cut" title=${() => item().title}>${() => item().title}</span>${() => hint(item(), Boolean(view.tree.filter))}${() => warning(item())}</span>
    </div>
    <div role="gridcell" class="state">${() => status(statusOf(item()))}</div>
    <div role="gridcell" class="done">${() => progress(item())}</div>
    <div role="gridcell" class="chunks">${() => (holds(type) ? "" : item().chunkCount ? number(item().chunkCount) : "–")}</div>
    <div role="gridcell" class="acts">${() => (at.value || view.small() || view.active.value === id || item().status === "failed" ? acts(item, view) : null)}</div>
    ${() => (note(item()) ? html`<p class="note ${item().error ? "bad" : ""}">${note(item())}</p>` : null)}
  </div>`;
}

/** @param {() => import("./model.js").Item} item @param {TreeView} view */
function acts(item, view) {
  const ids = () => [item().id];
  const more = kebab(t("More"), () => [
    { label: t("Details"), icon: "file", act: () => view.acts.open(item()) },
    { label: item().status === "failed" ? t("Try again") : t("Reindex"), icon: "retry", act: () => view.acts.reindex(ids()) },
    { label: t("Delete"), icon: "trash", danger: true, act: () => view.acts.remove(ids()) },
  ]);
  const shown = view.small()
    ? [more]
    : [
        iconButton(t("Reindex"), "retry", (event) => act(event, () => view.acts.reindex(ids()))),
        iconButton(t("Delete"), "trash", (event) => act(event, () => view.acts.remove(ids()))),
      ];
  for (const one of shown) one.tabIndex = -1; // the grid's own keys do the same
  return shown;
}

/** @param {import("./model.js").Item} item */
function progress(item) {
  const failed = item.status === "failed";
  const bare = item.status === "completed" || (!item.progress && !failed);
  return [bare ? null : bar(item.progress, failed ? "failed" : "running"), html`<span>${`${item.progress}%`}</span>`];
}

/** @param {import("./model.js").Item} item */
function warning(item) {
  if (!item.warnings.length) return null;
  const told = warningsOf(item);
  return html`<span class="warning" title="${told.join("\n")}">${icon("warn")}<span class="sr">${told.join(" ")}</span></span>`;
}

/** @param {import("./model.js").Item} item What is said below the name. */
export const note = (item) => (item.status === "failed" ? (item.error?.message ?? "") : (item.waitingFor ?? ""));

/** @param {Event} event @param {() => void} does */
function act(event, does) {
  event.stopPropagation();
  does();
}

/** @param {MouseEvent} event @param {import("./model.js").Node} node @param {TreeView} view */
function clicked(event, node, view) {
  if (event.metaKey || event.ctrlKey || event.shiftKey) return view.select(node, event.shiftKey);
  view.active.value = node.item.id;
  if (view.opens(node) && holds(node.item.type)) view.toggle(node);
  else if (/** @type {Element} */ (event.target).closest(".twist") && view.opens(node)) view.toggle(node);
  else view.acts.open(node.item);
}

/** @param {import("./model.js").Item} item @param {boolean} flat */
function hint(item, flat) {
  const text = flat ? (item.path ?? []).join(" / ") : item.childCount ? t("{n} items", { n: item.childCount }) : "";
  return text ? html`<span class="dim small-text cut hint">${text}</span>` : null;
}

/** @param {import("../core.js").Signal<Shown>} row */
function placeholder(row) {
  return html`<div role="row" class="item-row blank" aria-level="${() => row.value.depth + 1}" aria-busy="true" style.transform=${() =>
    `translateY(${row.value.top}px)`} style.height=${() => `${row.value.height}px`} style.--depth=${() => row.value.depth}><div role="gridcell" class="name"><i></i><span class="sr">${t("Loading")}</span></div></div>`;
}
