// @ts-check
/** Buttons. Each has a name for screen readers, also where only its icon is shown. */

import { html } from "../core.js";
import { icon } from "./icon.js";

/**
 * @typedef {{icon?: string, kind?: "" | "primary" | "quiet" | "danger" | "line", small?: boolean,
 *   disabled?: () => boolean, title?: string, hint?: string}} ButtonOptions
 */

/**
 * @param {string} label @param {(event: Event) => unknown} onclick @param {ButtonOptions} [options]
 * @returns {HTMLButtonElement}
 */
export function button(label, onclick, options = {}) {
  const kind = `button ${options.kind ?? "line"} ${options.small ? "small" : ""}`;
  return /** @type {HTMLButtonElement} */ (html`
    <button
      type="button"
      class="${kind}"
      title=${options.title}
      ?disabled=${options.disabled ?? false}
      @click=${onclick}
    >${options.icon ? icon(options.icon) : null}<span>${label}</span></button>
  `);
}

/** @param {string} label @param {string} name @param {(event: Event) => unknown} onclick @param {string} [kind] */
export function iconButton(label, name, onclick, kind = "") {
  return /** @type {HTMLButtonElement} */ (html`
    <button
      type="button"
      class="icon-button ${kind}"
      aria-label="${label}"
      title="${label}"
      @click=${onclick}
    >${icon(name)}</button>
  `);
}
