// @ts-check
/** English: only what changes with a number; every other sentence is its own key. @type {import("../i18n.js").Words} */
export const words = {
  "{n} items": { one: "{n} item", other: "{n} items" },
  "{n} chunks": { one: "{n} chunk", other: "{n} chunks" },
  "{n} files": { one: "{n} file", other: "{n} files" },
  "{n} hits in {ms} ms": { one: "{n} hit in {ms} ms", other: "{n} hits in {ms} ms" },
  "{n} unfinished items": { one: "{n} unfinished item", other: "{n} unfinished items" },
  "Added {n} files": { one: "Added {n} file", other: "Added {n} files" },
  "Added {n} items": { one: "Added {n} item", other: "Added {n} items" },
  "Deleted {n} items": { one: "Deleted {n} item", other: "Deleted {n} items" },
  "Recovered {n} items": { one: "Recovered {n} item", other: "Recovered {n} items" },
  "Dismissed {n} items": { one: "Dismissed {n} item", other: "Dismissed {n} items" },
  "Reindexing {n} items": { one: "Reindexing {n} item", other: "Reindexing {n} items" },
  "Sending {n} files": { one: "Sending {n} file", other: "Sending {n} files" },
  "{n} files added": { one: "{n} file added", other: "{n} files added" },
  "{n} selected": { one: "{n} selected", other: "{n} selected" },
  "{n} attempts": { one: "{n} attempt", other: "{n} attempts" },
  "{n} jobs are queued again": { one: "{n} job is queued again", other: "{n} jobs are queued again" },
  "{n} documents": { one: "{n} document", other: "{n} documents" },
  "{n} documents are being indexed": { one: "{n} document is being indexed", other: "{n} documents are being indexed" },
  "{n} errors": { one: "{n} error", other: "{n} errors" },
  "{n} deletions held": { one: "{n} deletion held", other: "{n} deletions held" },
};
