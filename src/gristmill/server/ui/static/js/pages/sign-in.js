// @ts-check
/**
 * The sign-in page: with an address and a password, at the OpenID provider, or with a key. The secret is exchanged for
 * a cookie that scripts can't read, and is not stored.
 */

import "../admin-locale.js";
import { api } from "../api.js";
import { html, signal } from "../core.js";
import { t } from "../i18n.js";
import { textField } from "../components/form.js";
import { icon } from "../components/icon.js";
import { setPageTitle } from "../components/status.js";
import { resource } from "../resource.js";

/** @import { LiveRoute } from "../router.js" */
/** @import { Resource } from "../resource.js" */
/** @typedef {{password: boolean, openId: {name: string, path: string} | null}} Methods */

/** Why a sign-in at the OpenID provider failed, by the code that the server puts into the address. */
const FAILURES = /** @type {Record<string, string>} */ ({
  open_id_denied: "The provider did not sign you in. Try again, or ask an admin for access.",
  open_id_expired: "This sign-in took too long, or was begun in another browser. Start again.",
  open_id_failed:
    "The sign-in could not be completed. Try again; if it keeps failing, ask an admin to look into the log.",
  open_id_unavailable: "The provider does not answer. Try again later.",
  email_not_verified: "The provider has not verified your email address. Verify it there, then try again.",
  user_inactive: "Your account is not active. Ask an admin.",
  too_many_sign_ins: "Too many sign-ins failed. Wait a minute, then try again.",
});

/** @param {string | null} path Only a path on this site: `//host` would lead to another one. */
const safePath = (path) => (path && /^\/(?![/\\])/.test(path) ? path : "/");

/** @param {LiveRoute} route */
export function page(route) {
  setPageTitle(() => t("Sign in"));
  /** @type {Resource<Methods>} */
  const methods = resource(() => api.get("/session/methods"));
  const failure = route.peek().query.get("error");
  const errorText = signal(failure ? t(FAILURES[failure] ?? FAILURES.open_id_failed) : "");
  const isBusy = signal(false);
  const withKey = signal(false);
  const next = safePath(route.peek().query.get("next"));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    isBusy.value = true;
    try {
      await api.post(
        "/session",
        form.has("key")
          ? { key: String(form.get("key")).trim() }
          : { email: String(form.get("email")).trim(), password: String(form.get("password")) },
      );
      location.replace(next);
    } catch (error) {
      errorText.value = /** @type {Error} */ (error).message;
      isBusy.value = false;
    }
  };
  return html`
    <div class="sign-in">
      <form @submit=${submit}><span class="logo">${icon("mill")}</span><h1>${t("Sign in to Gristmill")}</h1>
        ${() => providerLink(methods.value.value, next)}
        ${() => isKnown(methods) && fields(hasPasswords(methods) && !withKey.value, () => errorText.value || undefined)}
        <button type="submit" class="button primary" ?disabled=${() => isBusy.value}>${t("Sign in")}</button>
        ${() => switchLink(hasPasswords(methods), withKey)}</form>
    </div>
  `;
}

/** @param {Resource<Methods>} methods The form waits for the methods, so that it does not change under the fingers. */
const isKnown = (methods) => Boolean(methods.value.value ?? methods.error.value);

/** @param {Resource<Methods>} methods */
const hasPasswords = (methods) => methods.value.value?.password ?? false;

/** @param {Methods | undefined | null} methods @param {string} next */
function providerLink(methods, next) {
  if (!methods?.openId) return null;
  const address = `${methods.openId.path}?next=${encodeURIComponent(next)}`;
  return html`
    <a class="button line" href="${address}">${t("Sign in with {name}", { name: methods.openId.name })}</a>
  `;
}

/** @param {boolean} isPassword @param {() => string | undefined} error */
function fields(isPassword, error) {
  if (!isPassword) {
    return textField({
      label: t("API key"),
      name: "key",
      type: "password",
      required: true,
      focus: true,
      placeholder: "gm_…",
      autocomplete: "current-password",
      error,
    });
  }
  return html`
    ${textField({
      label: t("Email address"),
      name: "email",
      type: "email",
      required: true,
      focus: true,
      autocomplete: "username",
    })}${textField({
      label: t("Password"),
      name: "password",
      type: "password",
      required: true,
      autocomplete: "current-password",
      error,
    })}
  `;
}

/** @param {boolean} hasPassword @param {import("../core.js").Signal<boolean>} withKey */
function switchLink(hasPassword, withKey) {
  const toggle = () => {
    withKey.value = !withKey.peek();
  };
  const label = () => (withKey.value ? t("Sign in with a password") : t("Sign in with an API key"));
  const hint = html`
    <p class="dim small-text">
      ${t("Admins create keys under Settings, or with")} <code>gristmill keys create</code>.
    </p>
  `;
  if (!hasPassword) return hint;
  return html`<button type="button" class="button link" @click=${toggle}>${label}</button>`;
}
