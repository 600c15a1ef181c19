// @ts-check
/** One of several: filter tabs with counts, and the segmented control. Both are groups of pressed buttons. */

import { html } from "../core.js";
import { number } from "../i18n.js";

/** @typedef {{id: string, label: string, count?: () => number | null}} Tab */

/**
 * @param {string} label @param {Tab[]} tabs @param {() => string} chosen @param {(id: string) => void} choose
 * @param {"tabs" | "segments"} [looks]
 */
export function tabs(label, tabs, chosen, choose, looks = "tabs") {
  return html`<div class="${looks}" role="group" aria-label="${label}">${tabs.map(
    (tab) =>
      html`<button type="button" aria-pressed="${() => String(chosen() === tab.id)}" @click=${() => choose(tab.id)}>${tab.label}${() => {
        const count = tab.count?.();
        return count === undefined || count === null ? null : html`<span class="count">${number(count)}</span>`;
      }}</button>`,
  )}</div>`;
}

/** @param {string} label @param {Tab[]} choices @param {() => string} chosen @param {(id: string) => void} choose */
export const segments = (label, choices, chosen, choose) => tabs(label, choices, chosen, choose, "segments");
