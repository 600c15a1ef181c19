// @ts-check
/** Adding content: one dialog for files, web pages, a note, a folder of the server, and a sitemap. `?add=` names the tab. */

import { api } from "../../api.js";
import { renewBases } from "../../bases.js";
import { html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { button } from "../../parts/button.js";
import { dialog } from "../../parts/dialog.js";
import { icon } from "../../parts/icon.js";
import { tabs } from "../../parts/tabs.js";
import { toast } from "../../parts/toast.js";
import { query, setQuery } from "../../router.js";
import { sendFiles } from "./upload.js";

const KINDS = ["file", "url", "note", "dir", "sitemap"];
let open = false;

/** @param {string} base @param {string} kind @param {import("../../tree/model.js").Tree} tree */
export function openAdd(base, kind, tree) {
  if (open) return;
  open = true;
  const chosen = signal(KINDS.includes(kind) ? kind : "file");
  const told = signal("");
  dialog(
    t("Add content"),
    (close) => {
      const words = { file: t("Files"), url: t("Web pages"), note: t("Note"), dir: t("Folder"), sitemap: t("Sitemap") };
      const choices = Object.entries(words).map(([id, label]) => ({ id, label }));
      const form = /** @type {HTMLFormElement} */ (
        html`<form @submit=${async (/** @type {SubmitEvent} */ event) => {
          event.preventDefault();
          told.value = "";
          try {
            if (await add(base, chosen.peek(), new FormData(form), tree)) close();
          } catch (error) {
            told.value = sentence(/** @type {any} */ (error));
          }
        }}>
          <div class="dialog-body">${tabs(
            t("What to add"),
            choices,
            () => chosen.value,
            (id) => {
              chosen.value = id;
              told.value = "";
              setQuery({ add: id });
            },
          )}${() => fields(chosen.value, base, tree, close)}
          <p class="error bad small-text" role="alert">${() => told.value}</p></div>
          <footer>${button(t("Cancel"), close, { kind: "quiet" })}${() => (chosen.value === "file" ? null : html`<button class="button primary">${t("Add")}</button>`)}</footer>
        </form>`
      );
      return form;
    },
    {
      wide: true,
      onclose: () => {
        open = false;
        if (query.peek().get("add")) setQuery({ add: null });
      },
    },
  );
}

/** @param {import("../../api.js").Refused} error */
function sentence(error) {
  const fields = (error.errors ?? []).map((/** @type {any} */ one) => one.message ?? one.msg ?? "").filter(Boolean);
  return fields.length ? fields.join(" ") : error.message;
}

/** @param {string} kind @param {string} base @param {import("../../tree/model.js").Tree} tree @param {() => void} close */
function fields(kind, base, tree, close) {
  if (kind === "url")
    return html`<label class="field"><span>${t("Addresses, one a line")}</span><textarea name="urls" rows="5" required autofocus placeholder="https://"></textarea><span class="hint">${t("Each page is fetched, and again whenever it is re-indexed.")}</span></label>`;
  if (kind === "note")
    return html`<div class="fields"><label class="field"><span>${t("Title")}</span><input name="title" maxlength="500" autocomplete="off" placeholder="${t("The first line, if left empty")}"></label>
      <label class="field"><span>${t("Text")}</span><textarea name="content" rows="9" required autofocus></textarea></label></div>`;
  if (kind === "dir")
    return html`<div class="fields"><label class="field"><span>${t("Path on the server")}</span><input name="path" required autocomplete="off" autofocus placeholder="/srv/handbook"></label>
      <label class="field"><span>${t("Leave out (patterns as in .gitignore, one a line)")}</span><textarea name="ignore" rows="3"></textarea></label></div>`;
  if (kind === "sitemap")
    return html`<label class="field"><span>${t("Address of a sitemap, or of a site that names one")}</span><input name="url" type="url" required autocomplete="off" autofocus placeholder="https://example.org/sitemap.xml"></label>`;
  return chooser(base, tree, close);
}

/** @param {string} base @param {import("../../tree/model.js").Tree} tree @param {() => void} close */
function chooser(base, tree, close) {
  const take = (/** @type {Event} */ event) => {
    const { files } = /** @type {HTMLInputElement} */ (event.target);
    const found = [...(files ?? [])].map((file) => ({ file, folder: file.webkitRelativePath.split("/").slice(0, -1).join("/") }));
    if (!found.length) return;
    close();
    sendFiles(base, found, tree);
  };
  return html`<div class="choose">${icon("upload")}<p>${t("Drop files or folders anywhere on the page, or choose them.")}</p>
    <div><label class="button primary">${t("Choose files")}<input class="sr" type="file" multiple name="files" @change=${take}></label>
    <label class="button line">${t("Choose a folder")}<input class="sr" type="file" multiple webkitdirectory @change=${take}></label></div></div>`;
}

/** @param {string} kind @param {FormData} form @returns {any[]} */
function entries(kind, form) {
  const text = (/** @type {string} */ name) => String(form.get(name) ?? "").trim();
  const lines = (/** @type {string} */ name) => text(name).split(/\s*\n\s*/).filter(Boolean);
  if (kind === "url") return lines("urls").map((url) => ({ type: "url", url }));
  if (kind === "note") return [{ type: "note", content: String(form.get("content")), ...(text("title") ? { title: text("title") } : {}) }];
  if (kind === "dir") return [{ type: "directory", path: text("path"), ...(lines("ignore").length ? { ignore: lines("ignore") } : {}) }];
  return [{ type: "sitemap", url: text("url") }];
}

/** @param {string} base @param {string} kind @param {FormData} form @param {import("../../tree/model.js").Tree} tree @returns {Promise<boolean>} */
async function add(base, kind, form, tree) {
  const answer = await api.post(`/knowledge-bases/${base}/items`, { items: entries(kind, form) });
  for (const branch of tree.apply(answer.created)) tree.renew(branch);
  renewBases(base);
  if (answer.failed.length) throw new Error(answer.failed.map((/** @type {any} */ one) => `${one.path}: ${one.error.message}`).join(" "));
  toast(t("Added {n} items", { n: answer.created.length }));
  return true;
}
