// @ts-check
/**
 * Deleting and reindexing items. A deletion can't be undone, so it is confirmed first. Then rows change immediately,
 * and are restored with a message if the server refuses.
 */

import { api } from "../../api.js";
import { html } from "../../core.js";
import { t } from "../../i18n.js";
import { button } from "../../components/button.js";
import { confirm, dialog } from "../../components/dialog.js";
import { showError, toast } from "../../components/toast.js";

/** @import { ApiError } from "../../api.js" */
/** @import { Item, Tree } from "../../tree/model.js" */

/** @param {string} base @param {string[]} ids @param {Tree} tree @param {() => void} onconfirm */
export async function remove(base, ids, tree, onconfirm) {
  const nodes = ids.flatMap((id) => tree.byId.get(id) ?? []);
  if (!(await confirmRemoval(nodes.map((node) => node.item), ids.length))) return;
  onconfirm();
  const restore = tree.remove(ids);
  try {
    await api.post(`/knowledge-bases/${base}/items/delete`, { itemIds: ids });
    toast(
      ids.length === 1 && nodes[0]
        ? t("Deleted {title}", { title: nodes[0].item.title })
        : t("Deleted {n} items", { n: ids.length }),
    );
  } catch (error) {
    restore();
    showError(error);
  }
}

/** @param {Item[]} items @param {number} n @returns {Promise<boolean>} */
function confirmRemoval(items, n) {
  const hasChildren = items.some((item) => item.childCount);
  return confirm({
    title: n === 1 && items[0] ? t("Delete {name}?", { name: items[0].title }) : t("Delete {n} items?", { n }),
    text: hasChildren
      ? t("Everything inside is deleted too, and is no longer found by search. This can't be undone.")
      : t("What is deleted is no longer found by search. This can't be undone."),
    action: t("Delete"),
  });
}

/**
 * @param {string} base @param {string[]} ids @param {Tree} [tree]
 * @param {"reject" | "skip" | "after"} [onActive]
 */
export async function reindex(base, ids, tree, onActive = "reject") {
  if (!ids.length) return;
  try {
    const result = await api.post(`/knowledge-bases/${base}/items/reindex`, { itemIds: ids, onActive });
    if (result.failed.length) {
      const reasons = result.failed.map((/** @type {any} */ failure) => [
        titleOf(failure.itemId, tree),
        failure.error.message,
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
