// @ts-check
/** Toasts: short messages about what was done or what failed. Errors stay until they are closed. */

import { each, html, signal } from "../core.js";
import { t } from "../i18n.js";
import { button, iconButton } from "./button.js";

/** @typedef {{label: string, onclick: () => unknown}} ToastAction */
/** @typedef {{id: number, text: string | (() => string), bad: boolean, action?: ToastAction}} Toast */
const visible = signal(/** @type {Toast[]} */ ([]));
const DURATION = 5000;
/** What has the focus after a message: the list of items, or the page that has none. */
const PLACES = "[role=treegrid], main:not(:has([role=treegrid]))";
let nextId = 1;
/** @type {HTMLElement | undefined} */ let box;

/** Shows the messages in the topmost dialog, if one is open: it lets nothing outside be seen, read or clicked. */
export function placeToasts() {
  const dialog = visible.peek().length ? [...document.querySelectorAll("dialog[open]")].at(-1) : null;
  const place = dialog ?? document.body;
  if (box?.isConnected && box.parentElement !== place) place.append(box);
}

/** @param {number} id */
function dismiss(id) {
  visible.value = visible.peek().filter((item) => item.id !== id);
}

/**
 * @param {string | (() => string)} text
 * @param {{bad?: boolean, lasting?: boolean, action?: {label: string, onclick: () => unknown}}} [options]
 *   `lasting`: it stays until the caller closes it
 * @returns {() => void} closes it
 */
export function toast(text, options = {}) {
  const id = nextId++;
  visible.value = [...visible.peek().slice(-3), { id, text, bad: options.bad ?? false, action: options.action }];
  placeToasts();
  if (!options.bad && !options.lasting) setTimeout(() => dismiss(id), DURATION);
  return () => dismiss(id);
}

/** @param {unknown} error Shows the server's message. */
export function showError(error) {
  toast(error instanceof Error ? error.message : String(error), { bad: true });
}

/** The element that shows the toasts. The shell adds it to the page once. */
export function toasts() {
  const rows = each(() => visible.value, (item) => item.id, (item) => toastRow(item.peek()));
  box = /** @type {HTMLElement} */ (html`<div class="toasts" role="status" aria-live="polite">${rows}</div>`);
  return box;
}

/** @param {Toast} toast */
function toastRow({ id, bad, text, action }) {
  const close = () => {
    const hadFocus = row.contains(document.activeElement);
    dismiss(id);
    // Otherwise the focus would be nowhere, and the next key would start at the top of the page.
    const place = row.closest("dialog")?.querySelector("button") ?? document.querySelector(PLACES);
    if (hadFocus) queueMicrotask(() => /** @type {HTMLElement | null} */ (place)?.focus());
  };
  const onclick = () => {
    close();
    action?.onclick();
  };
  const row = /** @type {HTMLElement} */ (html`
    <div class="toast ${bad ? "bad" : ""}">
      <span>${text}</span>
      ${action ? button(action.label, onclick, { small: true, kind: "quiet" }) : null}
      ${iconButton(t("Close"), "close", close)}
    </div>
  `);
  return row;
}
