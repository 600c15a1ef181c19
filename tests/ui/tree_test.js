// @ts-check
/** Positions of rows: the tree's sums, compared with walking over the rows one by one. */

import { Tree } from "../../src/gristmill/server/ui/static/js/tree/model.js";

/** @param {unknown} actual @param {unknown} expected */
function assertEqual(actual, expected) {
  const [a, b] = [actual, expected].map((value) => JSON.stringify(value));
  if (a !== b) throw new Error(`${a} is not ${b}`);
}

/** @param {string} id @param {Record<string, unknown>} [more] @returns {any} */
const item = (id, more = {}) => ({
  ...{ id, title: id, status: "completed", progress: 100, type: "file", warnings: [], childCount: 0, path: [] },
  ...{ updatedAt: "2026-01-01T00:00:00Z", error: null, waitingFor: null },
  ...more,
});

/** A tree over a fake server that has `total` rows in every folder; every seventh is taller. @param {number} total */
function createTree(total) {
  /** @type {string[]} */ const queries = [];
  globalThis.fetch = (address) => {
    const query = new URL(String(address), "http://mill").searchParams;
    queries.push(String(query));
    const offset = Number(query.get("offset"));
    const parent = query.get("parentId");
    const items = Array.from(
      { length: Math.min(100, total - offset) },
      (_, i) =>
        item(`${parent ?? "root"}/${offset + i}`, {
          childCount: parent ? 0 : total,
          error: (offset + i) % 7 ? null : { code: "x", message: "y" },
        }),
    );
    return Promise.resolve(Response.json({ items, offset, total }));
  };
  const tree = new Tree("base", { row: () => 34, extra: (item) => (item.error ? 16 : 0) });
  return { tree, queries };
}

/** @param {Tree} it Walks over all rows. */
function walk(it) {
  const rows = [];
  for (let row = it.rowAt(0); row; row = it.rowAt(row.top + row.height)) rows.push(row);
  return rows;
}
const nextTask = () => new Promise((resolve) => setTimeout(resolve, 0));

Deno.test("rows follow each other without a gap, with open branches and taller rows", async () => {
  const { tree } = createTree(250);
  await tree.show(null);
  await tree.fetch(tree.root, 1);
  for (const id of ["root/3", "root/150"]) tree.open(/** @type {any} */ (tree.byId.get(id)));
  await nextTask();
  const rows = walk(tree);
  assertEqual(rows.length, 750);
  assertEqual(tree.count(tree.root), 750);
  const last = rows[rows.length - 1];
  assertEqual(tree.height(tree.root), last.top + last.height);
  for (const row of rows) if (row.node) assertEqual(tree.topOf(row.node), row.top);
  assertEqual(rows[4].node?.item.id, "root/3/0");
  assertEqual(tree.rowAt(tree.height(tree.root)), null);
});

Deno.test("removed rows leave every sum, and are restored in place", async () => {
  const { tree } = createTree(20);
  await tree.show(null);
  const before = walk(tree).map((row) => row.node?.item.id);
  const back = tree.remove(["root/0", "root/7", "root/19"]);
  const titles = walk(tree).map((row) => row.node?.item.id);
  assertEqual(titles, before.filter((id) => !["root/0", "root/7", "root/19"].includes(String(id))));
  tree.apply([item("root/7")]); // a late update of a removed row changes nothing
  assertEqual(walk(tree).length, 17);
  back();
  assertEqual(walk(tree).map((row) => row.node?.item.id), before);
});

Deno.test("progress never falls within a version, and restarts with the next", async () => {
  const { tree } = createTree(5);
  await tree.show(null);
  const node = /** @type {any} */ (tree.byId.get("root/1"));
  const seen = [];
  for (
    const [status, progress] of [["processing", 0], ["reading", 40], ["reading", 20], ["embedding", 80], [
      "completed",
      100,
    ], ["processing", 0]]
  ) {
    tree.apply([item("root/1", { status, progress })]);
    seen.push(node.item.progress);
  }
  assertEqual(seen, [0, 40, 40, 80, 100, 0]);
  tree.apply([item("root/1", { status: "failed", updatedAt: "2025-01-01T00:00:00Z" })]);
  assertEqual(node.item.status, "processing");
});

Deno.test("a page is fetched once, and only when it is visible", async () => {
  const { tree, queries } = createTree(100_000);
  await tree.show(null);
  const row = /** @type {any} */ (tree.rowAt(50_000 * 34));
  tree.ensureFetched(row);
  tree.ensureFetched(row);
  await nextTask();
  assertEqual(queries.length, 2);
  assertEqual(tree.root.rows.get(row.index)?.item.id, `root/${row.index}`);
  assertEqual(tree.byId.size, 200);
});

Deno.test("a refresh fetches only visible pages, and keeps open branches", async () => {
  const { tree, queries } = createTree(1000);
  await tree.show(null);
  for (let page = 1; page < 8; page++) await tree.fetch(tree.root, page);
  tree.open(/** @type {any} */ (tree.byId.get("root/5")));
  await nextTask();
  queries.length = 0;
  await tree.refresh(tree.root, [310, 311]);
  assertEqual(queries.length, 1);
  assertEqual([...tree.root.rows.keys()].filter((index) => index < 300 || index > 399), [5]);
  assertEqual(tree.openIds(), ["root/5"]);
  assertEqual(tree.count(tree.root), 2000);
});

Deno.test("what no longer matches the filter makes its list stale, and can come back", async () => {
  const { tree } = createTree(2);
  await tree.show({ status: ["completed"], q: "" });
  assertEqual(tree.apply([item("root/0", { title: "new" })]).size, 0);
  assertEqual(tree.apply([item("root/0", { status: "failed" })]).size, 1);
  const all = globalThis.fetch;
  globalThis.fetch = () => Promise.resolve(Response.json({ items: [item("root/1")], offset: 0, total: 1 }));
  await tree.refresh(tree.root);
  assertEqual(walk(tree).map((row) => row.node?.item.id), ["root/1"]);
  globalThis.fetch = all;
  assertEqual(tree.apply([item("root/0", { updatedAt: "2026-01-02T00:00:00Z" })]).size, 1);
  await tree.show(null, { sort: "title", descending: false });
  assertEqual(tree.apply([item("root/1", { title: "another" })]).size, 1);
});

Deno.test("a response from before a refresh does not replace the newer one", async () => {
  const { tree } = createTree(3);
  const newer = globalThis.fetch;
  /** @type {(response: Response) => void} */ let answer = () => {};
  globalThis.fetch = () => new Promise((resolve) => (answer = resolve));
  const shown = tree.show(null);
  globalThis.fetch = newer;
  await tree.refresh(tree.root, []);
  assertEqual(tree.count(tree.root), 3);
  answer(Response.json({ items: [], offset: 0, total: 0 }));
  await shown;
  assertEqual([tree.count(tree.root), tree.activeFetches], [3, 0]);
});
