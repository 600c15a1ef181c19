// @ts-check
/**
 * Files on their way to the server: dropped or chosen, whole folders too, a few requests at a time, with how many bytes
 * have left. A request that fails is told with its files, and can be sent again; the others go on.
 */

import { api, upload } from "../../api.js";
import { putBase } from "../../bases.js";
import { effect, html, signal } from "../../core.js";
import { bytes, t } from "../../i18n.js";
import { button, iconButton } from "../../parts/button.js";
import { icon } from "../../parts/icon.js";
import { bar } from "../../parts/status.js";
import { toast } from "../../parts/toast.js";

/** @typedef {{file: File, folder: string}} Found */
/** @typedef {{files: File[], folder: string, size: number}} Load */
/** @typedef {{base: string, files: number, size: number, sent: number, done: number, failed: {name: string, why: string}[], again: Load[]}} Trip */

const MOST_FILES = 250; // of one request; the server takes 1,000
const MOST_BYTES = 64e6;
const AT_ONCE = 2;

/** Files that have not arrived yet. */
export const pending = signal(0);
const trip = signal(/** @type {Trip | null} */ (null));
/** @type {AbortController | null} */ let stop = null;

/** @param {Found[]} found @returns {Load[]} */
function loads(found) {
  /** @type {Map<string, Load>} */ const open = new Map();
  /** @type {Load[]} */ const all = [];
  for (const { file, folder } of found) {
    let load = open.get(folder);
    if (!load || load.files.length >= MOST_FILES || load.size + file.size > MOST_BYTES) {
      load = { files: [], folder, size: 0 };
      open.set(folder, load);
      all.push(load);
    }
    load.files.push(file);
    load.size += file.size;
  }
  return all;
}

/** @param {string} base @param {Found[]} found @param {import("../../tree/model.js").Tree} tree */
export async function sendFiles(base, found, tree) {
  if (!found.length) return;
  await sendLoads(base, loads(found), tree);
}

/** @param {string} base @param {Load[]} queue @param {import("../../tree/model.js").Tree} tree */
async function sendLoads(base, queue, tree) {
  const files = queue.reduce((n, load) => n + load.files.length, 0);
  const size = queue.reduce((n, load) => n + load.size, 0);
  stop = new AbortController();
  trip.value = { base, files, size, sent: 0, done: 0, failed: [], again: [] };
  pending.value += files;
  /** @type {Map<Load, number>} */ const left = new Map();
  const change = (/** @type {Partial<Trip>} */ what) => {
    const now = trip.peek();
    if (now) trip.value = { ...now, sent: [...left.values()].reduce((a, b) => a + b, 0), ...what };
  };
  const waiting = [...queue];
  const one = async () => {
    for (let load = waiting.shift(); load; load = waiting.shift()) await send(base, load, tree, left, change);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  const end = trip.peek();
  if (end && !end.failed.length) {
    trip.value = null;
    toast(t("Added {n} files", { n: end.done }));
  }
}

/**
 * @param {string} base @param {Load} load @param {import("../../tree/model.js").Tree} tree
 * @param {Map<Load, number>} left @param {(what: Partial<Trip>) => void} change
 */
async function send(base, load, tree, left, change) {
  const form = new FormData();
  for (const file of load.files) form.append("files", file, file.name);
  if (load.folder) form.append("metadata", JSON.stringify({ folder: load.folder }));
  const now = () => /** @type {Trip} */ (trip.peek());
  try {
    const answer = await upload(
      `/knowledge-bases/${base}/files`,
      form,
      (sent, all) => {
        left.set(load, (load.size * sent) / (all || 1));
        change({});
      },
      stop?.signal,
    );
    left.set(load, load.size);
    const failed = answer.failed.map((/** @type {any} */ one) => ({ name: one.path, why: one.error.message }));
    change({ done: now().done + answer.created.length, failed: [...now().failed, ...failed] });
    for (const branch of tree.apply(answer.created)) tree.renew(branch);
    putBase(await api.get(`/knowledge-bases/${base}`)); // before they no longer count as on their way
  } catch (error) {
    const aborted = error instanceof DOMException;
    const why = aborted ? t("stopped") : /** @type {Error} */ (error).message;
    change({ failed: [...now().failed, { name: t("{n} files", { n: load.files.length }), why }], again: [...now().again, load] });
  } finally {
    pending.value -= load.files.length;
  }
}

/** @param {string} base @param {import("../../tree/model.js").Tree} tree The panel that tells how far the files are. */
export function uploads(base, tree) {
  return html`<div class="uploads">${() => {
    const now = trip.value;
    if (!now || now.base !== base) return null;
    const over = now.done + now.again.reduce((n, load) => n + load.files.length, 0) + now.failed.length - now.again.length >= now.files;
    return html`<div class="upload"><div class="upload-head">${icon("upload")}<b>${over ? t("{n} files added", { n: now.done }) : t("Sending {n} files", { n: now.files })}</b><span class="dim small-text">${bytes(now.sent)} / ${bytes(now.size)}</span>${
      over
        ? iconButton(t("Close"), "close", () => {
            trip.value = null;
          })
        : iconButton(t("Stop"), "close", () => stop?.abort())
    }</div>${bar(() => (now.size ? (100 * now.sent) / now.size : 100))}
      ${now.failed.length ? html`<ul class="reasons">${now.failed.slice(0, 5).map((one) => html`<li><b class="cut">${one.name}</b><span class="bad">${one.why}</span></li>`)}</ul>` : null}
      ${over && now.again.length ? button(t("Send again"), () => sendLoads(base, now.again, tree), { small: true, icon: "retry" }) : null}</div>`;
  }}</div>`;
}

// ── dropping ────────────────────────────────────────────────────────────────────────────────────────────────

/** @param {FileSystemEntry} entry @param {string} folder @returns {Promise<Found[]>} */
async function walk(entry, folder) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => /** @type {FileSystemFileEntry} */ (entry).file(resolve, reject));
    return [{ file, folder }];
  }
  const inside = folder ? `${folder}/${entry.name}` : entry.name;
  const reader = /** @type {FileSystemDirectoryEntry} */ (entry).createReader();
  /** @type {Found[]} */ const found = [];
  for (;;) {
    // the browser hands out a folder in portions, an empty one last
    const portion = /** @type {FileSystemEntry[]} */ (await new Promise((resolve, reject) => reader.readEntries(resolve, reject)));
    if (!portion.length) return found;
    for (const one of portion) if (!one.name.startsWith(".")) found.push(...(await walk(one, inside)));
  }
}

/** @param {DataTransfer} data @returns {Promise<Found[]>} */
async function dropped(data) {
  // entries have to be taken before anything is awaited: the browser empties the list then
  const entries = [...data.items].flatMap((item) => (item.kind === "file" ? (item.webkitGetAsEntry() ?? []) : []));
  if (!entries.length) return [...data.files].map((file) => ({ file, folder: "" }));
  return (await Promise.all(entries.map((entry) => walk(entry, "")))).flat();
}

/** @param {string} base @param {() => string} name @param {import("../../tree/model.js").Tree} tree */
export function dropZone(base, name, tree) {
  const over = signal(false);
  let depth = 0;
  const hasFiles = (/** @type {DragEvent} */ event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  effect(() => {
    const stop = new AbortController();
    const on = (/** @type {string} */ kind, /** @type {(event: DragEvent) => void} */ act) =>
      addEventListener(kind, (event) => hasFiles(/** @type {DragEvent} */ (event)) && act(/** @type {DragEvent} */ (event)), { signal: stop.signal });
    on("dragenter", () => {
      depth++;
      over.value = true;
    });
    on("dragleave", () => {
      depth--;
      if (depth <= 0) over.value = false;
    });
    on("dragover", (event) => event.preventDefault());
    on("drop", async (event) => {
      event.preventDefault();
      depth = 0;
      over.value = false;
      if (event.dataTransfer) await sendFiles(base, await dropped(event.dataTransfer), tree);
    });
    return () => stop.abort();
  });
  return html`<div>${() =>
    over.value
      ? html`<div class="drop">${icon("upload")}<b>${t("Drop files or folders")}</b><span>${t("They are added to {name} and indexed at once", { name: name() })}</span></div>`
      : null}</div>`;
}
