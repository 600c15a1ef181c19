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
import { showError, toast } from "../../components/toast.js";
import { holdDeletion } from "./held-deletion.js";

/** @import { ApiError } from "../../api.js" */
/** @import { Item, Tree } from "../../tree/model.js" */

/** @typedef {{itemIds: string[]} | {filter: Record<string, unknown>}} Chosen */

const MAX_IDS = 1000; // ids of one request: more would not go out when the person leaves the page

/**
 * @param {string} base @param {string[]} ids of the rows @param {Tree} tree @param {() => void} onconfirm
 * @param {{chosen?: Chosen, count?: number}} [all] more than the rows: what a filter selects, and how many that are
 */
export async function remove(base, ids, tree, onconfirm, all = {}) {
  const items = ids.flatMap((id) => tree.byId.get(id)?.item ?? []);
  const n = all.count ?? ids.length;
  if (!(await confirmRemoval(items, n))) return;
  onconfirm();
  const restore = tree.remove(ids);
  const isFiltered = all.chosen !== undefined && "filter" in all.chosen;
  const undo = () => {
    restore();
    if (isFiltered) tree.refresh(tree.root);
  };
  const url = `/knowledge-bases/${base}/items/delete`;
  const send = async () => {
    try {
      if (all.chosen && isFiltered) await api.post(url, all.chosen);
      else {
        for (let start = 0; start < ids.length; start += MAX_IDS) {
          await api.post(url, { itemIds: ids.slice(start, start + MAX_IDS) });
        }
      }
      if (isFiltered) tree.refresh(tree.root);
    } catch (error) {
      undo();
      showError(error);
    }
  };
  const text = n === 1 && items[0] ? t("Deleted {title}", { title: items[0].title }) : t("Deleted {n} items", { n });
  if (ids.length <= MAX_IDS || isFiltered) return holdDeletion(text, send, undo);
  await send();
  toast(text);
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

/** @param {ApiError} apiError @returns {[string, string][]} */
function blockingItems(apiError) {
  /** @type {[string, string][]} */
  const items = apiError.errors.map((item) => [item.title ?? item.itemId ?? "", item.status ?? item.message ?? ""]);
  return items.length ? items : [["", apiError.message]];
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
