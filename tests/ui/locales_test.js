// @ts-check
/** Every message that the pages show has a Chinese translation, in the file that is loaded with the page. */

import { messages as shared } from "../../src/gristmill/server/ui/static/js/locales/zh-common.js";
import { messages as tend } from "../../src/gristmill/server/ui/static/js/locales/zh-tend.js";
import { messages as reader } from "../../src/gristmill/server/ui/static/js/locales/zh-reader.js";
import { messages as admin } from "../../src/gristmill/server/ui/static/js/locales/zh-admin.js";
import { messages as usage } from "../../src/gristmill/server/ui/static/js/locales/zh-usage.js";
import { messages as settings } from "../../src/gristmill/server/ui/static/js/locales/zh-base-settings.js";
import { messages as find } from "../../src/gristmill/server/ui/static/js/locales/zh-find.js";
import { messages as english } from "../../src/gristmill/server/ui/static/js/locales/en.js";

const common = { ...shared, ...tend };
const chinese = { ...common, ...reader, ...admin, ...usage, ...settings, ...find };
/** Modules that are only loaded with the admin pages, which load `zh-admin.js` too. */
const ADMIN = new RegExp(
  "^(queue|connectors?|connector-(access|form|kinds|people|push|run)|event(s|-rows)|webhooks|settings|general|models" +
    "|embedder-form|keys|workers|audit|storage|usage|people|sign-in|cron|form|secret)\\.js$",
);
/** Modules that load `zh-find.js`, or are only loaded by those. */
const FIND = /^(answer|search-page|filters|saved|save-dialog|new-base|connect|snippets|try-it|criteria)\.js$/;
/** Modules of the settings of a base, which load `zh-base-settings.js`. */
const SETTINGS = /^(base-settings|embedder|retention|sharing|questions|chunk-preview)\.js$/;
/** Modules of the reader, which loads `zh-reader.js`. */
const READER = /^(reader|page-view|text-view|text-blocks|passage|safe-html)\.js$/;
const folder = new URL("../../src/gristmill/server/ui/static/js/", import.meta.url);

/**
 * @param {URL} at @param {(name: string) => boolean} [isIncluded]
 * @returns {string} all modules but the locales, as one text
 */
function sources(at, isIncluded = () => true) {
  let text = "";
  for (const entry of Deno.readDirSync(at)) {
    if (entry.isDirectory && entry.name !== "locales") text += sources(new URL(`${entry.name}/`, at), isIncluded);
    else if (entry.name.endsWith(".js") && isIncluded(entry.name)) {
      text += Deno.readTextFileSync(new URL(entry.name, at));
    }
  }
  return text;
}

/** @param {string} text @returns {Set<string>} the keys in calls of `t("…")` */
function messageKeys(text) {
  const keys = new Set();
  for (const [, double, single] of text.matchAll(/\bt\(\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')/g)) {
    keys.add((double ?? single).replace(/\\(.)/g, "$1"));
  }
  return keys;
}

Deno.test("every message has a Chinese translation", () => {
  const missing = [...messageKeys(sources(folder))].filter((key) => !(key in chinese));
  if (missing.length) throw new Error(`not in locales/zh-*.js: ${JSON.stringify(missing, null, 1)}`);
});

Deno.test("messages of modules that every page loads are in zh-common.js", () => {
  const isCommon = (/** @type {string} */ name) => ![ADMIN, FIND, READER, SETTINGS].some((own) => own.test(name));
  const missing = [...messageKeys(sources(folder, isCommon))].filter((key) => !(key in common));
  if (missing.length) throw new Error(`not in locales/zh-common.js: ${JSON.stringify(missing, null, 1)}`);
});

Deno.test("messages of the reader are in zh-reader.js or zh-common.js", () => {
  const keys = [...messageKeys(sources(folder, (name) => READER.test(name)))];
  const missing = keys.filter((key) => !(key in reader) && !(key in common));
  if (missing.length) throw new Error(`not in locales/zh-reader.js: ${JSON.stringify(missing, null, 1)}`);
});

Deno.test("messages of the settings of a base are in zh-base-settings.js or zh-common.js", () => {
  const keys = [...messageKeys(sources(folder, (name) => SETTINGS.test(name)))];
  const missing = keys.filter((key) => !(key in settings) && !(key in common));
  if (missing.length) throw new Error(`not in locales/zh-base-settings.js: ${JSON.stringify(missing, null, 1)}`);
});

Deno.test("messages of search, answers, new bases and connecting are in zh-find.js or zh-common.js", () => {
  const keys = [...messageKeys(sources(folder, (name) => FIND.test(name)))];
  const missing = keys.filter((key) => !(key in find) && !(key in common));
  if (missing.length) throw new Error(`not in locales/zh-find.js: ${JSON.stringify(missing, null, 1)}`);
});

Deno.test("translations use the same placeholders as their key", () => {
  const placeholders = (/** @type {string} */ text) => [...new Set(text.match(/\{\w+\}/g) ?? [])].sort().join(" ");
  for (const [key, value] of [...Object.entries(chinese), ...Object.entries(english)]) {
    const forms = typeof value === "string" ? [value] : Object.values(value);
    for (const form of forms) {
      if (placeholders(form) !== placeholders(key)) throw new Error(`"${form}" does not match "${key}"`);
    }
  }
  for (const key of Object.keys(english)) if (!(key in chinese)) throw new Error(`${key} is not in locales/zh-*.js`);
});

Deno.test("English messages that count something have a singular", () => {
  const nouns = "items|chunks|files|pages|documents|characters|jobs|errors|results|attempts|deletions|images" +
    "|members|accounts|slots|questions|texts";
  const isCounting = new RegExp(`\\{\\w+\\} (?:\\w+ )?(?:${nouns})\\b`);
  const alwaysMany = [
    "Show all {n} characters",
    "Only part of it was read: {part} pages.",
    "Only its first {characters} characters were chunked.",
  ];
  const forms = new Map(Object.entries(english));
  const missing = Object.keys(chinese).filter((key) =>
    isCounting.test(key) && !alwaysMany.includes(key) && typeof forms.get(key) !== "object"
  );
  if (missing.length) throw new Error(`without a singular in locales/en.js: ${JSON.stringify(missing, null, 1)}`);
});
