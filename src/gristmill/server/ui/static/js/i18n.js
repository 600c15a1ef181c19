// @ts-check
/**
 * Messages in the user's language: English or Simplified Chinese. The English message is the key, and is shown where a
 * translation is missing. The browser remembers the user's choice; without one, the browser's languages decide.
 */

import { messages as english } from "./locales/en.js";

/** @typedef {Record<string, string | {one: string, other: string}>} Messages */

export const LANGUAGES = /** @type {const} */ ({ en: "English", zh: "简体中文" });
const STORAGE_KEY = "gristmill.language";

/** @returns {"en" | "zh"} */
function chooseLanguage() {
  const stored = localStorage.getItem(STORAGE_KEY);
  if (stored === "en" || stored === "zh") return stored;
  for (const preferred of navigator.languages ?? []) {
    if (/^zh/i.test(preferred)) return "zh";
    if (/^en/i.test(preferred)) return "en";
  }
  return "en";
}

/** @returns {Promise<Messages>} */
async function chineseMessages() {
  const parts = await Promise.all([
    import("./locales/zh-common.js"),
    import("./locales/zh-tend.js"),
  ]);
  return Object.assign({}, ...parts.map((part) => part.messages));
}

export const language = chooseLanguage();
/** @type {Messages} */
const messages = language === "zh" ? await chineseMessages() : english;
const locale = language === "zh" ? "zh-CN" : "en-US";
const numberFormat = new Intl.NumberFormat(locale);
const smallFormat = new Intl.NumberFormat(locale, { maximumSignificantDigits: 2 });
const pluralRules = new Intl.PluralRules(locale);
const relativeFormat = new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "short" });
const dateTimeFormat = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
const DAY = /** @type {const} */ ({ weekday: "long", day: "numeric", month: "long" });
const dayFormat = new Intl.DateTimeFormat(locale, DAY);
const utcDayFormat = new Intl.DateTimeFormat(locale, { ...DAY, timeZone: "UTC" });
const dateFormat = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeZone: "UTC" });
const languageNames = new Intl.DisplayNames(locale, { type: "language" });
const timeFormat = new Intl.DateTimeFormat(locale, { timeStyle: "medium" });

/** @param {"en" | "zh"} code Stores the choice, and reloads the page in it. */
export function setLanguage(code) {
  localStorage.setItem(STORAGE_KEY, code);
  location.reload();
}

/**
 * `sentence` in the user's language, with each `{name}` filled in; `{n}` chooses between singular and plural.
 * @param {string} sentence @param {Record<string, unknown>} [values]
 */
export function t(sentence, values = {}) {
  const message = messages[sentence] ?? sentence;
  const template = typeof message === "string"
    ? message
    : message[pluralRules.select(Number(values.n)) === "one" ? "one" : "other"];
  return template.replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name];
    return typeof value === "number" ? formatNumber(value) : String(value ?? "");
  });
}

/** @type {{errors: Record<string, import("./locales/zh-errors.js").ErrorText>, fields: [RegExp, string][]}} */
const { errors: errorTexts, fields: fieldTexts } = language === "zh"
  ? await import("./locales/zh-errors.js")
  : { errors: {}, fields: [] };

/** @param {typeof errorTexts} additional Messages of the server that only some pages show. */
export const addErrors = (additional) => void Object.assign(errorTexts, additional);

/**
 * A message of the server in the user's language, by its code; in English where there is no translation.
 * @param {string | undefined} code @param {string} message as the server sent it
 */
export function errorMessage(code, message) {
  const entry = errorTexts[code ?? ""];
  if (!entry) return message;
  if (typeof entry === "string") {
    return entry.replace("{message}", () => code === "invalid_request" ? sentencesOf(message) : message);
  }
  const found = entry.pattern.exec(message);
  return found
    ? entry.text.replace(/\{(\d)\}/g, (_, n) => found[Number(n)] ?? "")
    : entry.other.replace("{message}", () => message);
}

/** @param {string} message Sentences such as "title must have at most 500 characters." */
const sentencesOf = (message) =>
  message.split(/(?<=\.) /).map((sentence) => {
    const [, field, text] = /^(\S+) (.+)\.$/.exec(sentence) ?? [];
    const translated = fieldMessage(text ?? "");
    return translated === (text ?? "") ? sentence : `${field} ${translated}`;
  }).join(" ");

/** @param {string} message What is wrong with one field of a form, in the user's language. */
export function fieldMessage(message) {
  for (const [pattern, text] of fieldTexts) {
    const found = pattern.exec(message);
    if (found) return text.replace(/\{(\d)\}/g, (_, n) => found[Number(n)] ?? "");
  }
  return message;
}

/** @param {{code?: string, message?: string} | null | undefined} problem an error as part of a response */
export const problemMessage = (problem) => errorMessage(problem?.code, problem?.message ?? "");

/** @param {Messages} additional Messages of a page that loads its own. */
export const addMessages = (additional) => void Object.assign(messages, additional);

/** @param {number} value */
export const formatNumber = (value) => numberFormat.format(value);

/** @param {number} value An amount of money; small ones with the digits that they have, or they would read as none. */
export const formatCost = (value) => (value && Math.abs(value) < 0.01 ? smallFormat : numberFormat).format(value);

/** @param {number | null | undefined} value */
export function formatBytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (value >= 1000 && i < units.length - 1) {
    value /= 1000;
    i++;
  }
  return `${numberFormat.format(Number(value.toFixed(value < 10 && i ? 1 : 0)))} ${units[i]}`;
}

/** @param {string | Date} when @param {number} [now] */
export function formatRelative(when, now = Date.now()) {
  const seconds = (new Date(when).getTime() - now) / 1000;
  const distance = Math.abs(seconds);
  if (distance < 10) return t("now");
  if (distance < 60) return relativeFormat.format(Math.round(seconds), "second");
  if (distance < 3600) return relativeFormat.format(Math.round(seconds / 60), "minute");
  if (distance < 86400) return relativeFormat.format(Math.round(seconds / 3600), "hour");
  return relativeFormat.format(Math.round(seconds / 86400), "day");
}

/** @param {number} seconds A rough duration: `40 s`, `6 min`, `3 h`. */
export function formatDuration(seconds) {
  if (seconds < 1) return t("{ms} ms", { ms: Math.round(seconds * 1000) });
  if (seconds < 90) return t("{s} s", { s: Math.round(seconds) });
  if (seconds < 5400) return t("{m} min", { m: Math.round(seconds / 60) });
  return t("{h} h", { h: Math.round(seconds / 3600) });
}

/** @param {string | Date} when */
export const formatDateTime = (when) => dateTimeFormat.format(new Date(when));
/** @param {string} when A time, or a day, which is the same in all time zones. */
export const formatDay = (when) => (isDate(when) ? utcDayFormat : dayFormat).format(new Date(when));
/** @param {string} text */
const isDate = (text) => /^\d{4}-\d\d-\d\d$/.test(text);
/** @param {string | Date} when */
export const formatTime = (when) => timeFormat.format(new Date(when));
/** @param {string} text An ISO 8601 time or date of a document; as it is where it is neither. */
export function formatIsoTime(text) {
  if (Number.isNaN(Date.parse(text))) return text;
  if (/T/.test(text)) return formatDateTime(text);
  return isDate(text) ? dateFormat.format(new Date(text)) : text; // the same day in all time zones
}
/** @param {string} code The name of the language with this code. */
export const languageName = (code) => languageNames.of(code) ?? code;
