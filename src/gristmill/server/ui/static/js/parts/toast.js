// @ts-check
/** Toasts: what was done or refused, said once and politely. Refusals stay until they are closed. */

import { each, html, signal } from "../core.js";
import { t } from "../i18n.js";
import { button, iconButton } from "./button.js";

/** @typedef {{id: number, text: string, bad: boolean, action?: {label: string, act: () => unknown}}} Toast */
const shown = signal(/** @type {Toast[]} */ ([]));
const LIFE = 5000;
let next = 1;

/** @param {number} id */
function drop(id) {
  shown.value = shown.peek().filter((one) => one.id !== id);
}

/** @param {string} text @param {{bad?: boolean, action?: {label: string, act: () => unknown}}} [how] */
export function toast(text, how = {}) {
  const id = next++;
  shown.value = [...shown.peek().slice(-3), { id, text, bad: how.bad ?? false, action: how.action }];
  if (!how.bad) setTimeout(() => drop(id), LIFE);
}

/** @param {unknown} error Says what was refused, in the server's words. */
export function refused(error) {
  toast(error instanceof Error ? error.message : String(error), { bad: true });
}

/** Where toasts are shown; the shell puts it on the page once. */
export function toasts() {
  return html`<div class="toasts" role="status" aria-live="polite">${each(
    () => shown.value,
    (one) => one.id,
    (one) => {
      const { id, bad, text, action } = one.peek();
      return html`<div class="toast ${bad ? "bad" : ""}"><span>${text}</span>${
        action
          ? button(
              action.label,
              () => {
                drop(id);
                action.act();
              },
              { small: true, kind: "quiet" },
            )
          : null
      }${iconButton(t("Close"), "close", () => drop(id))}</div>`;
    },
  )}</div>`;
}
