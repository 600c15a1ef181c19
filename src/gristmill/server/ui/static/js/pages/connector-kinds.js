// @ts-check
/** What the server says of the types of connectors; fetched once. */

import { api } from "../api.js";
import { signal } from "../core.js";

/**
 * @typedef {{type: string, title: string, config: any, credentials: any, hasPermissions: boolean,
 *   hasSignIn: boolean}} Kind
 */

const kinds = signal(/** @type {Kind[] | null} */ (null));

/** @param {string} type @returns {Kind | undefined} undefined until it is known */
export function kindOf(type) {
  if (kinds.value === null) {
    kinds.value = [];
    api.get("/connector-kinds").then(({ items }) => {
      kinds.value = items;
    }, () => {});
  }
  return kinds.value?.find((kind) => kind.type === type);
}

/** What people call a connector type, once it is known. @param {string} type */
export const kindTitle = (type) => kindOf(type)?.title ?? type;
