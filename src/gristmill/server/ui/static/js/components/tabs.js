// @ts-check
/** Choosing one of several: filter tabs with counts, and a segmented control. Both are groups of toggle buttons. */

import { html } from "../core.js";
import { formatNumber } from "../i18n.js";

/** @typedef {{id: string, label: string, count?: () => number | null}} Tab */

/**
 * @param {string} label @param {Tab[]} tabs @param {() => string} chosen @param {(id: string) => void} choose
 * @param {"tabs" | "segments"} [style]
 */
export function tabs(label, tabs, chosen, choose, style = "tabs") {
  const tabButton = (/** @type {Tab} */ tab) => {
    const isPressed = () => String(chosen() === tab.id);
    const count = () => {
      const value = tab.count?.() ?? null;
      return value === null ? null : html`<span class="count">${formatNumber(value)}</span>`;
    };
    const onclick = () => choose(tab.id);
    return html`<button type="button" aria-pressed="${isPressed}" @click=${onclick}>${tab.label}${count}</button>`;
  };
  return html`<div class="${style}" role="group" aria-label="${label}">${tabs.map(tabButton)}</div>`;
}

/** @param {string} label @param {Tab[]} choices @param {() => string} chosen @param {(id: string) => void} choose */
export const segments = (label, choices, chosen, choose) => tabs(label, choices, chosen, choose, "segments");
