// @ts-check
/**
 * One base: its figures, what waits for a hand, its tree, and beside it the search or an item. Changes come by the live
 * stream, in batches; what can't be known from it is fetched at most once a second.
 */

import { all, api } from "../api.js";
import { baseOf, bases, renewBases } from "../bases.js";
import { computed, effect, html, signal } from "../core.js";
import { t } from "../i18n.js";
import { live } from "../live.js";
import { button, iconButton } from "../parts/button.js";
import { kebab } from "../parts/menu.js";
import { empty, holds, titled } from "../parts/status.js";
import { segments } from "../parts/tabs.js";
import { refused } from "../parts/toast.js";
import { go, setQuery } from "../router.js";
import { Tree } from "../tree/model.js";
import { note } from "../tree/row.js";
import { TreeView } from "../tree/view.js";
import { reindex, remove } from "./base/acts.js";
import { searchPane } from "./base/search.js";
import { banners, queueOf, summary } from "./base/summary.js";
import { STATUSES, toolbar } from "./base/toolbar.js";
import { dropZone, uploads } from "./base/upload.js";

const phone = matchMedia("(width < 720px)");
const small = signal(phone.matches);
phone.addEventListener("change", () => {
  small.value = phone.matches;
});
const REST = 700; // between two fetches of a branch that grows
const LOOK = 1000; // between two looks at containers, whose percentage no stream tells

/** @param {import("../router.js").LiveRoute} route */
export function page(route) {
  const id = route.peek().params.base;
  const base = baseOf(() => id);
  titled(() => base.value?.name ?? t("Base"));
  const missing = computed(() => bases.value !== null && !base.value);
  return html`<div class="page">${() =>
    missing.value
      ? empty("base", t("There is no such base"), t("It may have been deleted."), html`<a class="button line" href="/">${t("All bases")}</a>`)
      : built(id, base, route)}</div>`;
}

/** @param {string} id @param {import("../core.js").Computed<import("../bases.js").Base | null>} base @param {import("../router.js").LiveRoute} route */
function built(id, base, route) {
  const current = computed(() => route.value.params.item ?? null);
  const selected = signal(/** @type {Set<string>} */ (new Set()));
  const tree = treeOf(id, route);
  const queue = queueOf(id);
  const acts = {
    /** @param {{id: string}} item */
    open: (item) => go(`/b/${id}/i/${item.id}${location.search}`),
    /** @param {string[]} ids */
    reindex: (ids) => reindex(id, ids, tree),
    /** @param {string[]} ids */
    remove: async (ids) => {
      selected.value = new Set([...selected.peek()].filter((one) => !ids.includes(one)));
      if (ids.includes(current.peek() ?? "")) go(`/b/${id}${location.search}`);
      await remove(id, ids, tree);
    },
  };
  const view = new TreeView(tree, acts, { selected, current: () => current.value, small: () => small.value });
  follow(id, tree, view);
  const searching = computed(() => current.value !== null || (route.value.query.get("pane") ?? (route.value.query.get("q") ? "search" : "items")) === "search");
  effect(
    () => route.value.query.get("add"),
    async (kind) => {
      if (kind) (await import("./base/add.js")).openAdd(id, kind, tree);
    },
  );
  const add = () => setQuery({ add: "file" });
  return html`<div class="base ${() => (searching.value ? "show-pane" : "show-items")}" @keydown=${(/** @type {KeyboardEvent} */ event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.key === "a" && !event.metaKey && !event.ctrlKey && !target.closest("input, textarea, select")) {
      event.preventDefault();
      add();
    }
  }}>
    <div class="top"><h1 class="crumbs"><a href="/">${t("Bases")}</a><span class="sep">/</span><span class="cut">${() => base.value?.name ?? ""}</span></h1>
      <div class="actions">${kebab(t("More"), () => [
        { label: t("Reindex all"), icon: "retry", act: () => reindexAll(id, tree) },
        { label: t("Settings"), icon: "gear", act: () => go(`/b/${id}/settings`) },
      ])}<span class="hide-phone">${iconButton(t("Settings"), "gear", () => go(`/b/${id}/settings`))}${button(t("Reindex all"), () => reindexAll(id, tree), { icon: "retry", kind: "quiet" })}</span>${button(t("Add content"), add, { icon: "plus", kind: "primary" })}</div></div>
    ${summary(base, queue)}${banners(id, base, queue)}
    <div class="switch hide-desk">${segments(
      t("What is shown"),
      [
        { id: "items", label: t("Items") },
        { id: "search", label: t("Search") },
      ],
      () => (searching.value ? "search" : "items"),
      (pane) => {
        const query = new URLSearchParams(location.search);
        query.set("pane", pane);
        go(pane === "items" ? `/b/${id}?${query}` : `${location.pathname}?${query}`);
      },
    )}</div>
    <div class="split">
      <section class="items" aria-label="${t("Items")}">${toolbar(base, route, selected, { ...acts, retryAll: () => retryAll(id, tree) })}
        <div class="tree-head" aria-hidden="true"><span>${t("Name")}</span><span>${t("Status")}</span><span>${t("Progress")}</span><span>${t("Chunks")}</span></div>
        ${view.box}${() => nothing(tree, view, route, add)}
      </section>
      <section class="base-pane" aria-label="${() => (current.value ? t("Item") : t("Search"))}">${() =>
        current.value ? later(async () => (await import("./base/item.js")).itemPane, (itemPane) => itemPane(id, /** @type {string} */ (current.peek()), route, acts)) : searchPane(id, route)}</section>
    </div>
    ${uploads(id, tree)}${dropZone(id, () => base.value?.name ?? "", tree)}
  </div>`;
}

/** @template T @param {() => Promise<T>} load @param {(part: T) => globalThis.Node} show A part whose module is fetched when it is needed. */
function later(load, show) {
  const part = signal(/** @type {{it: T} | null} */ (null));
  load().then((it) => {
    part.value = { it };
  });
  return html`<div class="later">${() => (part.value ? show(part.value.it) : null)}</div>`;
}

/** @param {string} id @param {import("../router.js").LiveRoute} route */
function treeOf(id, route) {
  const pen = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  pen.font = "12px Inter, system-ui, sans-serif";
  const tree = new Tree(id, {
    row: () => (small.peek() ? 58 : 34),
    extra: (item, depth) => {
      const text = note(item);
      if (!text) return 0;
      const place = document.querySelector(".tree")?.clientWidth ?? 640;
      const room = Math.max(120, place - (small.peek() ? 60 : 74) - depth * 18 - 16);
      return 16 * Math.ceil((pen.measureText(text).width * 1.08) / room);
    },
  });
  for (const one of (route.peek().query.get("open") ?? "").split(",").filter(Boolean)) tree.wanted.add(one);
  const filter = computed(() => `${route.value.query.get("filter") ?? ""}|${route.value.query.get("find") ?? ""}`);
  effect(
    () => filter.value,
    (both) => {
      const [kind, q] = both.split("|");
      const open = tree.filter ? [] : tree.opened();
      for (const one of open) tree.wanted.add(one);
      tree.show(kind || q ? { status: STATUSES[kind] ?? [], q } : null);
    },
  );
  effect(
    () => tree.changed.value,
    () => {
      if (!tree.filter && tree.root.pages.get(0) === "here") setQuery({ open: tree.opened().slice(0, 20).join(",") });
    },
  );
  return tree;
}

/** @param {string} id @param {Tree} tree @param {TreeView} view */
function follow(id, tree, view) {
  /** @type {Set<import("../tree/model.js").Branch>} */ const stale = new Set();
  /** @type {ReturnType<typeof setTimeout> | undefined} */ let timer;
  const renew = async () => {
    const due = [...stale];
    stale.clear();
    await Promise.all(due.map((branch) => tree.renew(branch, view.seen(branch))));
    timer = stale.size ? setTimeout(renew, REST) : undefined;
  };
  effect(() =>
    live.on({ base: id }, (changes) => {
      /** @type {any[]} */ const items = [];
      for (const change of changes) {
        if (change.type === "item") items.push(change.item);
        else if (change.type === "reload") for (const branch of tree.branches()) stale.add(branch);
        else if (change.event.type === "ItemsDeleted") tree.remove(change.event.data.rootIds ?? []);
      }
      for (const branch of tree.apply(items)) stale.add(branch);
      if (stale.size) timer ??= setTimeout(renew, REST);
    }),
  );
  const looking = setInterval(() => look(id, tree, view), LOOK);
  effect(() => () => {
    clearInterval(looking);
    clearTimeout(timer);
  });
}

/** @param {string} id @param {Tree} tree @param {TreeView} view Asks how far the containers in sight are. */
async function look(id, tree, view) {
  if (document.hidden) return;
  const moving = view.rows.peek().filter((row) => row.item && holds(row.item.type) && !["completed", "failed"].includes(row.item.status));
  if (!moving.length) return;
  try {
    const found = await api.get(`/knowledge-bases/${id}/tree`, { ids: moving.slice(0, 60).map((row) => row.key) });
    tree.apply(found.items);
  } catch {
    // the banner tells that the server is away; the next look comes
  }
}

const MOST = 500; // items that one request may name

/** @param {string} id @param {Tree} tree */
async function reindexAll(id, tree) {
  try {
    const roots = await all(`/knowledge-bases/${id}/items`, {}, Infinity);
    const ids = roots.map((item) => item.id);
    for (let start = 0; start < ids.length; start += MOST) await reindex(id, ids.slice(start, start + MOST), tree);
    renewBases(id);
  } catch (error) {
    refused(error);
  }
}

/** @param {string} id @param {Tree} tree Has everything tried again that has failed by now. */
async function retryAll(id, tree) {
  try {
    /** @type {string[]} */ const ids = [];
    let total = 1;
    while (ids.length < total) {
      const found = await api.get(`/knowledge-bases/${id}/tree`, { status: "failed", leaves: true, limit: MOST, offset: ids.length });
      if (!found.items.length) break;
      ids.push(...found.items.map((/** @type {any} */ item) => item.id));
      total = found.total;
    }
    for (let start = 0; start < ids.length; start += MOST) await reindex(id, ids.slice(start, start + MOST), tree, "skip");
  } catch (error) {
    refused(error);
  }
}

/** @param {Tree} tree @param {TreeView} view @param {import("../router.js").LiveRoute} route @param {() => void} add */
function nothing(tree, view, route, add) {
  void tree.changed.value;
  if (view.rows.value.length || tree.root.total || tree.root.pages.get(0) !== "here") return null;
  const { query } = route.value;
  if (query.get("filter") || query.get("find")) return empty("search", t("Nothing fits"), t("No item fits this filter."));
  return empty("upload", t("Nothing here yet"), t("Drop files or folders here, or add pages, notes, folders of the server and sitemaps."), button(t("Add content"), add, { icon: "plus" }));
}
