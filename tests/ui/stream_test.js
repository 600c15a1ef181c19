// @ts-check
/** The parts of the stream that need no server: frames in pieces, batches with room between them, who is concerned. */

import { Batches, changeOf, Frames } from "../../src/gristmill/doors/ui/static/js/stream.js";
import { edge } from "../../src/gristmill/doors/ui/static/js/parts/spark.js";

/** @param {unknown} got @param {unknown} wanted */
function equal(got, wanted) {
  const [a, b] = [got, wanted].map((one) => JSON.stringify(one));
  if (a !== b) throw new Error(`${a} is not ${b}`);
}

Deno.test("frames are the same whatever pieces they come in", () => {
  const wire = 'retry: 1000\n:\nid: 41\n\nid: 42\nevent: BaseCreated\ndata: {"id":"42"}\n\nevent: item\ndata: {"id":"a"}\n\n';
  for (let size = 1; size <= wire.length; size++) {
    /** @type {[string, string][]} */ const seen = [];
    const frames = new Frames((name, data) => seen.push([name, data]));
    for (let at = 0; at < wire.length; at += size) frames.push(wire.slice(at, at + size));
    equal(seen, [["BaseCreated", '{"id":"42"}'], ["item", '{"id":"a"}']]);
    equal(frames.lastId, "42");
  }
});

Deno.test("a heartbeat moves the place and is told to nobody", () => {
  const frames = new Frames(() => {
    throw new Error("told");
  });
  frames.push(":\nid: 7\n\n");
  equal(frames.lastId, "7");
});

Deno.test("of an item only the newest state is told, and an event once", async () => {
  /** @type {any[]} */ const told = [];
  const batches = new Batches((batch) => told.push(batch), () => 0);
  batches.last = 0;
  for (const progress of [1, 2, 3]) batches.add(changeOf("item", { id: "a", progress }));
  batches.add(changeOf("BaseCreated", { id: "9" }));
  batches.add(changeOf("BaseCreated", { id: "9" }));
  batches.add(changeOf("gap", { upTo: "3" }));
  await new Promise((done) => setTimeout(done, 80));
  equal(told, [[{ type: "item", item: { id: "a", progress: 3 } }, { type: "event", event: { id: "9" } }, { type: "reload", base: null }]]);
});

Deno.test("batches are never closer than 50 ms, and the first is told at once", async () => {
  /** @type {number[]} */ const at = [];
  const batches = new Batches(() => at.push(performance.now()));
  batches.add(changeOf("item", { id: "first" }));
  await new Promise((done) => setTimeout(done, 1));
  equal(at.length, 1);
  for (let n = 0; n < 30; n++) {
    batches.add(changeOf("item", { id: String(n) }));
    await new Promise((done) => setTimeout(done, 8));
  }
  batches.flush();
  clearTimeout(batches.timer);
  for (let n = 1; n < at.length - 1; n++) if (at[n] - at[n - 1] < 45) throw new Error(`${at[n] - at[n - 1]} ms apart`);
});

Deno.test("a sparkline's edge begins and ends at its sides, and its highest point is at the top", () => {
  equal(edge([0, 0], 100, 24), "M0 23.0C50.0 23.0 50.0 23.0 100.0 23.0");
  equal(edge([0, 5], 100, 24).endsWith("100.0 2.0"), true);
});
