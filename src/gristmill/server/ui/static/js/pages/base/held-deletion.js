// @ts-check
/**
 * Deletions that can be undone for a few seconds. A deletion that the server has accepted is final, so the request is
 * held back here: the rows are gone at once, a message counts down, and the request goes out when the time is over or
 * the person leaves the page. Until then the server still has the items, for everyone. A browser sends no more than
 * 64 KiB for a page that is left: where the ids are more, it asks the person to stay.
 */

import { signal } from "../../core.js";
import { t } from "../../i18n.js";
import { toast } from "../../components/toast.js";

const SECONDS = 6;
export const MAX_KEPT_IDS = 1000; // 39 bytes each
/** @typedef {(isLeaving: boolean) => void} Send */
/** @type {Map<Send, {ids: number, undo: () => void}>} deletions that were not sent, and how many ids they have */
const held = new Map();

addEventListener("pagehide", () => {
  for (const send of [...held.keys()]) send(true);
});
addEventListener("beforeunload", (event) => {
  if ([...held.values()].reduce((sum, { ids }) => sum + ids, 0) > MAX_KEPT_IDS) event.preventDefault();
});
// The button of the message is many tabs away, and gone in seconds.
addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  const latest = [...held.values()].at(-1);
  if (!latest || event.key !== "z" || !(event.metaKey || event.ctrlKey) || event.shiftKey || event.altKey) return;
  // There it undoes what was typed.
  if (target.closest?.("input:not([type=checkbox]), textarea, select, dialog")) return;
  event.preventDefault();
  latest.undo();
});

/**
 * @param {string} text what was deleted
 * @param {(isLeaving: boolean) => unknown} send sends the request; when the person leaves, the browser has to finish it
 * @param {() => void} undo shows the items again @param {number} ids how many the request has
 */
export function holdDeletion(text, send, undo, ids) {
  const left = signal(SECONDS);
  const end = () => {
    held.delete(sendNow);
    clearInterval(interval);
    closeToast();
  };
  const sendNow = (/** @type {boolean} */ isLeaving) => {
    end();
    send(isLeaving);
  };
  const interval = setInterval(() => {
    left.value--;
    if (left.peek() <= 0) sendNow(false);
  }, 1000);
  const takeBack = () => {
    if (!held.has(sendNow)) return;
    end();
    undo();
  };
  const message = () => `${text} · ${t("{s} s", { s: left.value })}`;
  const closeToast = toast(message, { lasting: true, action: { label: t("Undo"), onclick: takeBack } });
  held.set(sendNow, { ids, undo: takeBack });
}
