// @ts-check
/** Hits are shown without markdown and HTML, and their highlights stay on their words. */

import { readable } from "../../src/gristmill/server/ui/static/js/readable.js";

/** @param {string} source @param {string} expected */
function expectText(source, expected) {
  const { text } = readable(source, []);
  if (text !== expected) throw new Error(`${JSON.stringify(source)} became ${JSON.stringify(text)}`);
}

Deno.test("markdown and HTML are left out", () => {
  expectText('# Dressing **stones**\n\nSee [the *mill*](https://x.org/a_(b) "t").', "Dressing stones\n\nSee the mill.");
  expectText("<p>Rye &amp; <b>oats</b></p><!-- x -->", " Rye & oats ");
  expectText("- one\n* two\n> quoted\n- [ ] task", "one\ntwo\nquoted\ntask");
  expectText("| Grain | Price |\n|---|:---:|\n| Rye | 12 |", "Grain · Price /\n\nRye · 12");
  expectText("| Grain | Price |\n| :- | -: |\n| Rye | 12 |", "Grain · Price /\n\nRye · 12");
  expectText("| a \\| b | c |\n| d | |\nx | y", "a | b · c /\nd · \nx | y");
  expectText("A sack[^1], [^a-z].\n\n[^1]: Dry\n[^wet]: Rain", "A sack, [^a-z].\n\n Dry\n Rain");
  expectText("![a wheel](w.png) ~~old~~ __two words__", "a wheel old two words");
  expectText("是**重要**的", "是重要的");
});

Deno.test("code keeps its characters, and names and products are not markup", () => {
  expectText("```js\nif (a < b) x = **p;\n```\nend", "if (a < b) x = **p;\n\nend");
  expectText("`<b>` and ``a ` b``", "<b> and a ` b");
  for (
    const text of ["x**2 + y**2", "__init__", "snake_case_name", "a * b * c", "List<String> x", "1 < 2 > 0", "-5 °C"]
  ) {
    expectText(text, text);
  }
});

Deno.test("ranges follow their words, and none is inside a tag", () => {
  const source = '😀 **stones** <a href="stones">a stone</a> [stones](stones.md)';
  const points = [...source];
  /** @type {[number, number][]} */ const ranges = [];
  for (let at = 0; at < points.length; at++) {
    if (points.slice(at, at + 5).join("") === "stone") ranges.push([at, at + 5]);
  }
  const { text, ranges: shown } = readable(source, ranges);
  const words = shown.map(([from, to]) => text.slice(from, to));
  if (text !== "😀 stones a stone stones" || words.join() !== "stone,stone,stone") throw new Error(`${text}: ${words}`);
});
