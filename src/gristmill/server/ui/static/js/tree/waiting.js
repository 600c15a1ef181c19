// @ts-check
/** Why an item makes no progress at the moment: the last error, which attempt it was, and when it is tried again. */

import { formatTime, problemMessage, t } from "../i18n.js";

/**
 * @typedef {{code: string, message: string, since: string | null, attempt: number | null, maxAttempts: number | null,
 *   nextAttemptAt: string | null}} Waiting
 */

/** @param {{waitingFor: Waiting | null}} item @param {number} [now] @returns {string} empty if it doesn't wait */
export function waitingText(item, now = Date.now()) {
  const { waitingFor } = item;
  if (!waitingFor) return "";
  const { attempt, maxAttempts, nextAttemptAt } = waitingFor;
  const attempts = attempt && maxAttempts ? t("Attempt {n} of {max}.", { n: attempt, max: maxAttempts }) : "";
  const isDue = !nextAttemptAt || new Date(nextAttemptAt).getTime() <= now;
  const nextTry = isDue ? "" : t("Next try at {time}.", { time: formatTime(nextAttemptAt) });
  return [problemMessage(waitingFor), attempts, nextTry].filter(Boolean).join(" ");
}
