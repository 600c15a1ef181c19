// @ts-check
/**
 * The tree of a base, as far as it was viewed. It knows the number and the position of all rows, but holds only the
 * pages of rows that were visible: 100,000 rows cost as much as one screen. Positions are in pixels, because failed
 * rows are taller: they show their error.
 *
 * `changed` increases whenever visible rows may have changed. A page that can't be fetched sets `error`, and is fetched
 * again when it is next visible.
 */

import { api } from "../api.js";
import { signal } from "../core.js";
import { matchesFilter } from "./filter.js";

/** @typedef {{id: string, baseId: string, parentId: string | null, type: string, title: string, status: string,
 *   error: {code: string, message: string} | null, progress: number, waitingFor: Waiting | null, chunkCount: number,
 *   sizeBytes: number | null, version: number | null, warnings: string[], leftOut: Record<string, number>, source: any,
 *   metadata: any, document?: any, refresh?: any, freshness?: any,
 *   createdAt: string, updatedAt: string, childCount?: number, path?: string[]}} Item */
/** @import { Waiting } from "./waiting.js" */
/** @typedef {{item: Item, parent: Branch, index: number, extra: number, children: Branch | null}} Node */
/** @typedef {{id: string | null, node: Node | null, total: number, rows: Map<number, Node>, open: boolean,
 *   pages: Map<number, "loading" | "loaded">, refreshes: number, irregular: Node[] | null, depth: number}} Branch */
/** @typedef {{branch: Branch, index: number, top: number, height: number, node: Node | undefined}} Row */
/** @typedef {{status: string[], q: string, tag?: string}} Filter */
/** @typedef {{sort: string, descending: boolean}} Order */

const PAGE = 100;
const MAX_WINDOW = 500; // rows of one request
const RETRY_DELAY = 2000;
const MAX_CONCURRENT = 3; // pages fetched at once; the browser has six connections in all
/** @param {number} index */
const pageOf = (index) => Math.floor(index / PAGE);
const TERMINAL = new Set(["completed", "failed"]);

export class Tree {
  /** @param {string} base @param {{row: () => number, extra: (item: Item, depth: number) => number}} sizes */
  constructor(base, sizes) {
    this.base = base;
    this.sizes = sizes;
    this.changed = signal(0);
    this.error = signal(/** @type {Error | null} */ (null));
    /** @type {Filter | null} */ this.filter = null;
    /** @type {Order | null} by a column; null: in the order they were added */ this.order = null;
    /** @type {Map<string, Node>} */ this.byId = new Map();
    /** @type {Set<string>} deleted ids; late updates of them are ignored */ this.removedIds = new Set();
    /** @type {Set<string>} containers to open as soon as they are loaded */ this.idsToOpen = new Set();
    this.root = this.createBranch(null);
    this.isHidden = false;
    this.epoch = 0;
    this.activeFetches = 0;
    this.isPausing = false;
    /** Resolves when the first rows are there, or can't be fetched. */
    this.firstRows = new Promise((/** @type {(value: void) => void} */ resolve) => (this.resolveFirstRows = resolve));
  }

  /** @param {Node | null} node @returns {Branch} */
  createBranch(node) {
    const depth = node ? node.parent.depth + 1 : 0;
    return {
      id: node?.item.id ?? null,
      node,
      total: node?.item.childCount ?? 0,
      rows: new Map(),
      open: true,
      pages: new Map(),
      refreshes: 0,
      irregular: null,
      depth,
    };
  }

  notify() {
    this.changed.value++;
  }

  /**
   * @param {Filter | null} filter Shows all matching items as a flat list; null shows the tree.
   * @param {Order | null} [order] @returns {Promise<void>}
   */
  async show(filter, order = null) {
    this.filter = filter;
    this.order = order;
    this.isHidden = false;
    this.clear();
    await this.fetch(this.root, 0);
    this.resolveFirstRows();
  }

  clear() {
    this.epoch++;
    this.byId.clear();
    this.root = this.createBranch(null);
  }

  /** Shows no rows, because all are about to be deleted. @returns {() => void} shows those that there are then */
  hide() {
    this.isHidden = true;
    this.clear();
    this.root.pages.set(0, "loaded");
    this.notify();
    return () => void this.show(this.filter, this.order);
  }

  /** @param {Branch} branch @param {number} page @returns {Promise<void>} */
  async fetch(branch, page) {
    if (this.isHidden || branch.pages.get(page) === "loading") return;
    branch.pages.set(page, "loading");
    this.activeFetches++;
    const [epoch, refreshes] = [this.epoch, branch.refreshes];
    // a response from before a refresh may arrive last
    const isCurrent = () => epoch === this.epoch && refreshes === branch.refreshes;
    try {
      const response = await this.fetchWindow(branch, page * PAGE, PAGE);
      if (isCurrent()) {
        branch.pages.set(page, "loaded");
        this.storeRows(branch, response.offset, response.items, response.total);
        this.error.value = null;
      }
    } catch (error) {
      if (isCurrent()) branch.pages.delete(page);
      this.pauseFetching();
      if (isCurrent()) this.error.value = /** @type {Error} */ (error);
    }
    this.activeFetches--;
    this.notify(); // rows may have waited for this fetch
  }

  /** @param {Branch} branch @param {number} offset @param {number} limit @returns {Promise<any>} */
  fetchWindow(branch, offset, limit) {
    const { status = [], q, tag } = this.filter ?? {};
    const query = this.filter ? { status, q, tag, leaves: status.length > 0 } : { parentId: branch.id };
    return api.get(`/knowledge-bases/${this.base}/tree`, { ...query, ...this.order, offset, limit });
  }

  /**
   * The ids of rows of one branch, also of those that were never visible.
   * @param {Branch} branch @param {number} from @param {number} to the last one @returns {Promise<string[]>}
   */
  async idsBetween(branch, from, to) {
    /** @type {string[]} */ const ids = [];
    let index = from;
    while (index <= to) {
      const node = branch.rows.get(index);
      if (node) {
        ids.push(node.item.id);
        index++;
        continue;
      }
      const response = await this.fetchWindow(branch, index, Math.min(MAX_WINDOW, to - index + 1));
      if (!response.items.length) break;
      ids.push(...response.items.map((/** @type {Item} */ item) => item.id));
      index += response.items.length;
    }
    return ids.filter((id) => !this.removedIds.has(id));
  }

  /** After an error, waits before the next fetch, so as not to load a server in trouble. */
  pauseFetching() {
    this.isPausing = true;
    setTimeout(() => {
      this.isPausing = false;
      this.notify();
    }, RETRY_DELAY);
  }

  /** @param {Branch} branch @param {number} offset @param {Item[]} items @param {number} total */
  storeRows(branch, offset, items, total) {
    const visible = items.filter((item) => !this.removedIds.has(item.id));
    const before = branch.total;
    branch.total = Math.max(0, total - (items.length - visible.length));
    const earlier = this.filter ? [...branch.rows.values()] : [];
    if (branch.total < before) {
      for (const index of [...branch.rows.keys()]) if (index >= branch.total) branch.rows.delete(index);
    }
    for (const [i, item] of visible.entries()) {
      const known = this.byId.get(item.id);
      const node = known?.parent === branch
        ? known
        : { item, parent: branch, index: 0, extra: 0, children: known?.children ?? null };
      if (known === node && node.index !== offset + i && branch.rows.get(node.index) === node) {
        branch.rows.delete(node.index);
      }
      node.index = offset + i;
      branch.rows.set(offset + i, node);
      this.byId.set(item.id, node);
      this.update(node, item);
      if (this.idsToOpen.delete(item.id)) this.open(node);
    }
    // What has left a filtered list is not known any more, or it could not come back.
    for (const node of earlier) if (branch.rows.get(node.index) !== node) this.byId.delete(node.item.id);
    if (branch.node) branch.node.item.childCount = branch.total;
    branch.irregular = null;
  }

  /** Measures the rows again, after the width of the tree has changed. */
  remeasure() {
    for (const node of this.byId.values()) this.updateExtra(node);
    this.notify();
  }

  /** @param {Node} node */
  updateExtra(node) {
    const extra = this.sizes.extra(node.item, node.parent.depth);
    if (extra === node.extra) return;
    node.extra = extra;
    node.parent.irregular = null;
  }

  /** @param {Node} node @param {Item} item */
  update(node, item) {
    const old = node.item;
    if (old !== item && new Date(item.updatedAt) < new Date(old.updatedAt)) return;
    const isRestarted = TERMINAL.has(old.status) && !TERMINAL.has(item.status);
    const progress = isRestarted || item.status === "completed" ? item.progress : Math.max(old.progress, item.progress);
    node.item = { ...item, progress, childCount: item.childCount ?? old.childCount, path: item.path ?? old.path };
    if (node.children && !node.children.open) node.children.total = node.item.childCount ?? node.children.total;
    this.updateExtra(node);
  }

  /**
   * Fetches the visible pages again; the others are dropped, and fetched when they become visible. Visible rows stay
   * until then, and so do open branches.
   * @param {Branch} branch @param {Iterable<number>} [visibleIndexes] indexes of the visible rows
   */
  refresh(branch, visibleIndexes = branch.rows.keys()) {
    if (this.isHidden) return Promise.resolve([]);
    const pages = new Set([...visibleIndexes].map(pageOf));
    if (!pages.size) pages.add(0); // the total has to be known anyhow
    for (const [index, node] of branch.rows) {
      if (pages.has(pageOf(index)) || node.children?.open) continue;
      branch.rows.delete(index);
      this.byId.delete(node.item.id);
    }
    branch.pages.clear();
    branch.refreshes++;
    branch.irregular = null;
    return Promise.all([...pages].map((page) => this.fetch(branch, page)));
  }

  /** @returns {Branch[]} the root and all open branches */
  branches() {
    return [this.root, ...[...this.byId.values()].flatMap((node) => (node.children?.open ? [node.children] : []))];
  }

  /** @param {Item[]} items that have changed @returns {Set<Branch>} branches that have to be refreshed */
  apply(items) {
    /** @type {Set<Branch>} */ const stale = new Set();
    for (const item of items) {
      if (item.status === "deleting") {
        this.remove([item.id]);
        continue;
      }
      const node = this.byId.get(item.id);
      if (node && !this.filter && (node.item.parentId ?? null) !== (item.parentId ?? null)) {
        stale.add(node.parent); // it was moved to another folder
        const target = item.parentId ? this.byId.get(item.parentId)?.children : this.root;
        if (target?.open) stale.add(target);
      } else if (node) {
        const { title } = node.item;
        this.update(node, item);
        const isElsewhere = this.order?.sort === "title" && title !== node.item.title;
        if (isElsewhere || !matchesFilter(node.item, this.filter)) stale.add(node.parent);
      } else if (!this.removedIds.has(item.id)) {
        const parent = item.parentId ? this.byId.get(item.parentId) : null;
        if (this.filter || !item.parentId) stale.add(this.root);
        else if (parent?.children?.open) stale.add(parent.children);
        else if (parent) stale.add(parent.parent); // its child count changed
      }
    }
    this.notify();
    return stale;
  }

  /** @param {string[]} ids Removes rows. @returns {() => void} restores them */
  remove(ids) {
    /** @type {Node[]} */ const removed = [];
    for (const id of ids) {
      this.removedIds.add(id);
      const node = this.byId.get(id);
      if (!node || node.parent.rows.get(node.index) !== node) continue;
      removed.push(node);
      this.shift(node, -1);
      this.byId.delete(id);
    }
    this.notify();
    return () => {
      for (const id of ids) this.removedIds.delete(id);
      for (const node of removed.reverse()) {
        this.shift(node, 1);
        this.byId.set(node.item.id, node);
      }
      this.notify();
    };
  }

  /** @param {Node} node @param {1 | -1} by */
  shift(node, by) {
    const { parent, index } = node;
    /** @type {Map<number, Node>} */ const rows = new Map();
    for (const sibling of parent.rows.values()) {
      if (by < 0 && sibling === node) continue;
      if (sibling.index >= index) sibling.index += by;
      rows.set(sibling.index, sibling);
    }
    if (by > 0) rows.set(index, node);
    parent.rows = rows;
    parent.total += by;
    parent.irregular = null;
    if (parent.node) parent.node.item.childCount = parent.total;
  }

  /** @param {Node} node */
  open(node) {
    node.children ??= this.createBranch(node);
    node.children.open = true;
    node.parent.irregular = null;
    this.fetch(node.children, 0);
    this.notify();
  }

  /** @param {Node} node */
  close(node) {
    if (node.children) node.children.open = false;
    node.parent.irregular = null;
    this.notify();
  }

  /** @returns {string[]} the containers that are open */
  openIds() {
    return [...this.byId.values()].filter((node) => node.children?.open).map((node) => node.item.id);
  }

  /** @param {Branch} branch Children that take more than one plain row: taller ones and open ones. @returns {Node[]} */
  irregularRows(branch) {
    if (!branch.irregular) {
      const irregular = [...branch.rows.values()].filter((node) => node.extra || node.children?.open);
      branch.irregular = irregular.sort((a, b) => a.index - b.index);
    }
    return branch.irregular;
  }

  /** @param {Branch} branch @returns {number} the height of all rows below it */
  height(branch) {
    let height = branch.total * this.sizes.row();
    for (const node of this.irregularRows(branch)) {
      height += node.extra + (node.children?.open ? this.height(node.children) : 0);
    }
    return height;
  }

  /** @param {Branch} branch @returns {number} how many rows are below it */
  count(branch) {
    let count = branch.total;
    for (const node of this.irregularRows(branch)) count += node.children?.open ? this.count(node.children) : 0;
    return count;
  }

  /**
   * @param {number} y @param {Branch} [branch] @param {number} [base] @returns {Row | null} the row at that position
   */
  rowAt(y, branch = this.root, base = 0) {
    const H = this.sizes.row();
    let extraAbove = 0;
    for (const node of this.irregularRows(branch)) {
      const top = base + node.index * H + extraAbove;
      if (y < top) break;
      const ownHeight = H + node.extra;
      if (y < top + ownHeight) return { branch, index: node.index, top, height: ownHeight, node };
      const childrenHeight = node.children?.open ? this.height(node.children) : 0;
      if (node.children && y < top + ownHeight + childrenHeight) return this.rowAt(y, node.children, top + ownHeight);
      extraAbove += node.extra + childrenHeight;
    }
    const index = Math.floor((y - base - extraAbove) / H);
    if (index < 0 || index >= branch.total) return null;
    return { branch, index, top: base + index * H + extraAbove, height: H, node: branch.rows.get(index) };
  }

  /** @param {Node} node @returns {number} the top of its row */
  topOf(node) {
    const H = this.sizes.row();
    const parentNode = node.parent.node;
    let top = parentNode ? this.topOf(parentNode) + H + parentNode.extra : 0;
    for (const sibling of this.irregularRows(node.parent)) {
      if (sibling.index >= node.index) break;
      top += sibling.extra + (sibling.children?.open ? this.height(sibling.children) : 0);
    }
    return top + node.index * H;
  }

  /** @param {Row} row Fetches its page, unless that is under way. */
  ensureFetched(row) {
    const page = pageOf(row.index);
    if (!this.isPausing && this.activeFetches < MAX_CONCURRENT && row.branch.pages.get(page) !== "loading") {
      this.fetch(row.branch, page);
    }
  }
}
