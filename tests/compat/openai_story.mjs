// The official OpenAI client for Node: files, a store, a batch, a search with filters, paging, deletion.
import assert from "node:assert/strict";
import OpenAI, { toFile } from "openai";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "local", maxRetries: 0 });

const wheat = await client.files.create({
  file: await toFile(Buffer.from("Wheat is ground into flour."), "wheat.md"),
  purpose: "assistants",
});
assert.equal(wheat.filename, "wheat.md");
assert.equal(await (await client.files.content(wheat.id)).text(), "Wheat is ground into flour.");

const store = await client.vectorStores.create({ name: "grain", metadata: { team: "millers" } });
const file = await client.vectorStores.files.createAndPoll(store.id, {
  file_id: wheat.id,
  attributes: { year: 2020 },
});
assert.equal(file.status, "completed");
assert.deepEqual(file.attributes, { year: 2020 });

const uploads = await Promise.all(
  [1, 2, 3].map((n) => toFile(Buffer.from(`rye number ${n}`), `${n}.txt`)),
);
const batch = await client.vectorStores.fileBatches.uploadAndPoll(store.id, { files: uploads });
assert.equal(batch.status, "completed");
assert.equal(batch.file_counts.completed, 3);

const ids = [];
for await (const entry of client.vectorStores.files.list(store.id, { limit: 1, order: "asc" })) ids.push(entry.id);
assert.equal(ids.length, 4);
assert.equal(ids[0], wheat.id);

const results = await client.vectorStores.search(store.id, {
  query: "flour",
  filters: { type: "gte", key: "year", value: 2020 },
});
assert.deepEqual(results.data.map((result) => result.filename), ["wheat.md"]);

await client.files.delete(wheat.id);
await assert.rejects(client.vectorStores.files.retrieve(wheat.id, { vector_store_id: store.id }), { status: 404 });
await client.vectorStores.delete(store.id);
await assert.rejects(client.vectorStores.retrieve(store.id), OpenAI.NotFoundError);
console.log("ok");
