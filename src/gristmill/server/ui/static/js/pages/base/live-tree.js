// @ts-check
/** The tree of a base, kept up to date: filtered by the URL, and changed by the live stream. */

import { api } from "../../api.js";
import { isContainer } from "../../components/status.js";
import { computed, effect, html, signal } from "../../core.js";
import { live } from "../../live.js";
import { setQuery } from "../../router.js";
import { Tree } from "../../tree/model.js";
import { rowNote } from "../../tree/row.js";
import { STATUSES } from "./toolbar.js";

/** @import { LiveRoute } from "../../router.js" */
/** @import { Branch } from "../../tree/model.js" */
/** @import { TreeView } from "../../tree/view.js" */

const phone = matchMedia("(width < 720px)");
export const isPhone = signal(phone.matches);
phone.addEventListener("change", () => {
  isPhone.value = phone.matches;
});
const LINE_HEIGHT = 16; // pixels, of the lines below a name
const MAX_HEIGHTS = 5000; // kept, of texts that were measured
const REFRESH_DELAY = 700; // milliseconds between two fetches of a growing branch
// The stream has neither the progress of containers nor the reason why a document waits.
const CONTAINER_INTERVAL = 1000; // milliseconds between two fetches of unfinished containers
const LEAF_TICKS = 3; // unfinished documents are fetched with every third of these
const MAX_REFRESHED = 60; // rows

/** @param {string} id @param {LiveRoute} route */
export function createTree(id, route) {
  const measure = noteMeasure();
  const tree = new Tree(id, {
    row: () => (isPhone.peek() ? 58 : 34),
    extra: (item, depth) => {
      const text = rowNote(item);
      return text ? measure(text, depth) : 0;
    },
  });
  for (const opened of (route.peek().query.get("open") ?? "").split(",").filter(Boolean)) tree.idsToOpen.add(opened);
  const filter = computed(() =>
    JSON.stringify(["filter", "find", "tag", "sort"].map((name) => route.value.query.get(name) ?? ""))
  );
  effect(
    () => filter.value,
    (combined) => {
      const [kind, q, tag, sort] = JSON.parse(combined);
      const openIds = tree.filter ? [] : tree.openIds();
      for (const openId of openIds) tree.idsToOpen.add(openId);
      const order = sort ? { sort: sort.replace("-", ""), descending: sort.startsWith("-") } : null;
      tree.show(kind || q || tag ? { status: STATUSES[kind] ?? [], q, tag } : null, order);
    },
  );
  effect(
    () => tree.changed.value,
    () => {
      if (!tree.filter && tree.root.pages.get(0) === "loaded") {
        setQuery({ open: tree.openIds().slice(0, 20).join(",") });
      }
    },
  );
  return tree;
}

/**
 * The height of the lines below a name. The browser lays them out in a hidden row, because an estimate would leave a
 * gap below the text or cut it off.
 * @returns {(text: string, depth: number) => number}
 */
function noteMeasure() {
  const line = /** @type {HTMLElement} */ (html`<p class="note"></p>`);
  const row = /** @type {HTMLElement} */ (html`<div class="item-row measure" aria-hidden="true">${line}</div>`);
  /** @type {Map<string, number>} */ const heights = new Map();
  return (text, depth) => {
    const body = document.querySelector(".tree-body");
    if (!body) return LINE_HEIGHT;
    const key = `${body.clientWidth} ${depth} ${text}`;
    let height = heights.get(key);
    if (height === undefined) {
      if (row.previousElementSibling !== body) body.after(row);
      row.style.setProperty("--depth", String(depth));
      line.textContent = text;
      height = line.offsetHeight;
      if (heights.size >= MAX_HEIGHTS) heights.clear();
      heights.set(key, height);
    }
    return height;
  };
}

/** @param {string} id @param {Tree} tree @param {TreeView} view */
export function followChanges(id, tree, view) {
  /** @type {Set<Branch>} */ const stale = new Set();
  /** @type {ReturnType<typeof setTimeout> | undefined} */ let timer;
  const refreshStale = async () => {
    const branches = [...stale];
    stale.clear();
    await Promise.all(branches.map((branch) => tree.refresh(branch, view.visibleIndexes(branch))));
    timer = stale.size ? setTimeout(refreshStale, REFRESH_DELAY) : undefined;
  };
  effect(() =>
    live.on({ base: id }, (changes) => {
      /** @type {any[]} */ const items = [];
      for (const change of changes) {
        if (change.type === "item") items.push(change.item);
        else if (change.type === "reload") tree.branches().forEach((branch) => stale.add(branch));
        else if (change.event.type === "ItemsDeleted") tree.remove(change.event.data.rootIds ?? []);
        else if (change.event.type === "ItemsMoved") {
          if (change.event.data.fromBaseId === id) tree.remove(change.event.data.rootIds ?? []);
          else for (const moved of change.event.data.rootIds ?? []) tree.removedIds.delete(moved);
          tree.branches().forEach((branch) => stale.add(branch));
        }
      }
      for (const branch of tree.apply(items)) stale.add(branch);
      if (stale.size) timer ??= setTimeout(refreshStale, REFRESH_DELAY);
    })
  );
  let ticks = 0;
  const interval = setInterval(() => refreshUnfinished(id, tree, view, ++ticks % LEAF_TICKS === 0), CONTAINER_INTERVAL);
  effect(() => () => {
    clearInterval(interval);
    clearTimeout(timer);
  });
}

/**
 * Fetches the visible rows that are unfinished.
 * @param {string} id @param {Tree} tree @param {TreeView} view @param {boolean} withLeaves
 */
async function refreshUnfinished(id, tree, view, withLeaves) {
  if (document.hidden) return;
  const unfinished = view.rows.peek().filter(({ item }) =>
    item && (withLeaves || isContainer(item.type)) && !["completed", "failed"].includes(item.status)
  );
  if (!unfinished.length) return;
  try {
    const response = await api.get(`/knowledge-bases/${id}/tree`, {
      ids: unfinished.slice(0, MAX_REFRESHED).map((row) => row.key),
    });
    tree.apply(response.items);
  } catch {
    // the banner says that the server can't be reached; the next interval tries again
  }
}
