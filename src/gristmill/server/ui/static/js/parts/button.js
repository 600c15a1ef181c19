// @ts-check
/** Buttons. Every one has a name that a screen reader tells, also where only its icon is shown. */

import { html } from "../core.js";
import { icon } from "./icon.js";

/** @typedef {{icon?: string, kind?: "" | "primary" | "quiet" | "danger" | "line", small?: boolean, disabled?: () => boolean, title?: string, hint?: string}} Looks */

/** @param {string} label @param {(event: Event) => unknown} act @param {Looks} [looks] @returns {HTMLButtonElement} */
export function button(label, act, looks = {}) {
  const kind = `button ${looks.kind ?? "line"} ${looks.small ? "small" : ""}`;
  return /** @type {HTMLButtonElement} */ (
    html`<button type="button" class="${kind}" title=${looks.title} ?disabled=${looks.disabled ?? false} @click=${act}>${
      looks.icon ? icon(looks.icon) : null
    }<span>${label}</span></button>`
  );
}

/** @param {string} label @param {string} name @param {(event: Event) => unknown} act @param {string} [kind] */
export function iconButton(label, name, act, kind = "") {
  return /** @type {HTMLButtonElement} */ (
    html`<button type="button" class="icon-button ${kind}" aria-label="${label}" title="${label}" @click=${act}>${icon(name)}</button>`
  );
}
