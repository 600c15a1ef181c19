// @ts-check
/** Where a hit is shown and opened. */

import { bestPlace, bestRange } from "../../src/gristmill/server/ui/static/js/search/best-place.js";

/** @typedef {[number, number]} Range */

/** @param {unknown} actual @param {unknown} expected */
function assertEquals(actual, expected) {
  if (JSON.stringify(actual) !== JSON.stringify(expected)) {
    throw new Error(`${JSON.stringify(actual)} is not ${JSON.stringify(expected)}`);
  }
}

/** @param {string} text @param {RegExp} pattern @returns {Range[]} in code points */
const find = (text, pattern) =>
  [...text.matchAll(pattern)].map((match) => {
    const start = [...text.slice(0, match.index)].length;
    return [start, start + [...match[0]].length];
  });

Deno.test("the rare word of a query decides where a hit is opened, not the first common one", () => {
  const text = `🌊 The heron rests on the pier. ${"Grain is sold. ".repeat(60)}The kingfisher rests on the pier.`;
  const highlights = find(text, /rests|pier|kingfisher/g);
  const at = [...text.slice(0, text.indexOf("kingfisher"))].length;
  const boxes = [{ page: 1, start: 1000, end: 1040 }, { page: 3, start: 1000 + at - 4, end: 1000 + at + 30 }];
  assertEquals(bestPlace({ text, highlights, source: { page: 1, start: 1000 }, boxes }), { at: 1000 + at, page: 3 });
  assertEquals(bestPlace({ text, highlights: [], source: { page: 2, start: 5 }, boxes }), { at: 5, page: 2 });
});

Deno.test("of equal places the first is taken, and case does not matter", () => {
  assertEquals(bestRange([[0, 3], [500, 503]], ["Rye", "rye"]), 0);
  assertEquals(bestRange([[0, 3], [500, 503], [504, 508]], ["Rye", "rye", "Oats"]), 1);
  assertEquals(bestRange([[0, 4], [90, 94], [100, 104], [900, 904]], ["pier", "quay", "pier", "pier"]), 1);
  assertEquals(bestRange([], []), 0);
});
