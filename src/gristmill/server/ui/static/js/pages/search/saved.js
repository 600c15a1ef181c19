// @ts-check
/** The saved searches of the caller: links, replacing and deleting one. `save-dialog.js` asks for their names. */

import { api, fetchAll } from "../../api.js";
import { icon } from "../../components/icon.js";
import { kebab } from "../../components/menu.js";
import { showError, toast } from "../../components/toast.js";
import { each, html } from "../../core.js";
import { t } from "../../i18n.js";
import { resource } from "../../resource.js";
import { fromRequest, toRequest, toUrl } from "../../search/criteria.js";

/** @import { Computed, Signal } from "../../core.js" */
/** @import { Resource } from "../../resource.js" */
/** @import { Criteria } from "../../search/criteria.js" */
/** @typedef {{id: string, name: string, search: Record<string, any>}} SavedSearch */
/** @typedef {Resource<SavedSearch[]>} SavedSearches */

/** @returns {SavedSearches} */
export const watchSaved = () => resource(() => fetchAll("/saved-searches"));

/** @param {SavedSearches} saved @param {Computed<Criteria>} criteria */
export function savedSearches(saved, criteria) {
  const current = () => toUrl(criteria.value);
  const row = (/** @type {Signal<SavedSearch>} */ search) => {
    const url = () => toUrl(fromRequest(search.value.search));
    const menu = () => [
      {
        label: t("Replace with this search"),
        icon: "bookmark",
        onselect: () => replace(search.peek(), criteria, saved),
      },
      {
        label: t("Rename"),
        icon: "note",
        onselect: async () => (await import("./save-dialog.js")).openRenameDialog(search.peek(), saved),
      },
      { label: t("Delete"), icon: "trash", danger: true, onselect: () => remove(search.peek(), saved) },
    ];
    return html`
      <li>
        <a href="${url}" aria-current=${() => (url() === current() ? "true" : null)}>
          ${icon("bookmark")}<span class="cut">${() => search.value.name}</span>
        </a>
        ${kebab(t("Actions for {name}", { name: search.peek().name }), menu)}
      </li>
    `;
  };
  const list = () =>
    html`
      <h2 id="saved-title">${t("Saved searches")}</h2>
      <ul class="saved" aria-labelledby="saved-title">${each(() => saved.value.value ?? [], (one) => one.id, row)}</ul>
    `;
  return html`<div class="lazy">${() => (saved.value.value?.length ? list() : null)}</div>`;
}

/** @param {SavedSearch} search @param {Computed<Criteria>} criteria @param {SavedSearches} saved */
async function replace(search, criteria, saved) {
  const request = toRequest(criteria.peek());
  const list = (saved.value.peek() ?? []).map((other) =>
    other.id === search.id ? { ...other, search: request } : other
  );
  const isDone = await saved.update(list, () => api.patch(`/saved-searches/${search.id}`, { search: request }));
  if (isDone) toast(t("Saved"));
}

/** @param {SavedSearch} search @param {SavedSearches} saved Deletes it at once; it can be brought back. */
async function remove(search, saved) {
  const list = (saved.value.peek() ?? []).filter((other) => other.id !== search.id);
  const isDone = await saved.update(list, () => api.delete(`/saved-searches/${search.id}`));
  if (!isDone) return;
  const restore = () =>
    api.post("/saved-searches", { name: search.name, search: search.search }).then(() => saved.refresh(), showError);
  toast(t("Deleted {name}", { name: search.name }), { action: { label: t("Undo"), onclick: restore } });
}
