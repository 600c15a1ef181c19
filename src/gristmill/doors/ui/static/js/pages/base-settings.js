// @ts-check
import { html } from "../core.js";
/** @param {import("../router.js").LiveRoute} _route */
export function page(_route) {
  return html`<div class="page"></div>`;
}
