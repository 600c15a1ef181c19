// @ts-check
/** Deleting and re-indexing from the page: the rows change at once, and are put back with a word when that is refused. */

import { api } from "../../api.js";
import { html } from "../../core.js";
import { t } from "../../i18n.js";
import { button } from "../../parts/button.js";
import { confirm, dialog } from "../../parts/dialog.js";
import { refused, toast } from "../../parts/toast.js";

const MANY = 10; // from so many on, or with items below, somebody is asked first

/** @param {string} base @param {string[]} ids @param {import("../../tree/model.js").Tree} tree */
export async function remove(base, ids, tree) {
  const nodes = ids.flatMap((id) => tree.byId.get(id) ?? []);
  const below = nodes.reduce((n, node) => n + (node.item.childCount ?? 0), 0);
  if (ids.length >= MANY || below) {
    const text = below
      ? t("{n} selected, with everything below. What is deleted can't be brought back.", { n: ids.length })
      : t("{n} selected. What is deleted can't be brought back.", { n: ids.length });
    if (!(await confirm({ title: t("Delete?"), text, action: t("Delete") }))) return;
  }
  const back = tree.remove(ids);
  try {
    await api.post(`/knowledge-bases/${base}/items/delete`, { itemIds: ids });
    toast(ids.length === 1 && nodes[0] ? t("Deleted {title}", { title: nodes[0].item.title }) : t("Deleted {n} items", { n: ids.length }));
  } catch (error) {
    back();
    refused(error);
  }
}

/**
 * @param {string} base @param {string[]} ids @param {import("../../tree/model.js").Tree} [tree]
 * @param {"reject" | "skip" | "after"} [onActive]
 */
export async function reindex(base, ids, tree, onActive = "reject") {
  if (!ids.length) return;
  try {
    const done = await api.post(`/knowledge-bases/${base}/items/reindex`, { itemIds: ids, onActive });
    if (done.failed.length) reasons(t("Not everything can be read again"), done.failed.map((/** @type {any} */ one) => [titleOf(one.itemId, tree), one.error.message]));
    else toast(t("Reindexing {n} items", { n: done.rootIds.length }));
    const some = done.rootIds.slice(0, 100); // those in sight change at once, the others as they are told
    if (some.length) tree?.apply((await api.get(`/knowledge-bases/${base}/tree`, { ids: some })).items);
  } catch (error) {
    const told = /** @type {import("../../api.js").Refused} */ (error);
    if (told.code === "subtree_active") {
      reasons(t("Something of it is being worked on"), blocking(told), (how) => reindex(base, ids, tree, how));
    } else refused(error);
  }
}

/** @param {string} id @param {import("../../tree/model.js").Tree} [tree] */
const titleOf = (id, tree) => tree?.byId.get(id)?.item.title ?? id;

/** @param {import("../../api.js").Refused} told @returns {[string, string][]} */
function blocking(told) {
  const found = told.errors.map((/** @type {any} */ one) => /** @type {[string, string]} */ ([one.title ?? one.itemId ?? "", one.status ?? one.message ?? ""]));
  return found.length ? found : [["", told.message]];
}

/** @param {string} title @param {[string, string][]} list @param {(how: "skip" | "after") => void} [go] */
function reasons(title, list, go) {
  dialog(
    title,
    (close) => html`<div class="dialog-body"><ul class="reasons">${list.slice(0, 20).map(([name, why]) => html`<li><b class="cut">${name}</b><span>${why}</span></li>`)}</ul></div>
      <footer>${
        go
          ? [
              button(t("Leave those out"), () => (close(), go("skip")), { kind: "quiet" }),
              button(t("When they are done"), () => (close(), go("after")), { kind: "primary" }),
            ]
          : button(t("Close"), close, { kind: "primary" })
      }</footer>`,
  );
}
