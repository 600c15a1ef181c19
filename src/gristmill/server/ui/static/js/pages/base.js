// @ts-check
/**
 * One base: its figures, banners, tree, and a pane with the search or one item. Changes arrive in batches by the live
 * stream; what the stream does not contain is fetched at most once a second.
 */

import { baseById, bases, leafCount, refreshBases } from "../bases.js";
import { computed, effect, html } from "../core.js";
import { t } from "../i18n.js";
import { button, iconButton } from "../components/button.js";
import { confirm } from "../components/dialog.js";
import { lazy } from "../components/lazy.js";
import { kebab } from "../components/menu.js";
import { baseNotFound, emptyState, setPageTitle } from "../components/status.js";
import { segments } from "../components/tabs.js";
import { go, setQuery } from "../router.js";
import { allows } from "../session.js";
import { TreeView } from "../tree/view.js";
import { confirmReindex, estimateReindex, reindex } from "./base/actions.js";
import { createTree, followChanges, isPhone } from "./base/live-tree.js";
import { createSelection, filterOf } from "./base/selection.js";
import { treeHead } from "./base/sort.js";
import { banners, summary, watchQueue } from "./base/summary.js";
import { mayManage, ownRole } from "./base/role.js";
import { tendingActions } from "./base/tending-actions.js";
import { toolbar } from "./base/toolbar.js";
import { dropZone, uploadPanel } from "./base/upload.js";

/** @import { Base } from "../bases.js" */
/** @import { Computed } from "../core.js" */
/** @import { LiveRoute } from "../router.js" */
/** @import { Tree } from "../tree/model.js" */

/** @param {LiveRoute} route */
export function page(route) {
  const id = route.peek().params.base;
  const base = baseById(() => id);
  setPageTitle(() => base.value?.name ?? t("Base"));
  const isMissing = computed(() => bases.value !== null && !base.value);
  return html`<div class="page">${() => (isMissing.value ? baseNotFound() : basePage(id, base, route))}</div>`;
}

/** @param {string} id @param {Computed<Base | null>} base @param {LiveRoute} route */
function basePage(id, base, route) {
  const current = computed(() => route.value.params.item ?? null);
  const tree = createTree(id, route);
  const selection = createSelection(tree);
  const role = ownRole(id);
  const queue = watchQueue(id, role);
  const canChange = computed(() => allows("admin") || queue.access.value === "allowed");
  const actions = {
    /** @param {{id: string}} item */
    open: (item) => go(`/b/${id}/i/${item.id}${location.search}`),
    ...tendingActions(id, tree, selection, () => current.peek()),
  };
  const view = new TreeView(tree, actions, {
    selection,
    current: () => current.value,
    isPhone: () => isPhone.value,
    canChange: () => canChange.value,
  });
  followChanges(id, tree, view);
  const isPaneShown = computed(() =>
    current.value !== null ||
    (route.value.query.get("pane") ?? (route.value.query.get("q") ? "search" : "items")) === "search"
  );
  effect(
    () => (canChange.value ? route.value.query.get("add") : null),
    async (kind) => {
      if (kind) (await import("./base/add.js")).openAdd(id, kind, tree);
    },
  );
  const openAddDialog = () => setQuery({ add: "file" });
  onPageKey("a", () => canChange.peek() && openAddDialog());
  const itemActions = { ...actions, canChange: () => canChange.value };
  const pane = () =>
    current.value
      ? lazy(
        async () => (await import("./base/item.js")).itemPane,
        (itemPane) => itemPane(id, /** @type {string} */ (current.peek()), route, itemActions),
      )
      : lazy(loadSearchPane, (searchPane) => searchPane(id, route));
  const loadSearchPane = async () => {
    if (!route.peek().query.get("q")) await tree.firstRows; // they are what people wait for
    return (await import("./base/search.js")).searchPane;
  };
  const emptyView = () => emptyTree(tree, view, route, canChange.value ? openAddDialog : null);
  const dropTarget = () => (canChange.value ? dropZone(id, () => base.value?.name ?? "", tree) : null);
  return html`
    <div class="base ${() => (isPaneShown.value ? "show-pane" : "show-items")}">
      ${topBar(id, base, tree, openAddDialog, { canChange, canManage: mayManage(role) })}
      ${summary(base, queue)}${banners(id, base, queue)}
      <div class="switch hide-desk">${paneSwitch(id, () => isPaneShown.value)}</div>
      <div class="split">
        <section class="items" aria-label="${t("Items")}">
          ${toolbar(base, route, selection, { ...itemActions, retryAll: () => retryAll(id, tree) })}
          ${treeHead(route)}
          ${view.box}${emptyView}
        </section>
        <section class="base-pane" aria-label="${() => (current.value
          ? t("Open document")
          : t("Search"))}">${pane}</section>
      </div>
      ${uploadPanel(id, tree)}${dropTarget}
    </div>
  `;
}

/**
 * Calls `action` for a key, wherever the focus is, except where people type and in dialogs.
 * @param {string} key @param {() => void} action
 */
function onPageKey(key, action) {
  effect(() => {
    const onkeydown = (/** @type {KeyboardEvent} */ event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (event.key !== key || event.metaKey || event.ctrlKey || event.altKey) return;
      if (
        target.closest?.("input, textarea, select") || document.querySelector("dialog[open], [popover]:popover-open")
      ) {
        return;
      }
      event.preventDefault();
      action();
    };
    document.addEventListener("keydown", onkeydown);
    return () => document.removeEventListener("keydown", onkeydown);
  });
}

/**
 * @param {string} id @param {Computed<Base | null>} base @param {Tree} tree @param {() => void} openAddDialog
 * @param {{canChange: Computed<boolean>, canManage: Computed<boolean | null>}} rights
 */
function topBar(id, base, tree, openAddDialog, { canChange, canManage }) {
  const openSettings = () => go(`/b/${id}/settings`);
  const confirmReindex = () => reindexAll(/** @type {Base} */ (base.peek()), tree);
  const settingsEntry = { label: t("Settings"), icon: "gear", onselect: openSettings };
  const newFolder = async () => (await import("./base/tend.js")).openNewFolder(id, tree);
  const menu = () => [
    { label: t("New folder"), icon: "folder", onselect: newFolder },
    { label: t("Reindex all"), icon: "retry", onselect: confirmReindex },
    canManage.value ? settingsEntry : null,
  ];
  const changeButtons = () =>
    html`
      ${kebab(t("More"), menu)}
      <span class="hide-phone">
        ${() => (canManage.value ? iconButton(t("Settings"), "gear", openSettings) : null)}
        ${button(t("New folder"), newFolder, { icon: "folder", kind: "quiet" })}
        ${button(t("Reindex all"), confirmReindex, { icon: "retry", kind: "quiet" })}
      </span>
      ${button(t("Add content"), openAddDialog, { icon: "plus", kind: "primary" })}
    `;
  const openConnect = () => go(`/b/${id}/connect`);
  return html`
    <div class="top">
      <h1 class="crumbs">
        <a href="/">${t("Bases")}</a>
        <span class="sep">/</span>
        <span class="cut">${() => base.value?.name ?? ""}</span>
      </h1>
      <div class="actions">
        ${iconButton(t("Connect"), "agent", openConnect)}${() => (canChange.value ? changeButtons() : null)}
      </div>
    </div>
  `;
}

/** @param {string} id @param {() => boolean} isPaneShown Switches between items and search on phones. */
function paneSwitch(id, isPaneShown) {
  const choices = [{ id: "items", label: t("Items") }, { id: "search", label: t("Search") }];
  const choose = (/** @type {string} */ pane) => {
    const query = new URLSearchParams(location.search);
    query.set("pane", pane);
    go(pane === "items" ? `/b/${id}?${query}` : `${location.pathname}?${query}`);
  };
  return segments(t("View"), choices, () => (isPaneShown() ? "search" : "items"), choose);
}

/** @param {Base} base @param {Tree} tree Reads everything again, after a confirmation: it can take hours of work. */
async function reindexAll(base, tree) {
  const { id, name } = base;
  const isConfirmed = await confirm({
    title: t("Reindex everything in {name}?", { name }),
    text: t("{n} items are read, chunked and embedded again. Until that is done, search uses what is there now.", {
      n: leafCount(base),
    }),
    action: t("Reindex all"),
    kind: "primary",
    estimate: () => estimateReindex(id, { filter: {} }),
  });
  if (!isConfirmed) return;
  await reindex(id, { filter: {} }, tree);
  refreshBases(id);
}

/** @param {string} id @param {Tree} tree Retries the failed items that are listed, and those that further rows have. */
async function retryAll(id, tree) {
  const chosen = { filter: filterOf(tree) };
  if (await confirmReindex(id, chosen, tree.root.total)) await reindex(id, chosen, tree, "skip");
}

/** @param {Tree} tree @param {TreeView} view @param {LiveRoute} route @param {(() => void) | null} add */
function emptyTree(tree, view, route, add) {
  void tree.changed.value;
  if (view.rows.value.length || tree.root.total || tree.root.pages.get(0) !== "loaded") return null;
  const { query } = route.value;
  if (query.get("filter") || query.get("find") || query.get("tag")) {
    return emptyState("search", t("No matches"), t("No item matches this filter."));
  }
  if (!add) return emptyState("base", t("Nothing here yet"), t("Documents appear here when someone adds them."));
  return emptyState(
    "upload",
    t("Nothing here yet"),
    t("Drop files or folders here, or add web pages, notes, server folders and sitemaps."),
    button(t("Add content"), add, { icon: "plus" }),
  );
}
