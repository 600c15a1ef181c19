// @ts-check
/**
 * Deletions that can be undone for a few seconds. A deletion that the server has accepted is final, so the request is
 * held back here: the rows are gone at once, a message counts down, and the request goes out when the time is over or
 * the person leaves the page. Until then the server still has the items, for everyone.
 */

import { signal } from "../../core.js";
import { t } from "../../i18n.js";
import { toast } from "../../components/toast.js";

const SECONDS = 6;
/** @type {Set<() => void>} deletions that have not been sent */ const held = new Set();

addEventListener("pagehide", () => {
  for (const send of [...held]) send(); // with `keepalive`, so that the browser finishes it without the page
});

/**
 * @param {string} text what was deleted @param {() => unknown} send sends the request
 * @param {() => void} undo shows the items again
 */
export function holdDeletion(text, send, undo) {
  const left = signal(SECONDS);
  const end = () => {
    held.delete(sendNow);
    clearInterval(interval);
    closeToast();
  };
  const sendNow = () => {
    end();
    send();
  };
  const interval = setInterval(() => {
    left.value--;
    if (left.peek() <= 0) sendNow();
  }, 1000);
  const onclick = () => {
    if (!held.has(sendNow)) return;
    end();
    undo();
  };
  const message = () => `${text} · ${t("{s} s", { s: left.value })}`;
  const closeToast = toast(message, { lasting: true, action: { label: t("Undo"), onclick } });
  held.add(sendNow);
}
