// @ts-check
/** What ids stand for. */

import { bases } from "./bases.js";

/** @param {string} id The name of a base; empty while it is unknown. */
export const baseName = (id) => bases.value?.find((one) => one.id === id)?.name ?? "";
