// @ts-check
/** Where rows stand: the tree's sums, held against counting one by one. */

import { Tree } from "../../src/gristmill/doors/ui/static/js/tree/model.js";

/** @param {unknown} got @param {unknown} wanted */
function equal(got, wanted) {
  const [a, b] = [got, wanted].map((one) => JSON.stringify(one));
  if (a !== b) throw new Error(`${a} is not ${b}`);
}

/** @param {string} id @param {Record<string, unknown>} [more] @returns {any} */
const item = (id, more = {}) => ({
  ...{ id, title: id, status: "completed", progress: 100, type: "file", warnings: [], childCount: 0, path: [] },
  ...{ updatedAt: "2026-01-01T00:00:00Z", error: null, waitingFor: null },
  ...more,
});

/** A tree over a server that has `total` rows everywhere; every seventh is taller. @param {number} total */
function tree(total) {
  /** @type {string[]} */ const asked = [];
  globalThis.fetch = (address) => {
    const query = new URL(String(address), "http://mill").searchParams;
    asked.push(String(query));
    const offset = Number(query.get("offset"));
    const parent = query.get("parentId");
    const items = Array.from({ length: Math.min(100, total - offset) }, (_, i) =>
      item(`${parent ?? "root"}/${offset + i}`, { childCount: parent ? 0 : total, error: (offset + i) % 7 ? null : { code: "x", message: "y" } }));
    const answer = Response.json({ items, offset, total });
    return Promise.resolve(answer);
  };
  const made = new Tree("base", { row: () => 34, extra: (one) => (one.error ? 16 : 0) });
  return { made, asked };
}

/** @param {Tree} it Walks over all rows, one after the other. */
function walk(it) {
  const rows = [];
  for (let row = it.at(0); row; row = it.at(row.top + row.height)) rows.push(row);
  return rows;
}
const settled = () => new Promise((resolve) => setTimeout(resolve, 0));

Deno.test("rows follow each other without a hole, whatever is open and tall", async () => {
  const { made } = tree(250);
  await made.show(null);
  await made.fetch(made.root, 1);
  for (const id of ["root/3", "root/150"]) made.open(/** @type {any} */ (made.byId.get(id)));
  await settled();
  const rows = walk(made);
  equal(rows.length, 750);
  equal(made.count(made.root), 750);
  const last = rows[rows.length - 1];
  equal(made.height(made.root), last.top + last.height);
  for (const row of rows) if (row.node) equal(made.topOf(row.node), row.top);
  equal(rows[4].node?.item.id, "root/3/0");
  equal(made.at(made.height(made.root)), null);
});

Deno.test("what was removed is gone from every sum, and put back where it was", async () => {
  const { made } = tree(20);
  await made.show(null);
  const before = walk(made).map((row) => row.node?.item.id);
  const back = made.remove(["root/0", "root/7", "root/19"]);
  const titles = walk(made).map((row) => row.node?.item.id);
  equal(titles, before.filter((id) => !["root/0", "root/7", "root/19"].includes(String(id))));
  made.apply([item("root/7")]); // a late word of it changes nothing
  equal(walk(made).length, 17);
  back();
  equal(walk(made).map((row) => row.node?.item.id), before);
});

Deno.test("a percentage never goes back within a version, and begins anew with another", async () => {
  const { made } = tree(5);
  await made.show(null);
  const node = /** @type {any} */ (made.byId.get("root/1"));
  const seen = [];
  for (const [status, progress] of [["processing", 0], ["reading", 40], ["reading", 20], ["embedding", 80], ["completed", 100], ["processing", 0]]) {
    made.apply([item("root/1", { status, progress })]);
    seen.push(node.item.progress);
  }
  equal(seen, [0, 40, 40, 80, 100, 0]);
  made.apply([item("root/1", { status: "failed", updatedAt: "2025-01-01T00:00:00Z" })]);
  equal(node.item.status, "processing");
});

Deno.test("a window is fetched once, and only where somebody looks", async () => {
  const { made, asked } = tree(100_000);
  await made.show(null);
  const row = /** @type {any} */ (made.at(50_000 * 34));
  made.need(row);
  made.need(row);
  await settled();
  equal(asked.length, 2);
  equal(made.root.rows.get(row.index)?.item.id, `root/${row.index}`);
  equal(made.byId.size, 200);
});

Deno.test("a renewal fetches what is in sight alone, and keeps what is open", async () => {
  const { made, asked } = tree(1000);
  await made.show(null);
  for (let page = 1; page < 8; page++) await made.fetch(made.root, page);
  made.open(/** @type {any} */ (made.byId.get("root/5")));
  await settled();
  asked.length = 0;
  await made.renew(made.root, [310, 311]);
  equal(asked.length, 1);
  equal([...made.root.rows.keys()].filter((index) => index < 300 || index > 399), [5]);
  equal(made.opened(), ["root/5"]);
  equal(made.count(made.root), 2000);
});
