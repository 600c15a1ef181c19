// @ts-check
/** What the rows, the toolbar, the keys and the pane of an item do with items. Dialogs are loaded when first needed. */

import { go, setQuery } from "../../router.js";
import { confirmReindex, reindex, remove } from "./actions.js";
import { MAX_KEPT_IDS } from "./held-deletion.js";

/** @import { Item, Tree } from "../../tree/model.js" */
/** @import { Selection } from "./selection.js" */

/**
 * @param {string} base @param {Tree} tree @param {Selection} selection @param {() => string | null} current the item in
 *   the pane
 */
export function tendingActions(base, tree, selection, current) {
  const dialogs = () => import("./tend.js");
  /** @param {string[]} ids Whether they are the selection, which may be all that a filter matches. */
  const isAll = (ids) => selection.all.peek() && ids.every((id) => selection.ids.peek().has(id)) && ids.length > 1;
  /** @param {string[]} ids */
  const chosen = (ids) => (isAll(ids) ? selection.body() : { itemIds: ids });
  /** @param {string[]} ids */
  const count = (ids) => (isAll(ids) ? selection.count.peek() : ids.length);
  return {
    /** @param {string[]} ids */
    reindex: async (ids) => {
      if (await confirmReindex(base, chosen(ids), count(ids))) await reindex(base, chosen(ids), tree);
    },
    /** @param {string[]} ids */
    remove: async (ids) => {
      // By their ids where that is possible: until it is sent, other items may come to match, or these cease to.
      if (isAll(ids) && selection.count.peek() <= MAX_KEPT_IDS) {
        if (!(await selection.spellOut())) return;
        ids = [...selection.ids.peek()];
      }
      const chosen = selection.body();
      const everything = isAll(ids) && "filter" in chosen ? { ...chosen, count: count(ids) } : null;
      await remove(base, ids, tree, () => {
        const left = [...selection.ids.peek()].filter((other) => !ids.includes(other));
        selection.clear();
        if (!everything) selection.ids.value = new Set(left);
        const open = current() ?? "";
        if (everything ? tree.byId.has(open) : ids.includes(open)) go(`/b/${base}${location.search}`);
      }, everything);
    },
    /** @param {Item} item */
    rename: async (item) => (await dialogs()).openRename(item, tree),
    /** @param {Item} item */
    editNote: async (item) => (await dialogs()).openNote(item, tree),
    /** @param {string[]} ids */
    move: async (ids) => (await dialogs()).openMove(base, chosen(ids), count(ids), tree, selection.clear),
    /** @param {string[]} ids */
    tag: async (ids) => {
      const items = ids.flatMap((id) => tree.byId.get(id)?.item ?? []);
      await (await dialogs()).openTags(base, chosen(ids), count(ids), items, tree);
    },
    /** @param {string} tag */
    filterByTag: (tag) => setQuery({ tag }, { push: true }),
    selectAll: selection.selectAll,
  };
}
