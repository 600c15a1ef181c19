// @ts-check
/** General settings: language and theme of this browser, the caller's account, and the server's integrity checks. */

import { api } from "../../api.js";
import { button } from "../../components/button.js";
import { selectField, textField } from "../../components/form.js";
import { dot } from "../../components/status.js";
import { showError, toast } from "../../components/toast.js";
import { html, signal } from "../../core.js";
import { language, LANGUAGES, setLanguage, t } from "../../i18n.js";
import { resource } from "../../resource.js";
import { allows, session } from "../../session.js";
import { theme } from "../../theme.js";
import { ownKeys } from "./keys.js";

/** @import { Resource } from "../../resource.js" */
/** @import { Theme } from "../../theme.js" */
/** @import { SessionUser } from "../../session.js" */
/** @typedef {{promise: string, subject: string, detail: string, advice: string}} Violation */

export function generalSection() {
  return html`
    <div class="narrow">
      <section class="card">
        <h2>${t("This browser")}</h2>
        ${languageField()}${themeField()}
      </section>
      <section class="card">
        <h2>${t("Your account")}</h2>
        ${account()}
      </section>
      ${() => (allows("admin") ? integrityCard() : null)}
    </div>
  `;
}

const integrityCard = () =>
  html`
    <section class="card">
      <h2>${t("Integrity checks")}</h2>
      ${integrityChecks()}
    </section>
  `;

const languageField = () =>
  selectField({
    label: t("Language"),
    name: "language",
    value: language,
    choices: Object.entries(LANGUAGES),
    onchange: (value) => setLanguage(/** @type {"en" | "zh"} */ (value)),
  });

const themeField = () =>
  selectField({
    label: t("Theme"),
    name: "theme",
    value: theme.peek(),
    choices: [["auto", t("Match system")], ["light", t("Light")], ["dark", t("Dark")]],
    onchange: (value) => {
      theme.value = /** @type {Theme} */ (value);
    },
  });

function account() {
  const signOut = async () => {
    if (!(await endSession("/session"))) return;
    const methods = session.peek()?.user?.source === "oidc"
      ? await api.get("/session/methods").catch(() => null)
      : null;
    // The provider would sign the person in again without a question, so they are signed out there too.
    location.assign(methods?.openId?.signOutUrl ?? "/sign-in");
  };
  return () => {
    const current = session.value;
    if (!current) return null;
    if (!current.keyId && !current.user) {
      return html`<p>${t("You are on the server's own machine, so no key is needed.")}</p>`;
    }
    if (current.user) return userAccount(current.user, current.role, signOut);
    const role = t("Signed in with an API key (role: {role})", { role: t(current.role) });
    const email = current.principal?.email ? `, ${current.principal.email}` : "";
    return html`
      <p>${role}${email}.</p>
      <div>${button(t("Sign out"), signOut)}</div>
    `;
  };
}

/** @param {string} path Whether the session has ended. If not, the page must not look as if it had. */
async function endSession(path) {
  try {
    await api.delete(path);
    return true;
  } catch (error) {
    showError(error);
    return false;
  }
}

/** @param {SessionUser} user @param {string} role @param {() => Promise<void>} signOut */
function userAccount(user, role, signOut) {
  const signOutEverywhere = async () => {
    if (await endSession("/session/all")) location.assign("/sign-in");
  };
  return html`
    <p>${t("Signed in as {name} ({email}, role: {role}).", { name: user.name, email: user.email, role: t(role) })}</p>
    <div class="buttons">${button(t("Sign out"), signOut)}${button(t("Sign out everywhere"), signOutEverywhere)}</div>
    ${user.hasPassword ? passwordForm() : null} ${ownKeys()}
  `;
}

function passwordForm() {
  const errorText = signal("");
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const values = new FormData(form);
    try {
      await api.put("/session/password", {
        currentPassword: String(values.get("current")),
        newPassword: String(values.get("new")),
      });
      errorText.value = "";
      form.reset();
      toast(t("Your password is changed. Other browsers are signed out."));
    } catch (error) {
      errorText.value = /** @type {Error} */ (error).message;
    }
  };
  return html`
    <form class="fields" @submit=${submit}>
      ${textField({ label: t("Current password"), name: "current", type: "password", required: true })}
      ${textField({
        label: t("New password"),
        name: "new",
        type: "password",
        required: true,
        error: () => errorText.value || undefined,
      })}
      <div><button type="submit" class="button line">${t("Change password")}</button></div>
    </form>
  `;
}

function integrityChecks() {
  /** @type {Resource<{violations: Violation[]}>} */
  const health = resource(() => api.get("/health/invariants"));
  return () => {
    if (health.error.value) return html`<p class="error">${health.error.value.message}</p>`;
    const violations = health.value.value?.violations;
    if (!violations) return html`<p class="dim">${t("Checking …")}</p>`;
    if (!violations.length) {
      return html`<p class="status">${dot(() => "ok")}<span>${t("All checks passed.")}</span></p>`;
    }
    return html`<ul>${violations.slice(0, 20).map(violationRow)}</ul>`;
  };
}

/** @param {Violation} violation */
const violationRow = (violation) =>
  html`
    <li>
      <p class="error">${t(violation.detail)}</p>
      <p class="dim small-text">${t(violation.advice)} <code>${violation.subject}</code></p>
    </li>
  `;
