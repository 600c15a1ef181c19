// @ts-check
/** The timeline: routine is grouped between problems, and problems stay visible. */

import { GROUP_DESCRIPTIONS, groupEvents } from "../../src/gristmill/server/ui/static/js/pages/events/group.js";
import { messages } from "../../src/gristmill/server/ui/static/js/locales/zh-admin.js";

/** @param {string} types a letter for each event, newest first */
function timeline(types) {
  const names = { a: "DocumentUploadCompleted", f: "ItemFailed", c: "BaseCreated" };
  const events = [...types].map((letter, i) => ({
    id: `${i}`,
    type: names[/** @type {"a" | "f" | "c"} */ (letter.toLowerCase())],
    baseId: letter === letter.toUpperCase() ? "other" : "base",
    subject: null,
    data: letter === "f" ? { code: "bad" } : {},
    at: i < 8 ? "today" : "before",
  }));
  return groupEvents(events, (at) => at).map((entry) =>
    entry.events ? entry.events.map((event) => event.id).join("") : `${entry.day} ${entry.problems}`
  ).join(" ");
}

/** @param {string} actual @param {string} expected */
function assertEquals(actual, expected) {
  if (actual !== expected) throw new Error(`${actual} instead of ${expected}`);
}

Deno.test("routine of one kind and base is one entry, except across a failure", () => {
  assertEquals(timeline("aaafaaa"), "today 1 012 3 456");
  assertEquals(timeline("aAaAaA"), "today 0 024 135");
  assertEquals(timeline("aa"), "today 0 0 1");
  assertEquals(timeline("ccc"), "today 0 0 1 2");
});

Deno.test("failures with the same error that follow each other are one entry, and each day counts its own", () => {
  assertEquals(timeline("fffaaaaafff"), "today 3 012 34567 before 3 8910");
  assertEquals(timeline("ffF"), "today 3 0 1 2");
});

Deno.test("a day counts problems that are not loaded, each once, and says where there may be more", () => {
  const event = (/** @type {number} */ n, /** @type {string} */ type) => ({
    id: `${n}`,
    type,
    baseId: "base",
    subject: null,
    data: {},
    at: n < 4 ? "today" : "before",
  });
  const events = [event(0, "ItemFailed"), event(1, "BaseCreated"), event(5, "BaseCreated")];
  const items = [0, 2, 3, 4, 6].map((n) => event(n, "ItemFailed"));
  const days = (/** @type {string | null} */ nextCursor) =>
    groupEvents(events, (at) => at, { items, nextCursor }).flatMap((entry) =>
      entry.events ? [] : `${entry.day} ${entry.problems}${entry.isMore ? "+" : ""}`
    ).join(" ");
  assertEquals(days(null), "today 3 before 2");
  assertEquals(days("6"), "today 3 before 2+");
});

Deno.test("groups have Chinese texts", () => {
  for (const text of Object.values(GROUP_DESCRIPTIONS)) {
    if (!(text in messages)) throw new Error(`${text} is not in locales/zh-admin.js`);
  }
});
