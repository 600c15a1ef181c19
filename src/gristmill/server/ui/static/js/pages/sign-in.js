// @ts-check
/** The sign-in page. The key is exchanged for a cookie that scripts can't read, and is not stored. */

import "../admin-locale.js";
import { api } from "../api.js";
import { html, signal } from "../core.js";
import { t } from "../i18n.js";
import { textField } from "../components/form.js";
import { icon } from "../components/icon.js";
import { setPageTitle } from "../components/status.js";

/** @import { LiveRoute } from "../router.js" */

/** @param {LiveRoute} route */
export function page(route) {
  setPageTitle(() => t("Sign in"));
  const errorText = signal("");
  const isBusy = signal(false);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const key = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("key")).trim();
    isBusy.value = true;
    try {
      await api.post("/session", { key });
      // Only a path on this site: `//host` would lead to another one.
      const next = route.peek().query.get("next") ?? "/";
      location.replace(/^\/(?![/\\])/.test(next) ? next : "/");
    } catch (error) {
      errorText.value = /** @type {Error} */ (error).message;
      isBusy.value = false;
    }
  };
  return html`
    <div class="sign-in">
      <form @submit=${submit}><span class="logo">${icon("mill")}</span><h1>${t("Sign in to Gristmill")}</h1>
        ${textField({
          label: t("API key"),
          name: "key",
          type: "password",
          required: true,
          focus: true,
          placeholder: "gm_…",
          error: () => errorText.value || undefined,
        })}
        <button type="submit" class="button primary" ?disabled=${() => isBusy.value}>${t("Sign in")}</button>
        <p class="dim small-text">${t(
          "Admins create keys under Settings, or with",
        )} <code>gristmill keys create</code>.</p></form>
    </div>
  `;
}
