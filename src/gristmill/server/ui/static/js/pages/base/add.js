// @ts-check
/** The dialog that adds files, web pages, a note, a server folder, a sitemap or a web site. `?add=` names its tab. */

import { api } from "../../api.js";
import { refreshBases } from "../../bases.js";
import { html, signal } from "../../core.js";
import { problemMessage, t } from "../../i18n.js";
import { button } from "../../components/button.js";
import { dialog } from "../../components/dialog.js";
import { describeEstimate } from "../../components/estimate.js";
import { icon } from "../../components/icon.js";
import { tabs } from "../../components/tabs.js";
import { toast } from "../../components/toast.js";
import { query, setQuery } from "../../router.js";
import { session } from "../../session.js";
import { estimateFiles, sendFiles } from "./upload.js";

/** @import { ApiError } from "../../api.js" */
/** @import { PickedFile } from "./upload.js" */
/** @import { Tree } from "../../tree/model.js" */

let isOpen = false;

/** Some entries were refused; the others are added. */
class PartlyAdded extends Error {
  /** @param {string} message @param {string[]} refused */
  constructor(message, refused) {
    super(message);
    this.refused = refused;
  }
}

/** @param {string} base @param {string} kind @param {Tree} tree */
export function openAdd(base, kind, tree) {
  if (isOpen) return;
  isOpen = true;
  const onclose = () => {
    isOpen = false;
    if (query.peek().get("add")) setQuery({ add: null });
  };
  dialog(t("Add content"), (close) => addForm(base, kind, tree, close), { wide: true, onclose });
}

/** @param {string} base @param {string} kind @param {Tree} tree @param {() => void} close */
function addForm(base, kind, tree, close) {
  const errorText = signal("");
  const estimateText = signal("");
  const labels = {
    file: t("Files"),
    url: t("Web pages"),
    note: t("Note"),
    dir: t("Folder"),
    sitemap: t("Sitemap"),
    site: t("Web site"),
  };
  const choices = Object.entries(labels)
    .filter(([id]) => id !== "dir" || session.peek()?.serverPaths)
    .map(([id, label]) => ({ id, label }));
  const chosen = signal(choices.some(({ id }) => id === kind) ? kind : "file");
  const choose = (/** @type {string} */ id) => {
    chosen.value = id;
    [errorText.value, estimateText.value] = ["", ""];
    setQuery({ add: id });
  };
  let isSending = false;
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (isSending) return; // a second click, or Enter
    isSending = true;
    errorText.value = "";
    const form = /** @type {HTMLFormElement} */ (event.target);
    try {
      await addItems(base, chosen.peek(), new FormData(form), tree);
      close();
    } catch (error) {
      errorText.value = /** @type {Error} */ (error).message;
      const urls = form.elements.namedItem("urls");
      // Only these are sent again, or the others would be added twice.
      if (error instanceof PartlyAdded && urls instanceof HTMLTextAreaElement) urls.value = error.refused.join("\n");
    }
    isSending = false;
  };
  const estimate = async (/** @type {Event} */ event) => {
    const form = /** @type {HTMLFormElement} */ (/** @type {HTMLButtonElement} */ (event.currentTarget).form);
    if (!form.reportValidity()) return;
    [errorText.value, estimateText.value] = ["", t("Estimating …")];
    try {
      const items = itemsFrom(chosen.peek(), new FormData(form));
      estimateText.value = describeEstimate(await api.post(`/knowledge-bases/${base}/items`, { items, dryRun: true }));
    } catch (error) {
      [errorText.value, estimateText.value] = [/** @type {ApiError} */ (error).message, ""];
    }
  };
  const estimateButton = () => button(t("What would it cost?"), estimate);
  const submitButton = () => html`<button class="button primary">${t("Add")}</button>`;
  return html`
    <form @submit=${submit}>
      <div class="dialog-body">
        ${tabs(t("Content type"), choices, () => chosen.value, choose)}
        ${() => kindFields(chosen.value, base, tree, close)}
        <p class="small-text" role="status">${() => estimateText.value}</p>
        <p class="error bad small-text" role="alert">${() => errorText.value}</p>
      </div>
      <footer>
        ${button(t("Cancel"), close, { kind: "quiet" })}
        ${() => (chosen.value === "file" ? null : [estimateButton(), submitButton()])}
      </footer>
    </form>
  `;
}

/** @param {string} kind @param {string} base @param {Tree} tree @param {() => void} close */
function kindFields(kind, base, tree, close) {
  if (kind === "url") return urlFields();
  if (kind === "note") return noteFields();
  if (kind === "dir") return folderFields();
  if (kind === "sitemap") return sitemapFields();
  if (kind === "site") return siteFields();
  return fileChooser(base, tree, close);
}

const urlFields = () =>
  html`
    <div class="fields">
      <label class="field">
        <span>${t("URLs, one per line")}</span>
        <textarea name="urls" rows="5" required autofocus placeholder="https://"></textarea>
        <span class="hint">${t("Each page is fetched now, and again whenever it is reindexed.")}</span>
      </label>
      ${renderField()}
    </div>
  `;

const renderField = () =>
  html`
    <label class="field">
      <span>${t("Pages made by scripts")}</span>
      <select name="render">
        <option value="">${t("As the base's settings say")}</option>
        <option value="never">${t("Don't render them")}</option>
        <option value="auto">${t("Render those with hardly any text")}</option>
        <option value="always">${t("Render all pages")}</option>
      </select>
      <span class="hint">${t("Needs Chromium where the worker runs.")}</span>
    </label>
  `;

function noteFields() {
  const placeholder = t("Leave empty to use the first line");
  return html`
    <div class="fields">
      <label class="field">
        <span>${t("Title")}</span>
        <input name="title" maxlength="500" autocomplete="off" placeholder="${placeholder}">
      </label>
      <label class="field">
        <span>${t("Text")}</span>
        <textarea name="content" rows="9" required autofocus></textarea>
      </label>
    </div>
  `;
}

const folderFields = () =>
  html`
    <div class="fields">
      <label class="field">
        <span>${t("Path on the server")}</span>
        <input name="path" required autocomplete="off" autofocus placeholder="/srv/handbook">
      </label>
      <label class="field">
        <span>${t("Exclude (.gitignore patterns, one per line)")}</span>
        <textarea name="ignore" rows="3"></textarea>
      </label>
    </div>
  `;

const sitemapFields = () =>
  html`
    <div class="fields">
      <label class="field">
        <span>${t("URL of a sitemap, or of a site that declares one")}</span>
        <input
          name="url"
          type="url"
          required
          autocomplete="off"
          autofocus
          placeholder="https://example.org/sitemap.xml"
        >
      </label>
      ${renderField()}
    </div>
  `;

const siteFields = () =>
  html`
    <div class="fields">
      <label class="field">
        <span>${t("Start page")}</span>
        <input name="url" type="url" required autocomplete="off" autofocus placeholder="https://example.org/docs/">
        <span class="hint">${t("Its links and the site's sitemaps are followed, within the same site.")}</span>
      </label>
      <label class="field">
        <span>${t("At most this many pages")}</span>
        <input name="maxPages" type="number" min="1" max="50000" value="1000" required>
      </label>
      <label class="field">
        <span>${t("At most this many links from the start page")}</span>
        <input name="maxDepth" type="number" min="0" max="50" value="5" required>
      </label>
      <label class="field">
        <span>${t("Only addresses like these (one per line)")}</span>
        <textarea name="include" rows="2" placeholder="/docs/*"></textarea>
      </label>
      <label class="field">
        <span>${t("Not addresses like these (one per line)")}</span>
        <textarea name="exclude" rows="2" placeholder="*?print=*"></textarea>
      </label>
      ${renderField()}
    </div>
  `;

/** @param {File} file Whether no part of its path in the chosen folder is hidden; the same as with dropped folders. */
const isVisible = (file) => !file.webkitRelativePath.split("/").slice(1).some((part) => part.startsWith("."));

/** @param {string} base @param {Tree} tree @param {() => void} close */
function fileChooser(base, tree, close) {
  const mustEstimate = signal(false);
  const picked = signal(/** @type {PickedFile[]} */ ([]));
  const estimateText = signal("");
  const send = () => {
    close();
    sendFiles(base, picked.peek(), tree);
  };
  const onchange = (/** @type {Event} */ event) => {
    const { files } = /** @type {HTMLInputElement} */ (event.target);
    const selected = [...(files ?? [])].filter(isVisible).map((file) => ({
      file,
      folder: file.webkitRelativePath.split("/").slice(0, -1).join("/"),
    }));
    if (!selected.length) return toast(t("There are no files to add."));
    picked.value = selected;
    if (!mustEstimate.peek()) return send();
    estimateText.value = t("Estimating …");
    estimateFiles(base, selected).then(
      (estimate) => estimateText.value = describeEstimate(estimate),
      (error) => estimateText.value = /** @type {ApiError} */ (error).message,
    );
  };
  const addChosen = () => button(t("Add {n} files", { n: picked.value.length }), send, { kind: "primary" });
  return html`
    <div class="choose">
      ${icon("upload")}
      <p>${t("Drop files or folders anywhere on this page, or choose them.")}</p>
      <div>
        <label class="button primary">
          ${t("Choose files")}<input class="sr" type="file" multiple name="files" @change=${onchange}>
        </label>
        <label class="button line">
          ${t("Choose a folder")}<input class="sr" type="file" multiple webkitdirectory @change=${onchange}>
        </label>
      </div>
      <label class="check">
        <input type="checkbox" @change=${(/** @type {Event} */ event) => {
          mustEstimate.value = /** @type {HTMLInputElement} */ (event.target).checked;
        }}>
        ${t("Show what they would cost first")}
      </label>
      <p class="small-text" role="status">${() => estimateText.value}</p>
      ${() => (mustEstimate.value && picked.value.length ? addChosen() : null)}
    </div>
  `;
}

/** @param {string} kind @param {FormData} form @returns {any[]} */
function itemsFrom(kind, form) {
  const text = (/** @type {string} */ name) => String(form.get(name) ?? "").trim();
  const lines = (/** @type {string} */ name) => text(name).split(/\s*\n\s*/).filter(Boolean);
  const render = text("render") ? { render: text("render") } : {};
  if (kind === "url") return lines("urls").map((url) => ({ type: "url", url, ...render }));
  if (kind === "note") {
    return [{ type: "note", content: String(form.get("content")), ...(text("title") ? { title: text("title") } : {}) }];
  }
  if (kind === "dir") {
    return [{ type: "directory", path: text("path"), ...(lines("ignore").length ? { ignore: lines("ignore") } : {}) }];
  }
  if (kind === "site") {
    const bounds = { maxPages: Number(text("maxPages")), maxDepth: Number(text("maxDepth")) };
    const patterns = { include: lines("include"), exclude: lines("exclude") };
    return [{ type: "site", url: text("url"), ...bounds, ...patterns, ...render }];
  }
  return [{ type: "sitemap", url: text("url"), ...render }];
}

/** @param {string} base @param {string} kind @param {FormData} form @param {Tree} tree */
async function addItems(base, kind, form, tree) {
  const { created, failed } = await api.post(`/knowledge-bases/${base}/items`, { items: itemsFrom(kind, form) });
  for (const branch of tree.apply(created)) tree.refresh(branch);
  refreshBases(base);
  if (failed.length) {
    const messages = failed.map((/** @type {any} */ { path, error }) => `${path}: ${problemMessage(error)}`);
    throw new PartlyAdded(messages.join(" "), failed.map((/** @type {any} */ { path }) => path));
  }
  toast(t("Added {n} items", { n: created.length }));
}
