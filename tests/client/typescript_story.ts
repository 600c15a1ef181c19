// The TypeScript client: create a base, upload, follow, search, list page by page, fail with a code, delete.
import { Client, GristmillError } from "./client.ts";

function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(message);
}

const mill = new Client(Deno.args[0]);
const base = await mill.call("post", "/api/knowledge-bases", { body: { name: "grain / rye" } });
const path = { base_id: base.id };
const added = await mill.upload(base.id, [
  new File(["Wheat is ground into flour."], "wheat.md"),
  new File(["Rye makes heavy bread."], "rye.md"),
]);
assert(added.created.length === 2, "two files");
for (const item of added.created) {
  let status: string = item.status;
  while (status !== "completed") {
    assert(status !== "failed", "the file failed");
    await new Promise((resolve) => setTimeout(resolve, 50));
    status = (await mill.call("get", "/api/knowledge-items/{item_id}", { path: { item_id: item.id } })).status;
  }
}
const { hits } = await mill.call("post", "/api/knowledge-bases/{base_id}/search", {
  path,
  body: { query: "heavy bread", limit: 1 },
});
assert(hits[0].title === "rye.md" && hits[0].score <= 1, "the hit");
const titles: string[] = [];
for await (const item of mill.list("/api/knowledge-bases/{base_id}/items", { path, query: { limit: 1 } })) {
  titles.push(item.title);
}
assert(titles.join() === "wheat.md,rye.md", titles.join());
// @ts-expect-error: there is no such path
const unknown = mill.call("get", "/api/nothing").catch((error) => error);
assert((await unknown) instanceof GristmillError, "an unknown path");
try {
  await mill.call("post", "/api/knowledge-bases", { body: { name: "grain / rye" } });
  assert(false, "the name is taken");
} catch (error) {
  assert(error instanceof GristmillError && error.code === "base_name_taken" && error.status === 409, String(error));
}
await mill.call("delete", "/api/knowledge-bases/{base_id}", { path });
console.log("ok");
