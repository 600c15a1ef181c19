// @ts-check
/** The dialogs that name a saved search. They are loaded when they are opened. */

import { api } from "../../api.js";
import { button } from "../../components/button.js";
import { dialog } from "../../components/dialog.js";
import { textField } from "../../components/form.js";
import { toast } from "../../components/toast.js";
import { html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { toRequest } from "../../search/criteria.js";

/** @import { Criteria } from "../../search/criteria.js" */
/** @import { SavedSearch, SavedSearches } from "./saved.js" */

/** @param {Criteria} criteria @param {SavedSearches} saved */
export function openSaveDialog(criteria, saved) {
  const body = (/** @type {string} */ name) => ({ name, search: toRequest(criteria) });
  openNameDialog(
    t("Save search"),
    criteria.text.slice(0, 80),
    saved,
    (name) => api.post("/saved-searches", body(name)),
  );
}

/** @param {SavedSearch} search @param {SavedSearches} saved */
export function openRenameDialog(search, saved) {
  const rename = (/** @type {string} */ name) => api.patch(`/saved-searches/${search.id}`, { name });
  openNameDialog(t("Rename"), search.name, saved, rename);
}

/**
 * @param {string} title @param {string} name @param {SavedSearches} saved
 * @param {(name: string) => Promise<unknown>} store
 */
function openNameDialog(title, name, saved, store) {
  const errorText = signal("");
  dialog(title, (close) => {
    const submit = async (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      const form = /** @type {HTMLFormElement} */ (event.target);
      try {
        await store(String(new FormData(form).get("name")));
        await saved.refresh();
        close();
        toast(t("Saved"));
      } catch (error) {
        errorText.value = /** @type {Error} */ (error).message;
      }
    };
    const options = { label: t("Name"), name: "name", value: name, required: true, focus: true };
    const hint = t("Only you see your saved searches. They are found on every device where you sign in.");
    return html`
      <form @submit=${submit}>
        <div class="dialog-body">${textField({ ...options, hint, error: () => errorText.value })}</div>
        <footer>
          ${button(t("Cancel"), close, { kind: "quiet" })}
          <button class="button primary">${t("Save")}</button>
        </footer>
      </form>
    `;
  });
}
