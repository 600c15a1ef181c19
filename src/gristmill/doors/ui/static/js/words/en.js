// @ts-check
/** English: only what changes with a number; every other sentence is its own key. @type {import("../i18n.js").Words} */
export const words = {
  "{n} items": { one: "{n} item", other: "{n} items" },
  "{n} chunks": { one: "{n} chunk", other: "{n} chunks" },
  "{n} selected": { one: "{n} selected", other: "{n} selected" },
  "{n} attempts": { one: "{n} attempt", other: "{n} attempts" },
  "{n} jobs are queued again": { one: "{n} job is queued again", other: "{n} jobs are queued again" },
  "{n} documents": { one: "{n} document", other: "{n} documents" },
  "{n} documents are being indexed": { one: "{n} document is being indexed", other: "{n} documents are being indexed" },
  "{n} errors": { one: "{n} error", other: "{n} errors" },
  "{n} deletions held": { one: "{n} deletion held", other: "{n} deletions held" },
};
