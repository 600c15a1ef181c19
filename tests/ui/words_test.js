// @ts-check
/** Every sentence that the pages say is there in Chinese, and none is there that nobody says. */

import { words as contents } from "../../src/gristmill/doors/ui/static/js/words/zh-contents.js";
import { words as machine } from "../../src/gristmill/doors/ui/static/js/words/zh-machine.js";
import { words as english } from "../../src/gristmill/doors/ui/static/js/words/en.js";

const words = { ...contents, ...machine };
/** Pages that bring words of their own, and what only they use. */
const MACHINE = /^(queue|connectors?|connector-form|events|webhooks|settings|sign-in|cron|form)\.js$/;
const folder = new URL("../../src/gristmill/doors/ui/static/js/", import.meta.url);

/** @param {URL} at @param {(name: string) => boolean} [wanted] @returns {string} all modules but the words, as one text */
function sources(at, wanted = () => true) {
  let text = "";
  for (const entry of Deno.readDirSync(at)) {
    if (entry.isDirectory && entry.name !== "words") text += sources(new URL(`${entry.name}/`, at), wanted);
    else if (entry.name.endsWith(".js") && wanted(entry.name)) text += Deno.readTextFileSync(new URL(entry.name, at));
  }
  return text;
}

/** @param {string} text @returns {Set<string>} what is said by `t("…")` */
function said(text) {
  const found = new Set();
  for (const [, double, single] of text.matchAll(/\bt\(\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')/g)) {
    found.add((double ?? single).replace(/\\(.)/g, "$1"));
  }
  return found;
}

Deno.test("everything that is said is there in Chinese", () => {
  const missing = [...said(sources(folder))].filter((one) => !(one in words));
  if (missing.length) throw new Error(`not in words/zh: ${JSON.stringify(missing, null, 1)}`);
});

Deno.test("what is said everywhere is among the words that are always there", () => {
  const missing = [...said(sources(folder, (name) => !MACHINE.test(name)))].filter((one) => !(one in contents));
  if (missing.length) throw new Error(`not in words/zh-contents: ${JSON.stringify(missing, null, 1)}`);
});

Deno.test("both languages fill in the same names", () => {
  const names = (/** @type {string} */ sentence) => [...new Set(sentence.match(/\{\w+\}/g) ?? [])].sort().join(" ");
  for (const [key, value] of Object.entries({ ...words })) {
    const forms = typeof value === "string" ? [value] : Object.values(value);
    for (const form of forms) if (names(form) !== names(key)) throw new Error(`${key} is not ${form}`);
  }
  for (const key of Object.keys(english)) if (!(key in words)) throw new Error(`${key} is not in words/zh`);
});
