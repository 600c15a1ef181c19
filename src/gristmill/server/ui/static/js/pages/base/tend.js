// @ts-check
/** Dialogs that change items: rename, move, tag, edit a note, and a new folder. Loaded when one is first opened. */

import { api, fetchAll } from "../../api.js";
import { bases, refreshBases } from "../../bases.js";
import { html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { button } from "../../components/button.js";
import { dialog } from "../../components/dialog.js";
import { selectField, textField } from "../../components/form.js";
import { showError, toast } from "../../components/toast.js";
import { tagsOf } from "../../tree/row.js";

/** @import { ApiError } from "../../api.js" */
/** @import { DialogOptions } from "../../components/dialog.js" */
/** @import { Item, Tree } from "../../tree/model.js" */
/** @typedef {{itemIds: string[]} | {filter: Record<string, unknown>}} Chosen */

/**
 * A dialog with a form. An error of the server is shown in it, and what was typed stays.
 * @param {string} title @param {string} action @param {() => unknown} fields
 * @param {(form: FormData) => Promise<unknown>} save @param {DialogOptions} [options]
 */
function formDialog(title, action, fields, save, options = {}) {
  const errorText = signal("");
  const isSaving = signal(false);
  dialog(title, (close) => {
    const submit = async (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      if (isSaving.peek()) return;
      isSaving.value = true;
      errorText.value = "";
      try {
        await save(new FormData(/** @type {HTMLFormElement} */ (event.target)));
        close();
      } catch (error) {
        errorText.value = /** @type {Error} */ (error).message;
      }
      isSaving.value = false;
    };
    return html`
      <form @submit=${submit}>
        <div class="dialog-body">
          ${fields()}
          <p class="error bad small-text" role="alert">${() => errorText.value}</p>
        </div>
        <footer>
          ${button(t("Cancel"), close, { kind: "quiet" })}
          <button class="button primary" ?disabled=${() => isSaving.value}>${action}</button>
        </footer>
      </form>
    `;
  }, options);
}

/** @param {Item} item @param {Tree} [tree] */
export function openRename(item, tree) {
  const hint = t("Searches find it by its new title in a moment.");
  const fields = () => textField({ label: t("Title"), name: "title", value: item.title, required: true, hint });
  formDialog(t("Rename"), t("Rename"), fields, async (form) => {
    const title = String(form.get("title")).trim();
    const changed = await api.patch(`/knowledge-items/${item.id}`, { title });
    for (const branch of tree?.apply([changed]) ?? []) tree?.refresh(branch);
  }, { select: true });
}

/** @param {string} base @param {Tree} tree @param {string | null} [parentId] */
export function openNewFolder(base, tree, parentId = null) {
  const fields = () => textField({ label: t("Name"), name: "title", required: true });
  formDialog(t("New folder"), t("Create"), fields, async (form) => {
    const title = String(form.get("title")).trim();
    const response = await api.post(`/knowledge-bases/${base}/items`, { items: [{ type: "folder", title }], parentId });
    tree.apply(response.created);
    await tree.refresh(tree.root);
    refreshBases(base);
  });
}

/** @param {string} base @param {Chosen} chosen @param {number} n @param {Tree} tree @param {() => void} ondone */
export async function openMove(base, chosen, n, tree, ondone) {
  /** @type {any[]} */ let folders;
  try {
    folders = await foldersOf(base);
  } catch (error) {
    return showError(error);
  }
  const shown = signal(folders);
  const target = signal(base);
  const choose = async (/** @type {string} */ id) => {
    target.value = id;
    try {
      const loaded = await foldersOf(id);
      if (target.peek() === id) shown.value = loaded;
    } catch (error) {
      showError(error);
    }
  };
  /** @type {[string, string][]} */
  const names = (bases.peek() ?? []).map((each) => [each.id, each.name]);
  const hint = () => (target.value === base ? null : html`<p class="dim small-text">${otherBaseHint()}</p>`);
  const fields = () =>
    html`
      ${selectField({ label: t("Base"), name: "base", value: base, choices: names, onchange: choose })}
      ${() => folderField(shown.value)}${hint}
    `;
  formDialog(t("Move {n} items", { n }), t("Move"), fields, async (form) => {
    const parentId = String(form.get("folder") ?? "") || null;
    const toBaseId = String(form.get("base"));
    const moved = await api.post(`/knowledge-bases/${base}/items/move`, { ...chosen, toBaseId, parentId });
    ondone();
    toast(moved.jobId ? t("Moving {n} items to the other base", { n }) : t("Moved {n} items", { n }));
    await Promise.all(tree.branches().map((branch) => tree.refresh(branch)));
    refreshBases(base);
  });
}

const otherBaseHint = () =>
  t("They stay here until the other base has them. With the same embedder nothing is embedded again.");

/** @param {{id: string, label: string}[]} folders */
function folderField(folders) {
  /** @type {[string, string][]} */
  const choices = [
    ["", t("Top of the base")],
    ...folders.map(({ id, label }) => /** @type {[string, string]} */ ([id, label])),
  ];
  return selectField({ label: t("Folder"), name: "folder", value: "", choices });
}

const MAX_FOLDERS = 500;

/** @param {string} base @returns {Promise<{id: string, label: string}[]>} the folders of a base, by their paths */
async function foldersOf(base) {
  const items = await fetchAll(`/knowledge-bases/${base}/items`, { parentId: "*", type: "directory" }, MAX_FOLDERS);
  const byId = new Map(items.map((item) => [item.id, item]));
  /** @param {any} item @returns {string} */
  const path = (item) => (byId.has(item.parentId) ? `${path(byId.get(item.parentId))} / ${item.title}` : item.title);
  return items.map((item) => ({ id: item.id, label: path(item) })).sort((a, b) => a.label.localeCompare(b.label));
}

/**
 * @param {string} base @param {Chosen} chosen @param {number} n @param {Item[]} items those of them that are loaded
 * @param {Tree} tree
 */
export async function openTags(base, chosen, n, items, tree) {
  /** @type {{tag: string, items: number}[]} */ let known = [];
  try {
    known = (await api.get(`/knowledge-bases/${base}/tags`)).items;
  } catch {
    // tags can be typed without suggestions
  }
  const list = "known-tags";
  const removable = items.length < n ? known.map(({ tag }) => tag) : [...new Set(items.flatMap(tagsOf))];
  const fields = () => [
    textField({
      label: t("Add tags"),
      name: "add",
      list,
      hint: t("Separate several tags by commas. Searches can filter by them."),
    }),
    html`<datalist id="${list}">${known.map(({ tag }) => html`<option value="${tag}"></option>`)}</datalist>`,
    removable.length ? removeFields(removable) : null,
  ];
  formDialog(t("Tags"), t("Save"), fields, async (form) => {
    const add = String(form.get("add")).split(/[,，、]/).map((tag) => tag.trim()).filter(Boolean);
    const remove = form.getAll("remove").map(String);
    if (!add.length && !remove.length) return;
    const changed = await api.post(`/knowledge-bases/${base}/items/tag`, { ...chosen, add, remove });
    toast(t("Changed the tags of {n} items", { n: changed.itemIds.length }));
    const ids = changed.itemIds.slice(0, 100);
    if (!ids.length) return;
    const { items: shown } = await api.get(`/knowledge-bases/${base}/tree`, { ids });
    for (const branch of tree.apply(shown)) tree.refresh(branch);
  });
}

/** @param {string[]} tags */
function removeFields(tags) {
  const boxes = tags.map((tag) =>
    html`
      <label
        class="tag-choice"><input type="checkbox" name="remove" value="${tag}"><span class="tag">${tag}</span></label>
    `
  );
  return html`
    <fieldset class="field">
      <legend>${t("Remove tags")}</legend>
      <div class="tags">${boxes}</div>
    </fieldset>
  `;
}

/** @param {Item} item @param {Tree} [tree] */
export async function openNote(item, tree) {
  const url = `/knowledge-items/${item.id}`;
  /** @type {{data: any, etag: string | null}} */ let read;
  /** @type {string} */ let text;
  try {
    read = await api.getWithEtag(url);
    text = String(await api.get(`${url}/original`));
  } catch (error) {
    return showError(error);
  }
  const fields = () =>
    html`
      ${textField({ label: t("Title"), name: "title", value: read.data.title, required: true })}
      <label class="field">
        <span>${t("Text")}</span>
        <textarea name="content" rows="14" required autofocus .value=${text}></textarea>
      </label>
      <p class="dim small-text">${t("Search uses the old text until the new one is indexed.")}</p>
    `;
  const save = async (/** @type {FormData} */ form) => {
    const body = { title: String(form.get("title")).trim(), content: String(form.get("content")) };
    try {
      tree?.apply([await api.patch(url, body, { match: read.etag ?? undefined })]);
    } catch (error) {
      if (/** @type {ApiError} */ (error).status !== 412) throw error;
      throw new Error(t("Someone changed this note meanwhile. Copy your text, close this, and edit the new version."));
    }
  };
  formDialog(t("Edit note"), t("Save"), fields, save, { wide: true });
}
