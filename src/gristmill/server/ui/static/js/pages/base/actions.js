// @ts-check
/**
 * Deleting and reindexing items. A deletion is confirmed, then the rows are gone at once, and it can be undone for some
 * seconds. Rows are restored with a message if the server refuses.
 */

import { api } from "../../api.js";
import { html } from "../../core.js";
import { errorMessage, t } from "../../i18n.js";
import { button } from "../../components/button.js";
import { confirm, dialog } from "../../components/dialog.js";
import { describeEstimate } from "../../components/estimate.js";
import { statusOf } from "../../components/status.js";
import { showError, toast } from "../../components/toast.js";
import { holdDeletion, MAX_KEPT_IDS } from "./held-deletion.js";

/** @import { ApiError } from "../../api.js" */
/** @import { Item, Tree } from "../../tree/model.js" */

/** @typedef {{itemIds: string[]} | {filter: Record<string, unknown>}} Chosen */

/**
 * @param {string} base @param {string[]} ids of the rows @param {Tree} tree @param {() => void} onconfirm
 * @param {{filter: Record<string, unknown>, count: number} | null} [everything] what all rows have in common, and how
 *   many they are, if they are too many to be named
 */
export async function remove(base, ids, tree, onconfirm, everything = null) {
  const items = ids.flatMap((id) => tree.byId.get(id)?.item ?? []);
  const n = everything?.count ?? ids.length;
  if (!(await confirmRemoval(items, n))) return;
  onconfirm();
  const restore = everything ? tree.hide() : tree.remove(ids);
  const refresh = () => Promise.all(tree.branches().map((branch) => tree.refresh(branch)));
  const undo = () => {
    restore();
    refresh(); // others may have changed it meanwhile
  };
  const bodies = everything ? [{ filter: everything.filter }] : inBatches(ids).map((itemIds) => ({ itemIds }));
  const send = async (/** @type {boolean} */ isLeaving) => {
    try {
      for (const body of bodies) {
        await api.post(`/knowledge-bases/${base}/items/delete`, body, { keepalive: isLeaving || undefined });
      }
      if (everything) restore();
      else if (items.length < ids.length) await refresh(); // rows that were never loaded
    } catch (error) {
      undo();
      showError(error);
    }
  };
  const text = n === 1 && items[0] ? t("Deleted {title}", { title: items[0].title }) : t("Deleted {n} items", { n });
  holdDeletion(text, send, undo, everything ? 1 : ids.length);
}

/** @param {string[]} ids @returns {string[][]} as many as one request can have when the person leaves the page */
function inBatches(ids) {
  const count = Math.ceil(ids.length / MAX_KEPT_IDS);
  return Array.from({ length: count }, (_, i) => ids.slice(i * MAX_KEPT_IDS, (i + 1) * MAX_KEPT_IDS));
}

/** @param {Item[]} items @param {number} n @returns {Promise<boolean>} */
function confirmRemoval(items, n) {
  const hasChildren = items.some((item) => item.childCount);
  const isUndoable = t("You can undo this for a few seconds.");
  return confirm({
    title: n === 1 && items[0] ? t("Delete {name}?", { name: items[0].title }) : t("Delete {n} items?", { n }),
    text: hasChildren
      ? `${t("Everything inside is deleted too, and is no longer found by search.")} ${isUndoable}`
      : `${t("What is deleted is no longer found by search.")} ${isUndoable}`,
    action: t("Delete"),
  });
}

const CONFIRMED = 10; // so many items are reindexed without a question

/** @param {string} base @param {Chosen} chosen What reindexing these items will embed and cost, in words. */
export const estimateReindex = async (base, chosen) =>
  describeEstimate(await api.post(`/knowledge-bases/${base}/items/reindex`, { ...chosen, dryRun: true }));

/** @param {string} base @param {Chosen} chosen @param {number} n @returns {Promise<boolean>} */
export function confirmReindex(base, chosen, n) {
  if (n < CONFIRMED) return Promise.resolve(true);
  const text = t("{n} items are read, chunked and embedded again. Until that is done, search uses what is there now.", {
    n,
  });
  const estimate = () => estimateReindex(base, chosen);
  return confirm({ title: t("Reindex {n} items?", { n }), text, action: t("Reindex"), kind: "primary", estimate });
}

/**
 * @param {string} base @param {string[] | Chosen} ids @param {Tree} [tree]
 * @param {"reject" | "skip" | "after"} [onActive]
 */
export async function reindex(base, ids, tree, onActive = "reject") {
  const chosen = Array.isArray(ids) ? { itemIds: ids } : ids;
  if ("itemIds" in chosen && !chosen.itemIds.length) return;
  try {
    const result = await api.post(`/knowledge-bases/${base}/items/reindex`, { ...chosen, onActive });
    if (result.failed.length) {
      const reasons = result.failed.map((/** @type {any} */ failure) => [
        titleOf(failure.itemId, tree),
        errorMessage(failure.error.code, failure.error.message),
      ]);
      showReasons(t("Some items can't be reindexed"), reasons);
    } else toast(t("Reindexing {n} items", { n: result.rootIds.length }));
    const visible = result.rootIds.slice(0, 100); // these change immediately, the others when the stream reports them
    if (visible.length) tree?.apply((await api.get(`/knowledge-bases/${base}/tree`, { ids: visible })).items);
  } catch (error) {
    const apiError = /** @type {ApiError} */ (error);
    if (apiError.code !== "subtree_active") return showError(error);
    const retry = (/** @type {"skip" | "after"} */ choice) => reindex(base, ids, tree, choice);
    showReasons(t("Some items are still being processed"), blockingItems(apiError), retry);
  }
}

/** @param {string} id @param {Tree} [tree] */
const titleOf = (id, tree) => tree?.byId.get(id)?.item.title ?? id;

/**
 * The items that the server names, each as "title is status".
 * @param {ApiError} apiError @returns {[string, string][]}
 */
function blockingItems(apiError) {
  /** @returns {[string, string]} */
  const describe = (/** @type {{message: string}} */ { message }) => {
    const [, title, status] = /^([^]*) is (\w+)$/.exec(message) ?? [message, message, ""];
    return [title, status && statusOf({ type: "file", status, progress: 0 }).word];
  };
  return apiError.errors.length ? apiError.errors.map(describe) : [["", apiError.message]];
}

/** @param {string} title @param {[string, string][]} list @param {(choice: "skip" | "after") => void} [retry] */
function showReasons(title, list, retry) {
  const rows = list.slice(0, 20).map(([name, reason]) =>
    html`
      <li>
        <b class="cut">${name}</b>
        <span>${reason}</span>
      </li>
    `
  );
  dialog(title, (close) => {
    const retryWith = (/** @type {"skip" | "after"} */ choice) => () => {
      close();
      retry?.(choice);
    };
    const buttons = retry
      ? [
        button(t("Skip those"), retryWith("skip"), { kind: "quiet" }),
        button(t("Reindex when they finish"), retryWith("after"), { kind: "primary" }),
      ]
      : button(t("Close"), close, { kind: "primary" });
    return html`
      <div class="dialog-body">
        <ul class="reasons">${rows}</ul>
      </div>
      <footer>${buttons}</footer>
    `;
  });
}
