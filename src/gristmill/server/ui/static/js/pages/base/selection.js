// @ts-check
/**
 * What is selected in a tree: rows by their ids, or everything that the filter matches, which the server then finds by
 * itself. A request takes either of them.
 */

import { computed, signal } from "../../core.js";

/** @import { Signal, Computed } from "../../core.js" */
/** @import { Tree } from "../../tree/model.js" */

/**
 * @typedef {{ids: Signal<Set<string>>, all: Signal<boolean>, count: Computed<number>, clear(): void, selectAll(): void,
 *   body(ids?: string[]): {itemIds: string[]} | {filter: Record<string, unknown>}}} Selection
 */

/** @param {Tree} tree @returns {Selection} */
export function createSelection(tree) {
  const ids = signal(/** @type {Set<string>} */ (new Set()));
  const all = signal(false);
  const count = computed(() => {
    void tree.changed.value;
    return all.value ? tree.root.total : ids.value.size;
  });
  return {
    ids,
    all,
    count,
    clear() {
      all.value = false;
      ids.value = new Set();
    },
    selectAll() {
      all.value = true;
      ids.value = new Set([...tree.root.rows.values()].map((node) => node.item.id));
    },
    body: (chosen = [...ids.peek()]) => all.peek() ? { filter: filterOf(tree) } : { itemIds: chosen },
  };
}

/** @param {Tree} tree What its rows have in common; the roots are everything. */
function filterOf(tree) {
  const { status = [], q, tag } = tree.filter ?? {};
  return {
    ...(status.length ? { status, leaves: true } : {}),
    ...(q ? { q } : {}),
    ...(tag ? { tag } : {}),
  };
}
