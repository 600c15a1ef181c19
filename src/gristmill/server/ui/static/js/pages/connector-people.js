// @ts-check
/** Lists groups of a tool, and accounts whose address it does not show, and maps these by a CSV file or by users. */

import { api } from "../api.js";
import { button } from "../components/button.js";
import { dialog } from "../components/dialog.js";
import { showError, toast } from "../components/toast.js";
import { html, signal } from "../core.js";
import { t } from "../i18n.js";

/** @import { Connector } from "./connectors.js" */
/** @typedef {{ userId: string, name: string, email: string | null }} Identity */
/** @typedef {{ id: string, name: string, memberCount: number, complete: boolean }} ToolGroup */
/** @typedef {{ mapped: Identity[], unchanged: number, failed: { line: number, code: string }[] }} Mapping */

const SHOWN = 100;

/** @param {Connector} connector */
export async function openPeopleDialog(connector) {
  const path = `/connectors/${connector.id}/identities`;
  const load = async () => (await api.get(path, { unmapped: true, limit: SHOWN })).items;
  const unmapped = signal(/** @type {Identity[]} */ (await load()));
  const groups = /** @type {ToolGroup[]} */ (
    (await api.get(`/connectors/${connector.id}/groups`, { limit: SHOWN })).items
  );
  const failed = signal(/** @type {Mapping["failed"]} */ ([]));
  const map = async (/** @type {string} */ action, /** @type {Record<string, string>} */ body) => {
    try {
      const result = /** @type {Mapping} */ (await api.post(`${path}/${action}`, body));
      failed.value = result.failed;
      unmapped.value = await load();
      toast(t("{n} accounts mapped", { n: result.mapped.length }));
    } catch (error) {
      showError(error);
    }
  };
  const importFile = async (/** @type {Event} */ event) => {
    const input = /** @type {HTMLInputElement} */ (event.target);
    const file = input.files?.[0];
    if (file) await map("import", { csv: await file.text() });
    input.value = "";
  };
  const aboutAccounts = t(
    "The tool does not show the email addresses of these accounts. They see nothing until they are mapped.",
  );
  dialog(
    t("People of {name}", { name: connector.name }),
    (close) =>
      html`
        <div class="dialog-body">
          <p>${aboutAccounts}</p>
          ${() => accountList(unmapped.value)} ${() => failureList(failed.value)}
          <label class="field">
            <span>${t("CSV file with the columns userId or name, and email")}</span>
            <input type="file" accept=".csv,text/csv" @change=${importFile}>
          </label>
          ${groupList(groups)}
        </div>
        <footer>
          ${button(t("Match with users"), () => map("match", {}))}
          ${button(t("Done"), close, { kind: "primary" })}
        </footer>
      `,
  );
}

/** @param {Identity[]} accounts */
function accountList(accounts) {
  if (!accounts.length) return html`<p class="empty-note plain">${t("All accounts have an address.")}</p>`;
  const more = accounts.length === SHOWN ? html`<p>${t("The first {count} are shown.", { count: SHOWN })}</p>` : null;
  const entries = accounts.map(({ userId, name }) => html`<li>${name || userId} <code>${userId}</code></li>`);
  return html`
    <ul tabindex="0" aria-label="${t("Accounts without an address")}">${entries}</ul>
    ${more}
  `;
}

/** @param {ToolGroup[]} groups */
function groupList(groups) {
  if (!groups.length) return null;
  const entries = groups.map(({ name, memberCount, complete }) =>
    html`
      <li>${name} <span class="dim">${complete
        ? t("{n} members", { n: memberCount })
        : t("members not known: it shows nothing to anyone")}</span></li>
    `
  );
  return html`
    <p>${t("Groups of the tool that access lists name:")}</p>
    <ul tabindex="0" aria-label="${t("Groups of the tool")}">${entries}</ul>
    ${groups.length === SHOWN ? html`<p>${t("The first {count} are shown.", { count: SHOWN })}</p>` : null}
  `;
}

/** @param {string} code */
function reason(code) {
  if (code === "bad_email") return t("The address is not an email address.");
  if (code === "ambiguous_account") return t("Several accounts have this name. Add a column userId.");
  if (code === "conflicting_rows") return t("Another line has another address for this account. Keep one of the two.");
  return t("No account has this name. Check it, or add a column userId.");
}

/** @param {Mapping["failed"]} failed */
function failureList(failed) {
  const lines = failed.map(({ line, code }) => html`<li>${t("Line {line}", { line })}: ${reason(code)}</li>`);
  return failed.length ? html`<ul class="error" role="alert">${lines}</ul>` : null;
}
