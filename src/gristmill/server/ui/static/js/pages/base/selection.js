// @ts-check
/**
 * What is selected in a tree: rows by their ids, or everything that the filter matches, which the server then finds by
 * itself. A request takes either of them. Everything is no longer selected once single rows are, and when the filter
 * changes. What is deleted meanwhile, by whomever, is not selected any more.
 */

import { computed, effect, signal } from "../../core.js";
import { showError } from "../../components/toast.js";

/** @import { Signal, Computed } from "../../core.js" */
/** @import { Tree } from "../../tree/model.js" */

/**
 * @typedef {{ids: Signal<Set<string>>, all: Computed<boolean>, count: Computed<number>, clear(): void,
 *   selectAll(): void, spellOut(): Promise<boolean>, body(): {itemIds: string[]} | {filter: Record<string, unknown>}}}
 *   Selection
 */

const MAX_IDS = 10_000; // that the server takes in one request

/** @param {Tree} tree @returns {Selection} */
export function createSelection(tree) {
  const ids = signal(/** @type {Set<string>} */ (new Set()));
  /** @type {Signal<{ids: Set<string>, shown: string, filter: Record<string, unknown>} | null>} */
  const everything = signal(/** @type {any} */ (null));
  const all = computed(() => everything.value !== null && everything.value.ids === ids.value);
  const count = computed(() => {
    void tree.changed.value;
    return all.value ? tree.root.total : ids.value.size;
  });
  const shown = () => JSON.stringify(tree.filter);
  const clear = () => {
    everything.value = null;
    ids.value = new Set();
  };
  effect(
    () => tree.changed.value,
    () => {
      if (all.peek()) return everything.peek()?.shown === shown() ? undefined : clear();
      const left = [...ids.peek()].filter((id) => !tree.removedIds.has(id));
      if (left.length < ids.peek().size) ids.value = new Set(left);
    },
  );
  return {
    ids,
    all,
    count,
    clear,
    selectAll() {
      const loaded = new Set([...tree.root.rows.values()].map((node) => node.item.id));
      everything.value = { ids: loaded, shown: shown(), filter: filterOf(tree) };
      ids.value = loaded;
    },
    /** Selects each row by its id instead of everything, so that one can be taken out; false if that failed. */
    async spellOut() {
      const before = ids.peek();
      if (!all.peek()) return true;
      try {
        const listed = await tree.idsBetween(tree.root, 0, Math.min(tree.root.total, MAX_IDS) - 1);
        if (ids.peek() === before) ids.value = new Set(listed);
        return true;
      } catch (error) {
        showError(error);
        return false;
      }
    },
    body: () => all.peek() ? { filter: everything.peek()?.filter ?? {} } : { itemIds: [...ids.peek()] },
  };
}

/** @param {Tree} tree What its rows have in common; the roots are everything. */
export function filterOf(tree) {
  const { status = [], q, tag } = tree.filter ?? {};
  return {
    ...(status.length ? { status, leaves: true } : {}),
    ...(q ? { q } : {}),
    ...(tag ? { tag } : {}),
  };
}
