// @ts-check
/** How something is: a dot with a word, a bar with its percentage, a time that keeps itself right, an empty place. */

import { effect, html, signal } from "../core.js";
import { ago, full, t } from "../i18n.js";
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
const CONTAINERS = new Set(["directory", "sitemap", "connector"]);
/** @param {string} type */
export const holds = (type) => CONTAINERS.has(type);

/** @param {{type: string, status: string, progress: number}} item @returns {{tone: Tone, word: string}} */
export function statusOf(item) {
  if (item.status === "processing" && holds(item.type)) return { tone: "running", word: t("Processing") };
  const found = STATUSES[item.status] ?? STATUSES.processing;
  return { tone: found.tone, word: t(found.word) };
}

/** @template T @typedef {T | (() => T)} Maybe A value, or a function of signals. */
/** @template T @param {Maybe<T>} value @returns {T} */
const now = (value) => (typeof value === "function" ? /** @type {() => T} */ (value)() : value);

/** @param {Maybe<Tone>} tone */
export const dot = (tone) => html`<span class="dot ${tone}" aria-hidden="true"></span>`;

/** @param {Maybe<{tone: Tone, word: string}>} status */
export function status(status) {
  if (typeof status !== "function")
    return html`<span class="status ${status.tone}"><span class="dot ${status.tone}" aria-hidden="true"></span><span>${status.word}</span></span>`;
  return html`<span class="status ${() => status().tone}">${dot(() => status().tone)}<span>${() => status().word}</span></span>`;
}

/** @param {Maybe<number>} percent @param {Maybe<Tone>} [tone] A bar of 68 by 4. */
export const bar = (percent, tone = "running") =>
  html`<span class="bar ${tone}" aria-hidden="true"><i style.transform=${typeof percent === "function" ? () => `scaleX(${now(percent) / 100})` : `scaleX(${percent / 100})`}></i></span>`;

/**
 * The wide bar of several parts, each with its share of the whole.
 * @param {string} label @param {() => {tone: Tone, share: number, label: string}[]} parts
 */
export const stack = (label, parts) =>
  html`<div class="stack" role="img" aria-label="${() =>
    `${label}: ${parts()
      .map((part) => part.label)
      .join(", ")}`}">${() =>
    parts()
      .filter((part) => part.share > 0)
      .map((part) => html`<i class="${part.tone}" style.flex-grow=${part.share}></i>`)}</div>`;

const clock = signal(Date.now());
setInterval(() => {
  if (!document.hidden) clock.value = Date.now();
}, 10_000);

/** @param {() => string | null | undefined} when */
export const since = (when) =>
  html`<time datetime=${() => when()} title=${() => (when() ? full(/** @type {string} */ (when())) : null)}>${() =>
    when() ? ago(/** @type {string} */ (when()), Math.max(clock.value, Date.now())) : "–"}</time>`;

/** @param {string} name @param {string} title @param {string} text @param {unknown} [action] */
export const empty = (name, title, text, action = null) =>
  html`<div class="empty">${icon(name)}<h2>${title}</h2><p>${text}</p>${action}</div>`;

/** @param {() => string} title Names the window while the page is there. */
export function titled(title) {
  effect(() => {
    document.title = `${title()} · Gristmill`;
  });
}
