// @ts-check
/**
 * The tree on the page: a treegrid with only the visible rows in the document. Rows are updated in place, once per
 * frame. Focus stays on the grid, which names the active row, so that scrolling does not lose it.
 */

import { each, effect, html, signal } from "../core.js";
import { t } from "../i18n.js";
import { emptyState, isContainer } from "../components/status.js";
import { showError } from "../components/toast.js";
import { createRow } from "./row.js";

/** @import { Signal } from "../core.js" */
/** @import { Selection } from "../pages/base/selection.js" */
/** @import { Branch, Item, Row, Tree } from "./model.js" */

/** @typedef {import("./model.js").Node} Node */
/** @typedef {{key: string, top: number, height: number, depth: number, index: number, size: number, node: Node | null,
 *   item: Item | null, open: boolean, ordinal: number}} VisibleRow */
/** @typedef {{open(item: Item): void, reindex(ids: string[]): void, remove(ids: string[]): void,
 *   rename(item: Item): Promise<void>, move(ids: string[]): Promise<void>, tag(ids: string[]): Promise<void>,
 *   filterByTag(tag: string): void, selectAll(): void}} TreeActions */

const FETCH_DELAY = 60; // milliseconds until rows that became visible are fetched
const OVERSCAN = 240; // pixels of rows rendered above and below the visible ones, for quick scrolls

export class TreeView {
  /**
   * @param {Tree} tree @param {TreeActions} actions
   * @param {{selection: Selection, current: () => string | null, isPhone: () => boolean,
   *   canChange: () => boolean}} state
   */
  constructor(tree, actions, state) {
    this.tree = tree;
    this.actions = actions;
    this.state = state;
    this.isPhone = state.isPhone;
    this.rows = signal(/** @type {VisibleRow[]} */ ([]));
    this.active = signal(/** @type {string | null} */ (null));
    this.totalHeight = signal(0);
    this.count = signal(0);
    this.isScheduled = false;
    this.width = 0;
    this.isOpening = false; // a dialog: until it is open, keys are not for the rows
    this.epoch = tree.epoch;
    /** @type {ReturnType<typeof setTimeout> | undefined} */ this.fetchTimer = undefined;
    /** @type {Row[]} */ this.missing = [];
    /** @type {Map<string, VisibleRow>} */ this.previousRows = new Map();
    /** @type {{branch: Branch, index: number} | null} */ this.awaited = null;
    /** @type {{id: string, parent: Branch, index: number} | null} where a range begins, also if it is not loaded now */
    this.selectedLast = null;
    /** @type {{node: Node, from: number} | null} the first visible row, and how far it is scrolled out */
    this.anchor = null;
    this.box = /** @type {HTMLElement} */ (this.render());
    effect(
      () => tree.changed.value,
      () => this.scheduleUpdate(),
    );
    const observer = new ResizeObserver(() => this.handleResize());
    effect(() => {
      observer.observe(this.box);
      return () => observer.disconnect();
    });
  }

  render() {
    const onkeydown = (/** @type {KeyboardEvent} */ event) => this.handleKey(event);
    const onfocus = () => {
      if (!this.active.peek()) this.active.value = this.rows.peek()[0]?.node?.item.id ?? null;
    };
    const isActiveShown = () => this.rows.value.some((row) => row.item && row.key === this.active.value);
    const rows = each(() => this.rows.value, (row) => row.key, (row) => createRow(row, this));
    const failure = () => {
      const error = this.tree.error.value;
      return error && !this.rows.value.length ? emptyState("warn", t("Can't load the items"), error.message) : null;
    };
    return html`
      <div
        class="tree scroll"
        role="treegrid"
        tabindex="0"
        aria-label="${t("Items")}"
        aria-multiselectable="${() => String(this.state.canChange())}"
        aria-colcount="5"
        aria-rowcount="${() => this.count.value}"
        aria-activedescendant=${() => (isActiveShown() ? `row-${this.active.value}` : null)}
        @scroll=${() => this.onscroll()}
        @keydown=${onkeydown}
        @focus=${onfocus}
      >
        <div class="tree-body" role="rowgroup" style.height=${() => `${this.totalHeight.value}px`}>${rows}</div>
        ${failure}
      </div>
    `;
  }

  /** Updates the rows in the next frame, once for all changes until then. */
  scheduleUpdate() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      if (this.epoch !== this.tree.epoch) this.box.scrollTop = 0; // a new filter starts at its first row
      this.epoch = this.tree.epoch;
      const arrived = this.awaited?.branch.rows.get(this.awaited.index);
      if (arrived) this.activate(arrived); // rows that arrived with it may have moved it
      else this.keepAnchor();
      this.updateRows();
    });
  }

  handleResize() {
    const { clientWidth } = this.box;
    if (this.width !== clientWidth) this.tree.remeasure(); // lines wrap elsewhere
    this.width = clientWidth;
    this.scheduleUpdate();
  }

  onscroll() {
    this.anchor = null;
    this.scheduleUpdate();
  }

  /** Keeps the first visible row in place when rows above it change. */
  keepAnchor() {
    const { anchor, box } = this;
    if (!anchor || !box.scrollTop || this.tree.byId.get(anchor.node.item.id) !== anchor.node) return;
    const shift = this.tree.topOf(anchor.node) + anchor.from - box.scrollTop;
    if (Math.abs(shift) < 1) return;
    this.resizeBody();
    box.scrollTop += shift;
  }

  /** Sets the height of all rows now, not with the next flush: the browser can't scroll beyond the content. */
  resizeBody() {
    this.totalHeight.value = this.tree.height(this.tree.root);
    /** @type {HTMLElement} */ (this.box.firstElementChild).style.height = `${this.totalHeight.peek()}px`;
  }

  updateRows() {
    const { tree, box } = this;
    const from = box.scrollTop;
    const to = from + box.clientHeight + OVERSCAN;
    /** @type {VisibleRow[]} */ const visible = [];
    /** @type {Row[]} */ const missing = [];
    this.anchor = null;
    let row = tree.rowAt(Math.max(0, from - OVERSCAN));
    while (row && row.top < to) {
      if (!row.node) missing.push(row);
      const { node, branch, index, top, height } = row;
      if (node && !this.anchor && top + height > from) this.anchor = { node, from: from - top };
      visible.push(
        this.reuseUnchanged({
          key: node?.item.id ?? `${branch.id}:${index}`,
          top,
          height,
          depth: branch.depth,
          index,
          size: branch.total,
          node: node ?? null,
          item: node?.item ?? null,
          open: Boolean(node?.children?.open),
          ordinal: Math.round(top / tree.sizes.row()),
        }),
      );
      row = tree.rowAt(top + height);
    }
    this.totalHeight.value = tree.height(tree.root);
    this.count.value = tree.count(tree.root);
    this.previousRows = new Map(visible.map((row) => [row.key, row]));
    this.rows.value = visible;
    this.missing = missing;
    if (missing.length) this.fetchTimer ??= setTimeout(() => this.fetchMissing(), FETCH_DELAY);
  }

  /** @param {VisibleRow} row Returns the previous object if nothing changed, so that the row is not rendered again. */
  reuseUnchanged(row) {
    const previous = this.previousRows.get(row.key);
    const keys = /** @type {(keyof VisibleRow)[]} */ (Object.keys(row));
    return previous && keys.every((key) => previous[key] === row[key]) ? previous : row;
  }

  /** @param {Branch} branch @returns {number[]} the indexes of its visible rows */
  visibleIndexes(branch) {
    return this.rows.peek().flatMap((row) => (row.node?.parent === branch ? [row.index] : []));
  }

  /** Fetches what is visible now, not what a quick scroll has passed. */
  fetchMissing() {
    this.fetchTimer = undefined;
    for (const row of this.missing) this.tree.ensureFetched(row);
  }

  /** @param {Node} node */
  toggle(node) {
    if (!this.canExpand(node)) return;
    if (node.children?.open) this.tree.close(node);
    else this.tree.open(node);
  }

  /** @param {Node} node Whether it can have children. */
  canExpand(node) {
    return !this.tree.filter && (isContainer(node.item.type) || (node.item.childCount ?? 0) > 0);
  }

  /** @param {string} id */
  isSelected(id) {
    const { all, ids } = this.state.selection;
    return all.value || ids.value.has(id);
  }

  /**
   * @param {Node} node @param {boolean} [range] to this row, however many are between: from the active one, or from the
   *   last selected one if keys have moved here from there
   */
  async select(node, range = false) {
    if (!this.state.canChange()) return; // there is nothing to do with a selection
    const { selectedLast } = this;
    const { all, ids, spellOut } = this.state.selection;
    if (all.peek() && (range || !(await spellOut()))) return;
    const isByKeys = this.active.peek() === node.item.id && ids.peek().has(selectedLast?.id ?? "");
    const from = (isByKeys ? selectedLast?.id : this.active.peek()) ?? "";
    const last = this.tree.byId.get(from) ?? (selectedLast?.id === from ? selectedLast : null);
    const rows = this.rows.peek().filter((row) => row.node);
    const [a, b] = [last, node].map((end) => rows.findIndex((row) => row.node === end));
    this.active.value = node.item.id;
    this.selectedLast = { id: node.item.id, parent: node.parent, index: node.index };
    if (range && a >= 0 && b >= 0) {
      return this.addToSelection(rows.slice(Math.min(a, b), Math.max(a, b) + 1).map((row) => row.key));
    }
    if (range && last?.parent === node.parent) {
      const [from, to] = [last.index, node.index].sort((x, y) => x - y);
      return this.addToSelection(await this.tree.idsBetween(node.parent, from, to).catch(showError) ?? []);
    }
    const selection = new Set(ids.peek());
    if (!selection.delete(node.item.id)) selection.add(node.item.id);
    ids.value = selection;
  }

  /** @param {string[]} ids */
  addToSelection(ids) {
    const { selection } = this.state;
    selection.ids.value = new Set([...selection.ids.peek(), ...ids]);
  }

  /** @param {number} y Activates the row at that position as soon as it is loaded, and scrolls it into view. */
  activateAt(y) {
    const row = this.tree.rowAt(Math.max(0, Math.min(this.tree.height(this.tree.root) - 1, y)));
    if (!row) return;
    this.active.value = row.node?.item.id ?? null;
    this.awaited = row.node ? null : { branch: row.branch, index: row.index };
    this.resizeBody();
    const { box } = this;
    if (row.top < box.scrollTop) box.scrollTop = row.top;
    else if (row.top + row.height > box.scrollTop + box.clientHeight) {
      box.scrollTop = row.top + row.height - box.clientHeight;
    }
    this.scheduleUpdate();
  }

  /** @param {Node} node */
  activate(node) {
    this.activateAt(this.tree.topOf(node));
  }

  /** @param {number} by Rows to move down; negative moves up. */
  moveBy(by) {
    const node = this.tree.byId.get(this.active.peek() ?? "");
    if (!node) return this.activateAt(this.box.scrollTop);
    const top = this.tree.topOf(node);
    const H = this.tree.sizes.row();
    this.activateAt(by > 0 ? top + H + node.extra + (by - 1) * H : top - 1 + (by + 1) * H);
  }

  /** @param {Promise<void>} opened Its module may have to be loaded. What is typed meanwhile is dropped. */
  openDialog(opened) {
    this.isOpening = true;
    opened.finally(() => this.isOpening = false);
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    if ((event.metaKey || event.ctrlKey) && event.key === "a" && event.target === this.box && this.state.canChange()) {
      event.preventDefault();
      return this.actions.selectAll();
    }
    if ((event.target !== this.box && event.key !== "Escape") || event.metaKey || event.ctrlKey || event.altKey) return;
    if (this.isOpening) return event.preventDefault();
    const node = this.tree.byId.get(this.active.peek() ?? "");
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.tree.sizes.row()) - 1);
    const selection = [...this.state.selection.ids.peek()];
    const chosen = selection.length ? selection : node ? [node.item.id] : [];
    const targets = this.state.canChange() ? chosen : [];
    /** @type {Record<string, () => void>} */
    const commands = {
      ArrowDown: () => this.moveBy(1),
      ArrowUp: () => this.moveBy(-1),
      PageDown: () => this.moveBy(page),
      PageUp: () => this.moveBy(-page),
      Home: () => this.activateAt(0),
      End: () => this.activateAt(Infinity),
      ArrowRight: () => {
        if (!node || !this.canExpand(node)) return;
        if (node.children?.open) this.moveBy(1);
        else this.toggle(node);
      },
      ArrowLeft: () => {
        if (node?.children?.open) this.toggle(node);
        else if (node?.parent.node) this.activate(node.parent.node);
      },
      Enter: () => node && this.actions.open(node.item),
      " ": () => node && this.select(node, event.shiftKey),
      F2: () => node && targets.length && this.openDialog(this.actions.rename(node.item)),
      m: () => targets.length && this.openDialog(this.actions.move(targets)),
      t: () => targets.length && this.openDialog(this.actions.tag(targets)),
      r: () => targets.length && this.actions.reindex(targets),
      Delete: () => targets.length && this.actions.remove(targets),
      Escape: () => this.state.selection.clear(),
    };
    const command = commands[event.key];
    if (!command) return;
    event.preventDefault();
    command();
  }
}
