// @ts-check
/**
 * Uploads of dropped or chosen files and folders: a few requests at a time, with progress in bytes. A request that
 * fails is listed with its files and can be retried; the others go on. An upload that is begun during another one has
 * progress and failures of its own.
 */

import { api, upload } from "../../api.js";
import { putBase } from "../../bases.js";
import { effect, html, signal } from "../../core.js";
import { formatBytes, problemMessage, t } from "../../i18n.js";
import { button, iconButton } from "../../components/button.js";
import { icon } from "../../components/icon.js";
import { bar } from "../../components/status.js";
import { toast } from "../../components/toast.js";

/** @import { Estimate } from "../../components/estimate.js" */
/** @import { Tree } from "../../tree/model.js" */

/** @typedef {{file: File, folder: string}} PickedFile */
/** @typedef {{files: File[], folder: string, size: number}} UploadBatch */
/**
 * @typedef {{id: number, base: string, files: number, size: number, sent: number, done: number, failed: {name: string,
 *   reason: string}[], retryable: UploadBatch[], abort: AbortController}} UploadState
 */

const MAX_BATCH_FILES = 250; // per request; the server accepts 1,000
const MAX_BATCH_BYTES = 64e6;
const CONCURRENCY = 2;

/** How many files have not arrived yet, by base. */
const pending = signal(/** @type {Record<string, number>} */ ({}));

/** @param {string} base How many files have not arrived in it yet. */
export const pendingIn = (base) => pending.value[base] ?? 0;

/** @param {string} base @param {number} n */
function addPending(base, n) {
  pending.value = { ...pending.peek(), [base]: (pending.peek()[base] ?? 0) + n };
}

const uploads = signal(/** @type {UploadState[]} */ ([]));
let nextId = 1;

addEventListener("beforeunload", (event) => {
  if (Object.values(pending.peek()).some(Boolean)) event.preventDefault(); // they would be lost
});

/** @param {number} id */
const closeUpload = (id) => {
  uploads.value = uploads.peek().filter((other) => other.id !== id);
};

/** @param {PickedFile[]} picked @returns {UploadBatch[]} */
function toBatches(picked) {
  /** @type {Map<string, UploadBatch>} */ const openBatches = new Map();
  /** @type {UploadBatch[]} */ const batches = [];
  for (const { file, folder } of picked) {
    let batch = openBatches.get(folder);
    if (!batch || batch.files.length >= MAX_BATCH_FILES || batch.size + file.size > MAX_BATCH_BYTES) {
      batch = { files: [], folder, size: 0 };
      openBatches.set(folder, batch);
      batches.push(batch);
    }
    batch.files.push(file);
    batch.size += file.size;
  }
  return batches;
}

/** @param {string} base @param {PickedFile[]} picked @param {Tree} tree */
export async function sendFiles(base, picked, tree) {
  if (!picked.length) return;
  await sendBatches(base, toBatches(picked), tree);
}

/**
 * What uploading these files would embed and cost. They are sent for it, and not stored.
 * @param {string} base @param {PickedFile[]} picked @returns {Promise<Estimate>}
 */
export async function estimateFiles(base, picked) {
  /** @type {Estimate} */
  const sum = { documents: 0, texts: 0, tokens: 0, cost: null, exact: true, uncertainty: 0, notes: [] };
  let doubt = 0;
  for (const batch of toBatches(picked)) {
    const form = new FormData();
    for (const file of batch.files) form.append("files", file, file.name);
    form.append("dryRun", "true");
    const part = /** @type {Estimate} */ (await upload(`/knowledge-bases/${base}/files`, form, () => {}));
    sum.documents += part.documents;
    sum.texts += part.texts;
    sum.tokens += part.tokens;
    if (part.cost !== null) sum.cost = (sum.cost ?? 0) + part.cost;
    sum.exact &&= part.exact;
    doubt += part.uncertainty * part.tokens;
  }
  return { ...sum, uncertainty: sum.tokens ? doubt / sum.tokens : 0 };
}

/** @param {string} base @param {UploadBatch[]} queue @param {Tree} tree */
async function sendBatches(base, queue, tree) {
  const files = queue.reduce((n, batch) => n + batch.files.length, 0);
  const size = queue.reduce((n, batch) => n + batch.size, 0);
  const counts = { files, size, sent: 0, done: 0 };
  /** @type {UploadState} */
  let state = { id: nextId++, base, ...counts, failed: [], retryable: [], abort: new AbortController() };
  uploads.value = [...uploads.peek(), state];
  addPending(base, files);
  /** @type {Map<UploadBatch, number>} */ const sentBytes = new Map();
  const update = (/** @type {Partial<UploadState>} */ changes) => {
    state = { ...state, sent: [...sentBytes.values()].reduce((a, b) => a + b, 0), ...changes };
    uploads.value = uploads.peek().map((other) => (other.id === state.id ? state : other));
  };
  const waiting = [...queue];
  const sendNext = async () => {
    for (let batch = waiting.shift(); batch; batch = waiting.shift()) {
      await sendBatch(base, batch, tree, sentBytes, () => state, update);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, sendNext));
  if (!state.failed.length) {
    closeUpload(state.id);
    toast(t("Added {n} files", { n: state.done }));
  }
}

/**
 * @param {string} base @param {UploadBatch} batch @param {Tree} tree @param {Map<UploadBatch, number>} sentBytes
 * @param {() => UploadState} state @param {(changes: Partial<UploadState>) => void} update
 */
async function sendBatch(base, batch, tree, sentBytes, state, update) {
  const form = new FormData();
  for (const file of batch.files) form.append("files", file, file.name);
  if (batch.folder) form.append("metadata", JSON.stringify({ folder: batch.folder }));
  try {
    const response = await upload(
      `/knowledge-bases/${base}/files`,
      form,
      (sent, total) => {
        sentBytes.set(batch, (batch.size * sent) / (total || 1));
        update({});
      },
      state().abort.signal,
    );
    sentBytes.set(batch, batch.size);
    const failed = response.failed.map((/** @type {any} */ failure) => ({
      name: failure.path,
      reason: problemMessage(failure.error),
    }));
    update({ done: state().done + response.created.length, failed: [...state().failed, ...failed] });
    for (const branch of tree.apply(response.created)) tree.refresh(branch);
  } catch (error) {
    const isAborted = error instanceof DOMException;
    const reason = isAborted ? t("stopped") : /** @type {Error} */ (error).message;
    update({
      failed: [...state().failed, { name: nameOf(batch), reason: reason }],
      retryable: [...state().retryable, batch],
    });
  }
  // Before they stop counting as pending. If it can't be fetched, the next change of the base brings it.
  await api.get(`/knowledge-bases/${base}`).then(putBase, () => {});
  addPending(base, -batch.files.length);
}

/** @param {UploadBatch} batch */
const nameOf = ({ files }) => files.length === 1 ? files[0].name : t("{n} files", { n: files.length });

/** @param {string} base @param {Tree} tree The panel that shows the progress of uploads. */
export function uploadPanel(base, tree) {
  const panels = () => uploads.value.filter((state) => state.base === base).map((state) => progressPanel(state, tree));
  return html`<div class="uploads">${panels}</div>`;
}

/** @param {UploadState} state @param {Tree} tree */
function progressPanel(state, tree) {
  const unsent = state.retryable.reduce((n, batch) => n + batch.files.length, 0);
  const isFinished = state.done + unsent + state.failed.length - state.retryable.length >= state.files;
  const title = isFinished ? t("{n} files added", { n: state.done }) : t("Uploading {n} files", { n: state.files });
  const close = () => closeUpload(state.id);
  const retry = () => {
    close();
    sendBatches(state.base, state.retryable, tree);
  };
  return html`
    <div class="upload">
      <div class="upload-head">
        ${icon("upload")}
        <b>${title}</b>
        <span class="dim small-text">${formatBytes(state.sent)} / ${formatBytes(state.size)}</span>
        ${isFinished
          ? iconButton(t("Close"), "close", close)
          : iconButton(t("Stop"), "close", () => state.abort.abort())}
      </div>
      ${bar(state.size ? (100 * state.sent) / state.size : 100)}
      ${state.failed.length ? failureList(state.failed) : null}
      ${isFinished && unsent ? button(t("Send again"), retry, { small: true, icon: "retry" }) : null}
    </div>
  `;
}

/** @param {{name: string, reason: string}[]} failures None of these files is in the base: nothing else names them. */
const failureList = (failures) =>
  html`<ul class="reasons" tabindex="0" aria-label="${t("Failed")}">${failures.map(failureRow)}</ul>`;

/** @param {{name: string, reason: string}} failure */
const failureRow = (failure) =>
  html`
    <li>
      <b class="cut">${failure.name}</b>
      <span class="bad">${failure.reason}</span>
    </li>
  `;

// ── drag and drop ────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * @param {FileSystemEntry} entry @param {string} folder @param {string[]} unreadable gets the names of those that the
 *   browser can't read @returns {Promise<PickedFile[]>}
 */
async function filesBelow(entry, folder, unreadable) {
  try {
    return await readEntry(entry, folder, unreadable);
  } catch {
    unreadable.push(entry.name);
    return [];
  }
}

/**
 * @param {FileSystemEntry} entry @param {string} folder @param {string[]} unreadable @returns {Promise<PickedFile[]>}
 */
async function readEntry(entry, folder, unreadable) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) =>
      /** @type {FileSystemFileEntry} */ (entry).file(resolve, reject)
    );
    return [{ file, folder }];
  }
  const path = folder ? `${folder}/${entry.name}` : entry.name;
  const reader = /** @type {FileSystemDirectoryEntry} */ (entry).createReader();
  /** @type {PickedFile[]} */ const files = [];
  for (;;) {
    // the browser returns a folder in parts, and an empty part at the end
    const entries = /** @type {FileSystemEntry[]} */ (await new Promise((resolve, reject) =>
      reader.readEntries(resolve, reject)
    ));
    if (!entries.length) return files;
    for (const child of entries) {
      if (!child.name.startsWith(".")) files.push(...(await filesBelow(child, path, unreadable)));
    }
  }
}

/** @param {DataTransfer} data @param {string[]} unreadable @returns {Promise<PickedFile[]>} */
async function droppedFiles(data, unreadable) {
  // read the entries before the first await: the browser empties the list afterwards
  const entries = [...data.items].flatMap((item) => (item.kind === "file" ? (item.webkitGetAsEntry() ?? []) : []));
  if (!entries.length) return [...data.files].map((file) => ({ file, folder: "" }));
  return (await Promise.all(entries.map((entry) => filesBelow(entry, "", unreadable)))).flat();
}

/** @param {string} base @param {DataTransfer} data @param {Tree} tree Sends what can be read, and names the rest. */
async function sendDropped(base, data, tree) {
  /** @type {string[]} */ const unreadable = [];
  const files = await droppedFiles(data, unreadable);
  if (unreadable.length) toast(t("These can't be read: {names}", { names: unreadable.join(", ") }), { bad: true });
  else if (!files.length) toast(t("There are no files to add."));
  await sendFiles(base, files, tree);
}

/** @param {string} base @param {() => string} name @param {Tree} tree */
export function dropZone(base, name, tree) {
  const isDragging = signal(false);
  let depth = 0;
  const hasFiles = (/** @type {DragEvent} */ event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  effect(() => {
    const listeners = new AbortController();
    const listen = (/** @type {string} */ kind, /** @type {(event: DragEvent) => void} */ handler) =>
      addEventListener(
        kind,
        (event) => hasFiles(/** @type {DragEvent} */ (event)) && handler(/** @type {DragEvent} */ (event)),
        { signal: listeners.signal },
      );
    listen("dragenter", () => {
      depth++;
      isDragging.value = true;
    });
    listen("dragleave", () => {
      depth--;
      if (depth <= 0) isDragging.value = false;
    });
    listen("dragover", (event) => event.preventDefault());
    listen("drop", async (event) => {
      event.preventDefault();
      depth = 0;
      isDragging.value = false;
      if (event.dataTransfer) await sendDropped(base, event.dataTransfer, tree);
    });
    return () => listeners.abort();
  });
  const target = () =>
    html`
      <div class="drop">
        ${icon("upload")}
        <b>${t("Drop files or folders")}</b>
        <span>${t("They will be added to {name} and indexed right away", { name: name() })}</span>
      </div>
    `;
  return html`<div>${() => (isDragging.value ? target() : null)}</div>`;
}
