// @ts-check
/** With whom a base is shared, by name, and as what; every change applies at once. */

import { api } from "../../api.js";
import { iconButton } from "../../components/button.js";
import { textField } from "../../components/form.js";
import { showError } from "../../components/toast.js";
import { each, effect, html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { resource } from "../../resource.js";

/** @import { Signal } from "../../core.js" */
/** @import { Resource } from "../../resource.js" */
/** @typedef {"reader" | "editor" | "owner"} BaseRole */
/**
 * @typedef {{principal: string, type: "organisation" | "user" | "email" | "group" | "team", name: string,
 *   email: string | null, role: BaseRole | null, exists: boolean}} Share
 */

const EVERYONE = "org:*";
const ROLES = /** @type {[BaseRole, string][]} */ ([
  ["reader", "read"],
  ["editor", "read and change"],
  ["owner", "manage it"],
]);

/** @param {string} text An address is a person's, everything else a group's, unless it is an entry already. */
function principalOf(text) {
  if (/^(team|group|user|user_email|org):/.test(text)) return text;
  return text.includes("@") ? `user_email:${text}` : `group:${text}`;
}

/** @param {string} baseId @param {() => Promise<void>} onchange */
export function sharingCard(baseId, onchange) {
  const path = `/knowledge-bases/${baseId}/shares`;
  /** @type {Resource<{items: Share[]}>} */
  const shares = resource(() => api.get(path));
  const errorText = signal("");
  const change = async (/** @type {() => Promise<unknown>} */ request) => {
    errorText.value = "";
    try {
      await request();
    } catch (error) {
      errorText.value = /** @type {Error} */ (error).message;
    }
    await Promise.all([shares.refresh(), onchange().catch(showError)]);
  };
  const share = (/** @type {string} */ principal, /** @type {string} */ role) =>
    change(() => api.put(path, { principal, role }));
  const stop = (/** @type {string} */ principal) => change(() => api.delete(path, { query: { principal } }));
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const values = new FormData(form);
    const name = String(values.get("principal")).trim();
    share(principalOf(name), String(values.get("role"))).then(() => errorText.peek() || form.reset());
  };
  return html`
    <section class="card sharing">
      <h2>${t("Shared with")}</h2>
      ${shareList(() => shares.value.value?.items ?? null, share, stop)}
      <form @submit=${submit} class="share-form">
        ${textField({
          label: t("Person or group"),
          name: "principal",
          required: true,
          placeholder: "ann@example.org",
          hint: t("An email address, the name of a group, or org:* for everyone. Admins always see all bases."),
          error: () => errorText.value || undefined,
        })}
        <label class="field"><span>${t("May")}</span>${roleSelect("role", "reader", t("May"))}</label>
        <button class="button line">${t("Share")}</button>
      </form>
    </section>
  `;
}

/**
 * @param {() => Share[] | null} shares null until they are known
 * @param {(principal: string, role: string) => Promise<void>} share
 * @param {(principal: string) => Promise<void>} stop
 */
function shareList(shares, share, stop) {
  const rows = each(() => shares() ?? [], (entry) => entry.principal, (entry) => shareRow(entry, share, stop));
  return html`
    <ul aria-label="${t("Shared with")}">${rows}</ul>
    ${() => (shares()?.length === 0 ? html`<p class="dim">${t("Only admins see this base.")}</p>` : null)}
  `;
}

/**
 * @param {Signal<Share>} row @param {(principal: string, role: string) => Promise<void>} share
 * @param {(principal: string) => Promise<void>} stop
 */
function shareRow(row, share, stop) {
  const entry = row.peek();
  const name = entry.principal === EVERYONE ? t("Everyone in the organisation") : entry.name;
  const select = roleSelect("", entry.role ?? "", t("What {name} may do", { name }));
  const showRole = () => {
    select.value = row.peek().role ?? "";
  };
  select.addEventListener("change", () => void share(entry.principal, select.value).then(showRole)); // as it is now
  effect(() => row.value, showRole);
  return html`
    <li class="share">
      <span class="grow">${name} ${note(entry)}</span>
      ${select} ${iconButton(t("Stop sharing with {name}", { name }), "close", () => stop(entry.principal))}
    </li>
  `;
}

/** @param {Share} entry What distinguishes it from others of its name. */
function note(entry) {
  if (!entry.exists) return html`<span class="dim">(${t("deleted")})</span>`;
  if (entry.email && entry.email !== entry.name) return html`<span class="dim">${entry.email}</span>`;
  return entry.type === "group" || entry.type === "team" ? html`<span class="dim">(${t("group")})</span>` : null;
}

/**
 * @param {string} name
 * @param {string} value Empty: whoever the entry names has their own role.
 * @param {string} [label]
 */
function roleSelect(name, value, label) {
  const own = value ? [] : [html`<option value="" selected disabled>${t("as their role allows")}</option>`];
  const choices = ROLES.map(([role, words]) =>
    html`<option value="${role}" ?selected=${role === value}>${t(words)}</option>`
  );
  return /** @type {HTMLSelectElement} */ (html`
    <select name=${name || null} aria-label=${label ?? null}>${own}${choices}</select>
  `);
}
