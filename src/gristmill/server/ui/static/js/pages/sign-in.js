// @ts-check
/** Where a key is asked for. It is exchanged for a cookie that no script reads, and is kept nowhere. */

import "../machine-words.js";
import { api } from "../api.js";
import { html, signal } from "../core.js";
import { t } from "../i18n.js";
import { textField } from "../parts/form.js";
import { icon } from "../parts/icon.js";
import { titled } from "../parts/status.js";

/** @param {import("../router.js").LiveRoute} route */
export function page(route) {
  titled(() => t("Sign in"));
  const wrong = signal("");
  const busy = signal(false);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const key = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("key")).trim();
    busy.value = true;
    try {
      await api.post("/session", { key });
      // A path of ours and nothing else: `//host` would lead to another site.
      const next = route.peek().query.get("next") ?? "/";
      location.replace(/^\/(?![/\\])/.test(next) ? next : "/");
    } catch (error) {
      wrong.value = /** @type {Error} */ (error).message;
      busy.value = false;
    }
  };
  return html`<div class="sign-in"><form @submit=${submit}><span class="logo">${icon("mill")}</span><h1>${t("Sign in to Gristmill")}</h1>
    ${textField({ label: t("API key"), name: "key", type: "password", required: true, focus: true, placeholder: "gm_…", error: () => wrong.value || undefined })}
    <button type="submit" class="button primary" ?disabled=${() => busy.value}>${t("Sign in")}</button>
    <p class="dim small-text">${t("An admin makes keys under Settings, or with")} <code>gristmill keys create</code>.</p></form></div>`;
}
