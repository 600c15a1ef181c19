// @ts-check
/** The API keys: a list, a dialog that creates one and shows it once, and revoking. */

import { api, fetchAll } from "../../api.js";
import { button, iconButton } from "../../components/button.js";
import { confirm, dialog } from "../../components/dialog.js";
import { fieldErrors, noErrors, selectField, textField } from "../../components/form.js";
import { icon } from "../../components/icon.js";
import { secretView } from "../../components/secret.js";
import { emptyState, errorBanner, relativeTime } from "../../components/status.js";
import { each, html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { resource } from "../../resource.js";
import { allows } from "../../session.js";

/** @import { Errors } from "../../components/form.js" */
/** @import { Signal } from "../../core.js" */
/** @import { Resource } from "../../resource.js" */
/**
 * @typedef {{id: string, name: string, prefix: string, role: string, principal: {email: string | null},
 *   expiresAt: string | null, lastUsedAt: string | null, createdAt: string}} Key
 */

const ROLES = /** @type {const} */ (["reader", "editor", "admin"]); // the server gives no one more than their own
const ALL_KEYS = "/api-keys";
const OWN_KEYS = "/session/keys";

export const keysSection = () => keyList(ALL_KEYS, t("API keys"));

/** The keys that the person who is signed in has made. */
export const ownKeys = () => keyList(OWN_KEYS, t("Your API keys"));

/** @param {string} path @param {string} title */
function keyList(path, title) {
  /** @type {Resource<Key[]>} */
  const keys = resource(() => fetchAll(path));
  const openDialog = () => openNewKeyDialog(path, () => keys.refresh());
  const rows = each(
    () => keys.value.value ?? [],
    (key) => key.id,
    (key) => keyRow(key, () => revoke(path, key.peek(), keys)),
  );
  return html`
    ${() => errorBanner(keys.error.value)}
    <div class="section">
      <h2>${title}</h2>
      ${button(t("New key"), openDialog, { icon: "plus", small: true })}
    </div>
    <div class="rows first" role="list" aria-label="${title}">${rows}</div>
    ${() => (keys.value.value?.length === 0 ? noKeys(path, openDialog) : null)}
  `;
}

/** @param {string} path @param {() => void} openDialog */
const noKeys = (path, openDialog) =>
  emptyState(
    "key",
    t("No API keys yet"),
    path === OWN_KEYS
      ? t("A key lets your own programs and agents act as you. It ends with your account.")
      : t("On this machine no key is needed. Programs and people on other machines need one."),
    button(t("New key"), openDialog, { icon: "plus" }),
  );

/** @param {string} path @param {Key} key @param {Resource<Key[]>} keys */
async function revoke(path, key, keys) {
  const isConfirmed = await confirm({
    title: t("Revoke {name}?", { name: key.name }),
    text: t("Requests with this key will be rejected immediately. This can't be undone."),
    action: t("Revoke"),
  });
  if (!isConfirmed) return;
  const optimistic = (keys.value.peek() ?? []).filter((other) => other.id !== key.id);
  await keys.update(optimistic, () => api.delete(`${path}/${key.id}`));
}

/** @param {string} when */
const expiryWord = (when) => (Date.parse(when) > Date.now() ? t("expires") : t("expired"));

/** @param {Signal<Key>} key @param {() => void} onrevoke */
function keyRow(key, onrevoke) {
  const { name, prefix } = key.peek();
  const email = () => (key.value.principal.email ? ` · ${key.value.principal.email}` : "");
  const lastUse = () =>
    key.value.lastUsedAt ? html`${t("used")} ${relativeTime(() => key.value.lastUsedAt)}` : t("never used");
  const expiry = () =>
    key.value.expiresAt
      ? html`<br>${expiryWord(key.value.expiresAt)} ${relativeTime(() => key.value.expiresAt)}`
      : null;
  return html`
    <div class="entry" role="listitem">
      ${icon("key")}
      <span class="grow two-line">
        <b class="cut">${() => key.value.name} <span class="chip">${() => t(key.value.role)}</span></b>
        <span class="dim cut"><code>${prefix}…</code>${email}</span>
      </span>
      <span class="dim right small-text hide-phone">${lastUse}${expiry}</span>
      ${iconButton(t("Revoke {name}", { name }), "trash", onrevoke)}
    </div>
  `;
}

/** @param {string} path @param {() => void} oncreated */
function openNewKeyDialog(path, oncreated) {
  const errors = noErrors();
  const errorText = signal("");
  const secret = signal("");
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const days = Number(data.get("days"));
    const email = String(data.get("email") ?? "").trim();
    const body = {
      name: data.get("name"),
      role: data.get("role"),
      ...(email ? { principal: { email, teams: [], groups: [] } } : {}),
      expiresAt: days ? new Date(Date.now() + days * 86_400_000).toISOString() : null,
    };
    try {
      secret.value = (await api.post(path, body)).key;
      oncreated();
    } catch (error) {
      errors.value = fieldErrors(error);
      errorText.value = Object.keys(errors.peek()).length ? "" : /** @type {Error} */ (error).message;
    }
  };
  dialog(t("New key"), (close) => {
    const form = () =>
      html`
        <form @submit=${submit}>
          <div class="dialog-body">
            ${newKeyFields(errors, path === OWN_KEYS)}
            ${() => (errorText.value ? html`<p class="error" role="alert">${errorText.value}</p>` : null)}
          </div>
          <footer>
            ${button(t("Cancel"), close, { kind: "quiet" })}
            <button type="submit" class="button primary">${t("Create")}</button>
          </footer>
        </form>
      `;
    const created = () => secretView(secret.value, t("Copy this key now. It is shown only once."), close);
    return html`<div class="dialog-part">${() => (secret.value ? created() : form())}</div>`;
  });
}

/** @param {Errors} errors @param {boolean} isOwn */
const newKeyFields = (errors, isOwn) => [
  textField({ label: t("Name"), name: "name", required: true, focus: true, error: () => errors.value.name }),
  selectField({
    label: t("Role"),
    name: "role",
    value: "reader",
    choices: ROLES.filter(allows).map((role) => /** @type {[string, string]} */ ([role, t(role)])),
    hint: t("Readers can search, editors can also add and delete, admins can do everything."),
  }),
  isOwn ? null : textField({
    label: t("Act as (email)"),
    name: "email",
    type: "email",
    hint: t("The key sees only what this person may see. Admin keys see everything."),
    error: () => errors.value["principal.email"],
  }),
  selectField({
    label: t("Expires"),
    name: "days",
    value: "0",
    choices: [["0", t("Never")], ["30", t("In {n} days", { n: 30 })], ["365", t("In {n} days", { n: 365 })]],
  }),
];
