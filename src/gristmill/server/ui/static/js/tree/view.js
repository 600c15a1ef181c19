// @ts-check
/**
 * The tree on the page: a treegrid of which only the rows in sight are in the document. Rows are changed in place, once a
 * frame; focus stays with the grid, which names the active row, so that no scrolling loses it.
 */

import { each, effect, html, signal } from "../core.js";
import { t } from "../i18n.js";
import { empty, holds } from "../parts/status.js";
import { rowOf } from "./row.js";

/** @typedef {import("./model.js").Node} Node */
/** @typedef {{key: string, top: number, height: number, depth: number, index: number, size: number, node: Node | null,
 *   item: import("./model.js").Item | null, open: boolean, place: number}} Shown */
/** @typedef {{open(item: import("./model.js").Item): void, reindex(ids: string[]): void, remove(ids: string[]): void}} Acts */

const PAUSE = 60; // until rows that came into sight are asked for
const BEYOND = 240; // pixels above and below what is seen, so that a quick scroll meets rows that are there

export class TreeView {
  /**
   * @param {import("./model.js").Tree} tree @param {Acts} acts
   * @param {{selected: import("../core.js").Signal<Set<string>>, current: () => string | null, small: () => boolean}} state
   */
  constructor(tree, acts, state) {
    this.tree = tree;
    this.acts = acts;
    this.state = state;
    this.small = state.small;
    this.rows = signal(/** @type {Shown[]} */ ([]));
    this.active = signal(/** @type {string | null} */ (null));
    this.tall = signal(0);
    this.count = signal(0);
    this.due = false;
    this.epoch = tree.epoch;
    /** @type {ReturnType<typeof setTimeout> | undefined} */ this.asking = undefined;
    /** @type {import("./model.js").Row[]} */ this.missing = [];
    /** @type {Map<string, Shown>} */ this.shown = new Map();
    /** @type {{branch: import("./model.js").Branch, index: number} | null} */ this.awaited = null;
    /** @type {{node: Node, from: number} | null} the first row in sight, and how far it is scrolled out */ this.anchor = null;
    this.box = /** @type {HTMLElement} */ (this.build());
    effect(
      () => tree.changed.value,
      () => this.soon(),
    );
    const sizes = new ResizeObserver(() => this.soon());
    effect(() => {
      sizes.observe(this.box);
      return () => sizes.disconnect();
    });
  }

  build() {
    return html`<div class="tree scroll" role="treegrid" tabindex="0" aria-label="${t("Items")}" aria-multiselectable="true" aria-colcount="5"
      aria-rowcount="${() => this.count.value}" aria-activedescendant=${() => (this.active.value ? `row-${this.active.value}` : null)}
      @scroll=${() => this.scrolled()} @keydown=${(/** @type {KeyboardEvent} */ event) => this.key(event)}
      @focus=${() => {
        if (!this.active.peek()) this.active.value = this.rows.peek()[0]?.node?.item.id ?? null;
      }}>
      <div class="tree-body" role="rowgroup" style.height=${() => `${this.tall.value}px`}>${each(
        () => this.rows.value,
        (row) => row.key,
        (row) => rowOf(row, this),
      )}</div>
      ${() => (this.tree.error.value && !this.rows.value.length ? empty("warn", t("The items can't be shown"), this.tree.error.value.message) : null)}
    </div>`;
  }

  /** Renders in the next frame, once for all that changed until then. */
  soon() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      if (this.epoch !== this.tree.epoch) this.box.scrollTop = 0; // another filter: from its first row on
      this.epoch = this.tree.epoch;
      const come = this.awaited?.branch.rows.get(this.awaited.index);
      if (come) this.goTo(come); // rows that came with it may have moved it out of sight
      else this.hold();
      this.render();
    });
  }

  scrolled() {
    this.anchor = null;
    this.soon();
  }

  /** Keeps the first row in sight where it is when rows above it came, went or grew. */
  hold() {
    const { anchor, box } = this;
    if (!anchor || !box.scrollTop || this.tree.byId.get(anchor.node.item.id) !== anchor.node) return;
    const moved = this.tree.topOf(anchor.node) + anchor.from - box.scrollTop;
    if (Math.abs(moved) < 1) return;
    this.stretch();
    box.scrollTop += moved;
  }

  /** Makes room for all rows now, not with the next flush: the browser scrolls no further than there is something. */
  stretch() {
    this.tall.value = this.tree.height(this.tree.root);
    /** @type {HTMLElement} */ (this.box.firstElementChild).style.height = `${this.tall.peek()}px`;
  }

  render() {
    const { tree, box } = this;
    const from = box.scrollTop;
    const to = from + box.clientHeight + BEYOND;
    /** @type {Shown[]} */ const shown = [];
    /** @type {import("./model.js").Row[]} */ const missing = [];
    this.anchor = null;
    let row = tree.at(Math.max(0, from - BEYOND));
    while (row && row.top < to) {
      if (!row.node) missing.push(row);
      const { node, branch, index, top, height } = row;
      if (node && !this.anchor && top + height > from) this.anchor = { node, from: from - top };
      shown.push(
        this.same({
          key: node?.item.id ?? `${branch.id}:${index}`,
          top,
          height,
          depth: branch.depth,
          index,
          size: branch.total,
          node: node ?? null,
          item: node?.item ?? null,
          open: Boolean(node?.below?.open),
          place: Math.round(top / tree.sizes.row()),
        }),
      );
      row = tree.at(top + height);
    }
    this.tall.value = tree.height(tree.root);
    this.count.value = tree.count(tree.root);
    this.shown = new Map(shown.map((one) => [one.key, one]));
    this.rows.value = shown;
    this.missing = missing;
    if (missing.length) this.asking ??= setTimeout(() => this.ask(), PAUSE);
  }

  /** @param {Shown} row What is shown already, if it is no other: rows that did not change are not looked at again. */
  same(row) {
    const old = this.shown.get(row.key);
    const keys = /** @type {(keyof Shown)[]} */ (Object.keys(row));
    return old && keys.every((key) => old[key] === row[key]) ? old : row;
  }

  /** @param {import("./model.js").Branch} branch @returns {number[]} the places of its rows that are in sight */
  seen(branch) {
    return this.rows.peek().flatMap((row) => (row.node?.parent === branch ? [row.index] : []));
  }

  /** Has what is in sight fetched; what a quick scroll passed by meanwhile is not. */
  ask() {
    this.asking = undefined;
    for (const row of this.missing) this.tree.need(row);
  }

  // ── hands ─────────────────────────────────────────────────────────────────────────────────────────────

  /** @param {Node} node */
  toggle(node) {
    if (!this.opens(node)) return;
    if (node.below?.open) this.tree.close(node);
    else this.tree.open(node);
  }

  /** @param {Node} node Whether something is below it. */
  opens(node) {
    return !this.tree.filter && (holds(node.item.type) || (node.item.childCount ?? 0) > 0);
  }

  /** @param {Node} node @param {boolean} [range] */
  select(node, range = false) {
    const chosen = new Set(this.state.selected.peek());
    const last = this.active.peek();
    const rows = this.rows.peek().filter((row) => row.node);
    const [a, b] = [last, node.item.id].map((id) => rows.findIndex((row) => row.key === id));
    if (range && a >= 0 && b >= 0) for (const row of rows.slice(Math.min(a, b), Math.max(a, b) + 1)) chosen.add(row.key);
    else if (!chosen.delete(node.item.id)) chosen.add(node.item.id);
    this.state.selected.value = chosen;
    this.active.value = node.item.id;
  }

  /** @param {number} y Makes the row at a height the active one, as soon as it is here, and brings it into sight. */
  goAt(y) {
    const row = this.tree.at(Math.max(0, Math.min(this.tree.height(this.tree.root) - 1, y)));
    if (!row) return;
    this.active.value = row.node?.item.id ?? null;
    this.awaited = row.node ? null : { branch: row.branch, index: row.index };
    this.stretch();
    const { box } = this;
    if (row.top < box.scrollTop) box.scrollTop = row.top;
    else if (row.top + row.height > box.scrollTop + box.clientHeight) box.scrollTop = row.top + row.height - box.clientHeight;
    this.soon();
  }

  /** @param {Node} node */
  goTo(node) {
    this.goAt(this.tree.topOf(node));
  }

  /** @param {number} by Rows down, or up. */
  step(by) {
    const node = this.tree.byId.get(this.active.peek() ?? "");
    if (!node) return this.goAt(this.box.scrollTop);
    const top = this.tree.topOf(node);
    const H = this.tree.sizes.row();
    this.goAt(by > 0 ? top + H + node.extra + (by - 1) * H : top - 1 + (by + 1) * H);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if ((event.target !== this.box && event.key !== "Escape") || event.metaKey || event.ctrlKey || event.altKey) return;
    const node = this.tree.byId.get(this.active.peek() ?? "");
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.tree.sizes.row()) - 1);
    const chosen = [...this.state.selected.peek()];
    const meant = chosen.length ? chosen : node ? [node.item.id] : [];
    /** @type {Record<string, () => void>} */
    const does = {
      ArrowDown: () => this.step(1),
      ArrowUp: () => this.step(-1),
      PageDown: () => this.step(page),
      PageUp: () => this.step(-page),
      Home: () => this.goAt(0),
      End: () => this.goAt(Infinity),
      ArrowRight: () => {
        if (!node || !this.opens(node)) return;
        if (node.below?.open) this.step(1);
        else this.toggle(node);
      },
      ArrowLeft: () => {
        if (node?.below?.open) this.toggle(node);
        else if (node?.parent.node) this.goTo(node.parent.node);
      },
      Enter: () => node && this.acts.open(node.item),
      " ": () => node && this.select(node),
      r: () => meant.length && this.acts.reindex(meant),
      Delete: () => meant.length && this.acts.remove(meant),
      Escape: () => {
        this.state.selected.value = new Set();
      },
    };
    const act = does[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}
