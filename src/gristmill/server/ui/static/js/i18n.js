// @ts-check
/**
 * Words in the user's language: English, or Simplified Chinese. The English sentence is the key; what a language lacks is
 * shown in English. The choice is kept in the browser; without one its preferences decide.
 */

import { words as english } from "./words/en.js";

/** @typedef {Record<string, string | {one: string, other: string}>} Words */

export const LANGUAGES = /** @type {const} */ ({ en: "English", zh: "简体中文" });
const KEPT = "gristmill.language";

/** @returns {"en" | "zh"} */
function choose() {
  const kept = localStorage.getItem(KEPT);
  if (kept === "en" || kept === "zh") return kept;
  for (const one of navigator.languages ?? []) {
    if (/^zh/i.test(one)) return "zh";
    if (/^en/i.test(one)) return "en";
  }
  return "en";
}

export const language = choose();
/** @type {Words} */
const words = language === "zh" ? (await import("./words/zh-contents.js")).words : english;
const locale = language === "zh" ? "zh-CN" : "en-US";
const numbers = new Intl.NumberFormat(locale);
const plural = new Intl.PluralRules(locale);
const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "short" });
const moment = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
const day = new Intl.DateTimeFormat(locale, { weekday: "long", day: "numeric", month: "long" });
const clock = new Intl.DateTimeFormat(locale, { timeStyle: "medium" });

/** @param {"en" | "zh"} chosen Keeps the choice, and starts the page again in it. */
export function setLanguage(chosen) {
  localStorage.setItem(KEPT, chosen);
  location.reload();
}

/**
 * `sentence` in the user's language, with `{name}` filled in; `{n}` decides between one and many.
 * @param {string} sentence @param {Record<string, unknown>} [values]
 */
export function t(sentence, values = {}) {
  const found = words[sentence] ?? sentence;
  const form = typeof found === "string" ? found : found[plural.select(Number(values.n)) === "one" ? "one" : "other"];
  return form.replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name];
    return typeof value === "number" ? number(value) : String(value ?? "");
  });
}

/** @param {Words} more Words of pages that bring their own. */
export const learn = (more) => void Object.assign(words, more);

/** @param {number} value */
export const number = (value) => numbers.format(value);

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (value >= 1000 && i < units.length - 1) {
    value /= 1000;
    i++;
  }
  return `${numbers.format(Number(value.toFixed(value < 10 && i ? 1 : 0)))} ${units[i]}`;
}

/** @param {string | Date} when @param {number} [now] */
export function ago(when, now = Date.now()) {
  const seconds = (new Date(when).getTime() - now) / 1000;
  const size = Math.abs(seconds);
  if (size < 10) return t("now");
  if (size < 60) return relative.format(Math.round(seconds), "second");
  if (size < 3600) return relative.format(Math.round(seconds / 60), "minute");
  if (size < 86400) return relative.format(Math.round(seconds / 3600), "hour");
  return relative.format(Math.round(seconds / 86400), "day");
}

/** @param {number} seconds A length of time, roughly: `40 s`, `6 min`, `3 h`. */
export function duration(seconds) {
  if (seconds < 1) return t("{ms} ms", { ms: Math.round(seconds * 1000) });
  if (seconds < 90) return t("{s} s", { s: Math.round(seconds) });
  if (seconds < 5400) return t("{m} min", { m: Math.round(seconds / 60) });
  return t("{h} h", { h: Math.round(seconds / 3600) });
}

/** @param {string | Date} when */
export const full = (when) => moment.format(new Date(when));
/** @param {string | Date} when */
export const dayOf = (when) => day.format(new Date(when));
/** @param {string | Date} when */
export const timeOf = (when) => clock.format(new Date(when));
