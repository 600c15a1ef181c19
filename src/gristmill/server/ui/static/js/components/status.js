// @ts-check
/** Status displays: a dot with a label, progress bars, relative times that update themselves, and empty states. */

import { effect, html, signal } from "../core.js";
import { formatDateTime, formatRelative, t } from "../i18n.js";
import { icon } from "./icon.js";

/** @typedef {"queued" | "running" | "ok" | "failed" | "warn" | "off"} Tone */

/** @type {Record<string, {tone: Tone, word: string}>} */
const STATUSES = {
  preparing: { tone: "queued", word: "Queued" },
  processing: { tone: "queued", word: "Queued" },
  reading: { tone: "running", word: "Reading" },
  embedding: { tone: "running", word: "Embedding" },
  completed: { tone: "ok", word: "Indexed" },
  failed: { tone: "failed", word: "Failed" },
  deleting: { tone: "off", word: "Deleting" },
};
const CONTAINERS = new Set(["directory", "sitemap", "site", "connector"]);
/** @param {string} type */
export const isContainer = (type) => CONTAINERS.has(type);

/** @param {{type: string, status: string, progress: number}} item @returns {{tone: Tone, word: string}} */
export function statusOf(item) {
  if (item.status === "processing" && isContainer(item.type)) return { tone: "running", word: t("Processing") };
  const known = STATUSES[item.status] ?? STATUSES.processing;
  return { tone: known.tone, word: t(known.word) };
}

/** @template T @typedef {T | (() => T)} Maybe A value, or a function that reads signals. */

/** @param {Maybe<Tone>} tone */
export const dot = (tone) => html`<span class="dot ${tone}" aria-hidden="true"></span>`;

/** @param {Maybe<{tone: Tone, word: string}>} status */
export function status(status) {
  const isLive = typeof status === "function";
  const tone = isLive ? () => status().tone : status.tone;
  const word = isLive ? () => status().word : status.word;
  return html`<span class="status ${tone}">${dot(tone)}<span>${word}</span></span>`;
}

/** @param {Maybe<number>} percent @param {Maybe<Tone>} [tone] A bar of 68 by 4. */
export function bar(percent, tone = "running") {
  const scale = (/** @type {number} */ value) => `scaleX(${value / 100})`;
  const transform = typeof percent === "function" ? () => scale(percent()) : scale(percent);
  return html`<span class="bar ${tone}" aria-hidden="true"><i style.transform=${transform}></i></span>`;
}

/**
 * A wide bar of several parts, each as wide as its share.
 * @param {string} label @param {() => {tone: Tone, share: number, label: string}[]} parts
 */
export function stackedBar(label, parts) {
  const description = () => `${label}: ${parts().map((part) => part.label).join(", ")}`;
  const segments = () =>
    parts()
      .filter((part) => part.share > 0)
      .map((part) => html`<i class="${part.tone}" style.flex-grow=${part.share}></i>`);
  return html`<div class="stack" role="img" aria-label="${description}">${segments}</div>`;
}

const clock = signal(Date.now());
setInterval(() => {
  if (!document.hidden) clock.value = Date.now();
}, 10_000);

/** @param {() => string | null | undefined} when */
export function relativeTime(when) {
  const title = () => (when() ? formatDateTime(/** @type {string} */ (when())) : null);
  const text = () => when() ? formatRelative(/** @type {string} */ (when()), Math.max(clock.value, Date.now())) : "–";
  return html`<time datetime=${when} title=${title}>${text}</time>`;
}

/** @param {string} name @param {string} title @param {string} text @param {unknown} [action] */
export const emptyState = (name, title, text, action = null) =>
  html`<div class="empty">${icon(name)}<h2>${title}</h2><p>${text}</p>${action}</div>`;

export function baseNotFound() {
  const link = html`<a class="button line" href="/">${t("All bases")}</a>`;
  return emptyState("base", t("Base not found"), t("It may have been deleted."), link);
}

/** @param {() => string} title Sets the window title while the page is shown. */
export function setPageTitle(title) {
  effect(() => {
    document.title = `${title()} · Gristmill`;
  });
}

/** @param {Error | null} error A banner; none while the server can't be reached, which the shell shows. */
export function errorBanner(error) {
  if (!error || /** @type {any} */ (error).code === "offline") return null;
  return html`
    <div class="pad">
      <div class="banner bad" role="alert">${icon("warn")}<p>${error.message}</p></div>
    </div>
  `;
}
