// @ts-check
/** Who sees a base: only admins, everyone in the organisation, or certain people, teams and groups. */

import { html, signal } from "../../core.js";
import { t } from "../../i18n.js";

/** @import { Base } from "../../bases.js" */

const EVERYONE = "org:*";

/** @param {string[]} acl */
const kindOf = (acl) => (acl.includes(EVERYONE) ? "everyone" : acl.length ? "some" : "admins");

/** @param {Base} base */
export function sharingFields(base) {
  const kind = signal(kindOf(base.acl));
  const choice = (/** @type {string} */ value, /** @type {string} */ label) => {
    const onchange = () => {
      kind.value = value;
    };
    return html`
      <label class="radio">
        <input type="radio" name="sharing" value="${value}" ?checked=${kind.peek() === value} @change=${onchange}>
        <span>${label}</span>
      </label>
    `;
  };
  const names = base.acl.filter((entry) => entry !== EVERYONE).map(shownName).join("\n");
  const list = () =>
    html`
      <label class="field" ?hidden=${() => kind.value !== "some"}>
        <span>${t("People, teams and groups")}</span>
        <textarea name="principals" rows="4" spellcheck="false" .value=${names}></textarea>
        <span class="hint">
          ${t("One a line: an email address, team:ID or group:ID. Items with an access list of their own keep it.")}
        </span>
      </label>
    `;
  return html`
    <fieldset class="sharing">
      <legend>${t("Who can see it")}</legend>
      ${choice("admins", t("Only admins"))}${choice("everyone", t("Everyone in the organisation"))}
      ${choice("some", t("Certain people, teams and groups"))}${list()}
    </fieldset>
  `;
}

/** @param {string} entry */
const shownName = (entry) => entry.replace(/^user_email:/, "");

/** @param {FormData} form @returns {string[]} the access list */
export function aclFrom(form) {
  const kind = form.get("sharing");
  if (kind === "everyone") return [EVERYONE];
  if (kind !== "some") return [];
  const lines = String(form.get("principals")).split(/[\n,]/).map((line) => line.trim()).filter(Boolean);
  return lines.map((line) => (/^(team|group|user_email|org):/.test(line) ? line : `user_email:${line}`));
}
