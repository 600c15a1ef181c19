// @ts-check
/**
 * The tree of a base as far as somebody looked at it. It knows how many rows there are and where each stands, but holds
 * only those of windows that were shown: 100,000 rows cost what a screen of them costs. Positions are in pixels, for rows
 * that failed are taller by their error.
 *
 * `changed` moves whenever something that is shown may be another. What can't be fetched is told once, in `error`, and
 * fetched again when it is next looked at.
 */

import { api } from "../api.js";
import { signal } from "../core.js";

/** @typedef {{id: string, baseId: string, parentId: string | null, type: string, title: string, status: string,
 *   error: {code: string, message: string} | null, progress: number, waitingFor: string | null, chunkCount: number,
 *   sizeBytes: number | null, version: number | null, warnings: string[], leftOut: Record<string, number>, source: any,
 *   metadata: any, createdAt: string, updatedAt: string, childCount?: number, path?: string[]}} Item */
/** @typedef {{item: Item, parent: Branch, index: number, extra: number, below: Branch | null}} Node */
/** @typedef {{id: string | null, node: Node | null, total: number, rows: Map<number, Node>, open: boolean,
 *   pages: Map<number, "asked" | "here">, special: Node[] | null, depth: number}} Branch */
/** @typedef {{branch: Branch, index: number, top: number, height: number, node: Node | undefined}} Row */
/** @typedef {{status: string[], q: string}} Filter */

const PAGE = 100;
const REST = 2000;
const AT_ONCE = 3; // windows that are fetched together; the browser has six connections for all
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
    /** @type {Map<string, Node>} */ this.byId = new Map();
    /** @type {Set<string>} ids that are gone, whatever still arrives of them */ this.gone = new Set();
    /** @type {Set<string>} containers to open as soon as they are here */ this.wanted = new Set();
    this.root = this.branch(null);
    this.epoch = 0;
    this.fetching = 0;
    this.resting = false;
  }

  /** @param {Node | null} node @returns {Branch} */
  branch(node) {
    const depth = node ? node.parent.depth + 1 : 0;
    return { id: node?.item.id ?? null, node, total: node?.item.childCount ?? 0, rows: new Map(), open: true, pages: new Map(), special: null, depth };
  }

  touch() {
    this.changed.value++;
  }

  /** @param {Filter | null} filter Shows all that fits it, flat; null is the tree. @returns {Promise<void>} */
  async show(filter) {
    this.filter = filter;
    this.epoch++;
    this.byId.clear();
    this.root = this.branch(null);
    await this.fetch(this.root, 0);
  }

  // ── fetching ──────────────────────────────────────────────────────────────────────────────────────────

  /** @param {Branch} branch @param {number} page @returns {Promise<void>} */
  async fetch(branch, page) {
    if (branch.pages.get(page) === "asked") return;
    branch.pages.set(page, "asked");
    this.fetching++;
    const epoch = this.epoch;
    try {
      const { status = [], q } = this.filter ?? {};
      const query = this.filter ? { status, q, leaves: status.length > 0 } : { parentId: branch.id };
      const found = await api.get(`/knowledge-bases/${this.base}/tree`, { ...query, offset: page * PAGE, limit: PAGE });
      if (epoch !== this.epoch) return void this.fetching--;
      branch.pages.set(page, "here");
      this.place(branch, found.offset, found.items, found.total);
      this.error.value = null;
    } catch (error) {
      branch.pages.delete(page);
      this.rest();
      if (epoch === this.epoch) this.error.value = /** @type {Error} */ (error);
    }
    this.fetching--;
    this.touch();
  }

  /** After a refusal nothing is asked for a while: who can't answer is not helped by being asked at once. */
  rest() {
    this.resting = true;
    setTimeout(() => {
      this.resting = false;
      this.touch();
    }, REST);
  }

  /** @param {Branch} branch @param {number} offset @param {Item[]} items @param {number} total */
  place(branch, offset, items, total) {
    const shown = items.filter((item) => !this.gone.has(item.id));
    const before = branch.total;
    branch.total = Math.max(0, total - (items.length - shown.length));
    if (branch.total < before) for (const index of [...branch.rows.keys()]) if (index >= branch.total) branch.rows.delete(index);
    for (const [i, item] of shown.entries()) {
      const known = this.byId.get(item.id);
      const node = known?.parent === branch ? known : { item, parent: branch, index: 0, extra: 0, below: known?.below ?? null };
      if (known === node && node.index !== offset + i && branch.rows.get(node.index) === node) branch.rows.delete(node.index);
      node.index = offset + i;
      branch.rows.set(offset + i, node);
      this.byId.set(item.id, node);
      this.update(node, item);
      if (this.wanted.delete(item.id)) this.open(node);
    }
    if (branch.node) branch.node.item.childCount = branch.total;
    branch.special = null;
  }

  /** @param {Node} node @param {Item} item */
  update(node, item) {
    const old = node.item;
    if (old !== item && new Date(item.updatedAt) < new Date(old.updatedAt)) return;
    const anew = TERMINAL.has(old.status) && !TERMINAL.has(item.status);
    const progress = anew || item.status === "completed" ? item.progress : Math.max(old.progress, item.progress);
    node.item = { ...item, progress, childCount: item.childCount ?? old.childCount, path: item.path ?? old.path };
    if (node.below && !node.below.open) node.below.total = node.item.childCount ?? node.below.total;
    const extra = this.sizes.extra(node.item, node.parent.depth);
    if (extra !== node.extra) {
      node.extra = extra;
      node.parent.special = null;
    }
  }

  /**
   * Fetches the windows that are in sight anew; the others are forgotten, and fetched when somebody looks. Rows stay until
   * then, and so does what is open.
   * @param {Branch} branch @param {Iterable<number>} [seen] places of rows that are in sight
   */
  renew(branch, seen = branch.rows.keys()) {
    const pages = new Set([...seen].map(pageOf));
    if (!pages.size) pages.add(0); // how many there are has to be known anyhow
    for (const [index, node] of branch.rows) {
      if (pages.has(pageOf(index)) || node.below?.open) continue;
      branch.rows.delete(index);
      this.byId.delete(node.item.id);
    }
    branch.pages.clear();
    branch.special = null;
    return Promise.all([...pages].map((page) => this.fetch(branch, page)));
  }

  /** @returns {Branch[]} all that is open */
  branches() {
    return [this.root, ...[...this.byId.values()].flatMap((node) => (node.below?.open ? [node.below] : []))];
  }

  // ── what happens ──────────────────────────────────────────────────────────────────────────────────────

  /**
   * Takes over changed items. Those that are not known yet have their branch fetched anew.
   * @param {Item[]} items @returns {Set<Branch>} branches that have to be renewed
   */
  apply(items) {
    /** @type {Set<Branch>} */ const stale = new Set();
    for (const item of items) {
      if (item.status === "deleting") {
        this.remove([item.id]);
        continue;
      }
      const node = this.byId.get(item.id);
      if (node) this.update(node, item);
      else if (!this.gone.has(item.id)) {
        const above = item.parentId ? this.byId.get(item.parentId) : null;
        if (this.filter || !item.parentId) stale.add(this.root);
        else if (above?.below?.open) stale.add(above.below);
        else if (above) stale.add(above.parent); // its number of items is another
      }
    }
    this.touch();
    return stale;
  }

  /** @param {string[]} ids Takes rows out. @returns {() => void} puts them back */
  remove(ids) {
    /** @type {Node[]} */ const taken = [];
    for (const id of ids) {
      this.gone.add(id);
      const node = this.byId.get(id);
      if (!node || node.parent.rows.get(node.index) !== node) continue;
      taken.push(node);
      this.shift(node, -1);
      this.byId.delete(id);
    }
    this.touch();
    return () => {
      for (const id of ids) this.gone.delete(id);
      for (const node of taken.reverse()) {
        this.shift(node, 1);
        this.byId.set(node.item.id, node);
      }
      this.touch();
    };
  }

  /** @param {Node} node @param {1 | -1} by */
  shift(node, by) {
    const { parent, index } = node;
    /** @type {Map<number, Node>} */ const rows = new Map();
    for (const one of parent.rows.values()) {
      if (by < 0 && one === node) continue;
      if (one.index >= index) one.index += by;
      rows.set(one.index, one);
    }
    if (by > 0) rows.set(index, node);
    parent.rows = rows;
    parent.total += by;
    parent.special = null;
    if (parent.node) parent.node.item.childCount = parent.total;
  }

  /** @param {Node} node */
  open(node) {
    node.below ??= this.branch(node);
    node.below.open = true;
    node.parent.special = null;
    this.fetch(node.below, 0);
    this.touch();
  }

  /** @param {Node} node */
  close(node) {
    if (node.below) node.below.open = false;
    node.parent.special = null;
    this.touch();
  }

  /** @returns {string[]} the containers that are open */
  opened() {
    return [...this.byId.values()].filter((node) => node.below?.open).map((node) => node.item.id);
  }

  // ── where rows stand ──────────────────────────────────────────────────────────────────────────────────

  /** @param {Branch} branch Children that are not one plain row: taller ones, and open ones. @returns {Node[]} */
  special(branch) {
    if (!branch.special) {
      const found = [...branch.rows.values()].filter((node) => node.extra || node.below?.open);
      branch.special = found.sort((a, b) => a.index - b.index);
    }
    return branch.special;
  }

  /** @param {Branch} branch @returns {number} the height of all rows below it */
  height(branch) {
    let all = branch.total * this.sizes.row();
    for (const node of this.special(branch)) all += node.extra + (node.below?.open ? this.height(node.below) : 0);
    return all;
  }

  /** @param {Branch} branch @returns {number} how many rows are below it */
  count(branch) {
    let all = branch.total;
    for (const node of this.special(branch)) all += node.below?.open ? this.count(node.below) : 0;
    return all;
  }

  /** @param {number} y @param {Branch} [branch] @param {number} [base] @returns {Row | null} the row at a height */
  at(y, branch = this.root, base = 0) {
    const H = this.sizes.row();
    let more = 0;
    for (const node of this.special(branch)) {
      const top = base + node.index * H + more;
      if (y < top) break;
      const own = H + node.extra;
      if (y < top + own) return { branch, index: node.index, top, height: own, node };
      const inner = node.below?.open ? this.height(node.below) : 0;
      if (node.below && y < top + own + inner) return this.at(y, node.below, top + own);
      more += node.extra + inner;
    }
    const index = Math.floor((y - base - more) / H);
    if (index < 0 || index >= branch.total) return null;
    return { branch, index, top: base + index * H + more, height: H, node: branch.rows.get(index) };
  }

  /** @param {Node} node @returns {number} where its row begins */
  topOf(node) {
    const H = this.sizes.row();
    const above = node.parent.node;
    let top = above ? this.topOf(above) + H + above.extra : 0;
    for (const one of this.special(node.parent)) {
      if (one.index >= node.index) break;
      top += one.extra + (one.below?.open ? this.height(one.below) : 0);
    }
    return top + node.index * H;
  }

  /** @param {Row} row Has its window fetched, if it is not here. */
  need(row) {
    const page = pageOf(row.index);
    if (!this.resting && this.fetching < AT_ONCE && row.branch.pages.get(page) !== "asked") this.fetch(row.branch, page);
  }
}
