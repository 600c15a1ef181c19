// @ts-check
/**
 * English: only messages that differ from their key, mostly those that change with a number. Every other message is its
 * own key.
 * @type {Messages}
 */

/** @import { Messages } from "../i18n.js" */
export const messages = {
  "{n} items": { one: "{n} item", other: "{n} items" },
  "{n} chunks": { one: "{n} chunk", other: "{n} chunks" },
  "{n} files": { one: "{n} file", other: "{n} files" },
  "{n} characters": { one: "{n} character", other: "{n} characters" },
  "{n} results in {ms} ms": { one: "{n} result in {ms} ms", other: "{n} results in {ms} ms" },
  "{n} unfinished items": { one: "{n} unfinished item", other: "{n} unfinished items" },
  "Add {n} files": { one: "Add {n} file", other: "Add {n} files" },
  "Added {n} files": { one: "Added {n} file", other: "Added {n} files" },
  "Added {n} items": { one: "Added {n} item", other: "Added {n} items" },
  "Delete {n} items?": { one: "Delete {n} item?", other: "Delete {n} items?" },
  "{n} items are read, chunked and embedded again. Until that is done, search uses what is there now.": {
    one: "{n} item is read, chunked and embedded again. Until that is done, search uses what is there now.",
    other: "{n} items are read, chunked and embedded again. Until that is done, search uses what is there now.",
  },
  "{n} chunks of at most {size} tokens; now {now}.": {
    one: "{n} chunk of at most {size} tokens; now {now}.",
    other: "{n} chunks of at most {size} tokens; now {now}.",
  },
  "{n} questions were deleted": { one: "{n} question was deleted", other: "{n} questions were deleted" },
  "{n} questions made from this base": {
    one: "{n} question made from this base",
    other: "{n} questions made from this base",
  },
  "{n} members": { one: "{n} member", other: "{n} members" },
  "{n} accounts mapped": { one: "{n} account mapped", other: "{n} accounts mapped" },
  "{running} of {slots} slots": { one: "{running} of {slots} slot", other: "{running} of {slots} slots" },
  "{n} texts": { one: "{n} text", other: "{n} texts" },
  "{n} tokens": { one: "{n} token", other: "{n} tokens" },
  "Reindex {n} items?": { one: "Reindex {n} item?", other: "Reindex {n} items?" },
  "Move {n} items": { one: "Move {n} item", other: "Move {n} items" },
  "Moved {n} items": { one: "Moved {n} item", other: "Moved {n} items" },
  "Moving {n} items to the other base": {
    one: "Moving {n} item to the other base",
    other: "Moving {n} items to the other base",
  },
  "Changed the tags of {n} items": { one: "Changed the tags of {n} item", other: "Changed the tags of {n} items" },
  "Deleted {n} items": { one: "Deleted {n} item", other: "Deleted {n} items" },
  "Recovered {n} items": { one: "Recovered {n} item", other: "Recovered {n} items" },
  "Dismissed {n} items": { one: "Dismissed {n} item", other: "Dismissed {n} items" },
  "Reindexing {n} items": { one: "Reindexing {n} item", other: "Reindexing {n} items" },
  "Uploading {n} files": { one: "Uploading {n} file", other: "Uploading {n} files" },
  "{n} files added": { one: "{n} file added", other: "{n} files added" },
  "{n} of its messages are part of its own text.": {
    one: "{n} of its messages is part of its own text.",
    other: "{n} of its messages are part of its own text.",
  },
  "The text of {n} pages was recognised by OCR.": {
    one: "The text of {n} page was recognised by OCR.",
    other: "The text of {n} pages was recognised by OCR.",
  },
  "The text that OCR recognised on {n} pages is probably wrong.": {
    one: "The text that OCR recognised on {n} page is probably wrong.",
    other: "The text that OCR recognised on {n} pages is probably wrong.",
  },
  "{n} pages contain no text, and OCR was not run on them.": {
    one: "{n} page contains no text, and OCR was not run on it.",
    other: "{n} pages contain no text, and OCR was not run on them.",
  },
  "{n} embedded documents were skipped.": {
    one: "{n} embedded document was skipped.",
    other: "{n} embedded documents were skipped.",
  },
  "{n} attempts": { one: "{n} attempt", other: "{n} attempts" },
  "Retry {n} jobs?": { one: "Retry {n} job?", other: "Retry {n} jobs?" },
  "{n} jobs are queued again": { one: "{n} job is queued again", other: "{n} jobs are queued again" },
  "{n} documents": { one: "{n} document", other: "{n} documents" },
  "{n} documents are being indexed": { one: "{n} document is being indexed", other: "{n} documents are being indexed" },
  "{n} errors": { one: "{n} error", other: "{n} errors" },
  "{n} deletions on hold": { one: "{n} deletion on hold", other: "{n} deletions on hold" },
  "Currently {n} jobs per minute": { one: "Currently {n} job per minute", other: "Currently {n} jobs per minute" },
  "contains {documents} documents": { one: "contains {documents} document", other: "contains {documents} documents" },
  "was read: {characters} characters": {
    one: "was read: {characters} character",
    other: "was read: {characters} characters",
  },
  "was split into {chunks} chunks": { one: "was split into {chunks} chunk", other: "was split into {chunks} chunks" },
  "is searchable with {chunks} chunks": {
    one: "is searchable with {chunks} chunk",
    other: "is searchable with {chunks} chunks",
  },
  "{items} items were deleted": { one: "{items} item was deleted", other: "{items} items were deleted" },
  "was removed with {items} items": { one: "was removed with {items} item", other: "was removed with {items} items" },
  "{term} {count}× (in {chunks} chunks)": {
    one: "{term} {count}× (in {chunks} chunk)",
    other: "{term} {count}× (in {chunks} chunks)",
  },
  "{done} of {total} documents": { one: "{done} of {total} document", other: "{done} of {total} documents" },
  "has descriptions for {assets} images and tables": {
    one: "has a description for {assets} image or table",
    other: "has descriptions for {assets} images and tables",
  },
  redriven: "sent again",
  "It works: {n} results.": { one: "It works: {n} result.", other: "It works: {n} results." },
  "It works: the agent gets {n} tools.": {
    one: "It works: the agent gets {n} tool.",
    other: "It works: the agent gets {n} tools.",
  },
  "{n} other passages that the model read": {
    one: "{n} other passage that the model read",
    other: "{n} other passages that the model read",
  },
  "{n} passages that the model read": {
    one: "{n} passage that the model read",
    other: "{n} passages that the model read",
  },
  "{n} problems or more": { one: "{n} problem or more", other: "{n} problems or more" },
  "{n} problems": { one: "{n} problem", other: "{n} problems" },
  "{n} documents were added": { one: "{n} document was added", other: "{n} documents were added" },
  "{n} documents contain others": { one: "{n} document contains others", other: "{n} documents contain others" },
  "{n} documents were read": { one: "{n} document was read", other: "{n} documents were read" },
  "{n} documents were split into chunks": {
    one: "{n} document was split into chunks",
    other: "{n} documents were split into chunks",
  },
  "{n} documents are searchable": { one: "{n} document is searchable", other: "{n} documents are searchable" },
  "Images and tables of {n} documents were described": {
    one: "Images and tables of {n} document were described",
    other: "Images and tables of {n} documents were described",
  },
  "{n} documents were indexed": { one: "{n} document was indexed", other: "{n} documents were indexed" },
  "{n} items failed": { one: "{n} item failed", other: "{n} items failed" },
  "{n} deletions were requested": { one: "{n} deletion was requested", other: "{n} deletions were requested" },
  "{n} deletions were completed": { one: "{n} deletion was completed", other: "{n} deletions were completed" },
  "{n} items were changed: {what}": {
    one: "{n} item was changed: {what}",
    other: "{n} items were changed: {what}",
  },
  "{n} items were moved from {from} to {to}": {
    one: "{n} item was moved from {from} to {to}",
    other: "{n} items were moved from {from} to {to}",
  },
  "{n} changes of items": { one: "{n} change of items", other: "{n} changes of items" },
  "{n} reindexes were requested": { one: "{n} reindex was requested", other: "{n} reindexes were requested" },
  "{n} items are being reindexed": { one: "{n} item is being reindexed", other: "{n} items are being reindexed" },
};
