// @ts-check
/** Tests of the stream without a server: parsing of split events, and batches with a pause between them. */

import { ChangeBatcher, SseParser, toChange } from "../../src/gristmill/server/ui/static/js/stream.js";
import { linePath } from "../../src/gristmill/server/ui/static/js/components/sparkline.js";

/** @param {unknown} actual @param {unknown} expected */
function assertEqual(actual, expected) {
  const [a, b] = [actual, expected].map((value) => JSON.stringify(value));
  if (a !== b) throw new Error(`${a} is not ${b}`);
}

Deno.test("events are parsed however the stream is split", () => {
  const wire =
    'retry: 1000\n:\nid: 41\n\nid: 42\nevent: BaseCreated\ndata: {"id":"42"}\n\nevent: item\ndata: {"id":"a"}\n\n';
  for (let size = 1; size <= wire.length; size++) {
    /** @type {[string, string][]} */ const seen = [];
    const frames = new SseParser((name, data) => seen.push([name, data]));
    for (let at = 0; at < wire.length; at += size) frames.push(wire.slice(at, at + size));
    assertEqual(seen, [["BaseCreated", '{"id":"42"}'], ["item", '{"id":"a"}']]);
    assertEqual(frames.lastId, "42");
  }
});

Deno.test("a heartbeat moves the position and is not delivered", () => {
  const frames = new SseParser(() => {
    throw new Error("delivered");
  });
  frames.push(":\nid: 7\n\n");
  assertEqual(frames.lastId, "7");
});

Deno.test("only the newest state of an item is delivered, and an event once", async () => {
  /** @type {any[]} */ const batches = [];
  const batcher = new ChangeBatcher((batch) => batches.push(batch), () => 0);
  batcher.lastFlush = 0;
  for (const progress of [1, 2, 3]) batcher.add(toChange("item", { id: "a", progress }));
  batcher.add(toChange("BaseCreated", { id: "9" }));
  batcher.add(toChange("BaseCreated", { id: "9" }));
  batcher.add(toChange("gap", { upTo: "3" }));
  await new Promise((done) => setTimeout(done, 80));
  assertEqual(batches, [[{ type: "item", item: { id: "a", progress: 3 } }, { type: "event", event: { id: "9" } }, {
    type: "reload",
    base: null,
  }]]);
});

Deno.test("batches are at least 50 ms apart, and the first is delivered at once", async () => {
  /** @type {number[]} */ const at = [];
  const batcher = new ChangeBatcher(() => at.push(performance.now()));
  batcher.add(toChange("item", { id: "first" }));
  await new Promise((done) => setTimeout(done, 1));
  assertEqual(at.length, 1);
  for (let n = 0; n < 30; n++) {
    batcher.add(toChange("item", { id: String(n) }));
    await new Promise((done) => setTimeout(done, 8));
  }
  batcher.flush();
  clearTimeout(batcher.timer);
  for (let n = 1; n < at.length - 1; n++) if (at[n] - at[n - 1] < 45) throw new Error(`${at[n] - at[n - 1]} ms apart`);
});

Deno.test("a sparkline reaches both sides, and its highest point is at the top", () => {
  assertEqual(linePath([0, 0], 100, 24), "M0 23.0C50.0 23.0 50.0 23.0 100.0 23.0");
  assertEqual(linePath([0, 5], 100, 24).endsWith("100.0 2.0"), true);
});
