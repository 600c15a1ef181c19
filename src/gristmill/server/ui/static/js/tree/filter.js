// @ts-check
/** Whether an item that changed still belongs to a filtered list; what is typed to find it is left to the server. */

/** @import { Filter, Item } from "./model.js" */

/** @param {Item} item @param {Filter | null} filter null: none */
export function matchesFilter(item, filter) {
  const { status = [], tag } = filter ?? {};
  return (!status.length || status.includes(item.status)) && (!tag || Boolean(item.metadata?.tags?.includes(tag)));
}
