// @ts-check
/**
 * How agents and programs use this server: settings and code to copy, with its address as this browser sees it and,
 * for whoever may create keys, a new key. A key is kept in this page only, and is gone when it is left.
 */

import "../find-locale.js";
import { api } from "../api.js";
import { bases, refreshBases } from "../bases.js";
import { button } from "../components/button.js";
import { icon } from "../components/icon.js";
import { setPageTitle } from "../components/status.js";
import { tabs } from "../components/tabs.js";
import { copyText } from "../components/copy.js";
import { showError } from "../components/toast.js";
import { computed, effect, html, signal } from "../core.js";
import { t } from "../i18n.js";
import { go, setQuery } from "../router.js";
import { allows, session } from "../session.js";
import { needsBase, PROGRAMS } from "./connect/snippets.js";
import { tryIt } from "./connect/try-it.js";

/** @import { Base } from "../bases.js" */
/** @import { Computed, Signal } from "../core.js" */
/** @import { LiveRoute } from "../router.js" */
/** @import { Program, Target } from "./connect/snippets.js" */

/** @type {Record<string, string>} */
const HINTS = {
  claude: "Save it as .mcp.json in your project, or add it to the servers that are there. Then restart Claude Code.",
  cursor: "Add it to ~/.cursor/mcp.json. Then switch the server on in Cursor's settings.",
  vscode: "Save it as .vscode/mcp.json in your project. Then start the server from that file.",
  curl: "In a terminal.",
  python: "Needs the package: pip install gristmill.",
  "openai-python": "Needs the package: pip install openai. A base is a vector store.",
  "openai-node": "Needs the package: npm install openai. A base is a vector store.",
  dify: "In Dify: Knowledge, External knowledge API. In a container, use an address that it can reach.",
};
const EXPIRIES = /** @type {const} */ ([30, 90, 365]);
const DEFAULT_EXPIRY = 90; // days
const KEY_HINT =
  "What is below searches this base. The key is not limited to it: it sees what its owner or its role sees.";
const ROLES = /** @type {const} */ (["reader", "editor", "admin"]);

/** @param {LiveRoute} route */
export function page(route) {
  setPageTitle(() => t("Connect"));
  const key = signal("");
  const role = signal(/** @type {string} */ ("reader")); // of the key that is made here
  const program = computed(() => {
    const id = route.value.query.get("with");
    return PROGRAMS.find((candidate) => candidate.id === id) ?? PROGRAMS[0];
  });
  const base = computed(() => {
    const id = route.value.params.base ?? route.value.query.get("base") ?? "";
    return bases.value?.find((candidate) => candidate.id === id) ?? null;
  });
  const target = computed(() => ({ origin: location.origin, key: key.value, base: base.value }));
  const choices = PROGRAMS.map(({ id, label }) => ({ id, label }));
  const choose = (/** @type {string} */ id) => setQuery({ with: id === PROGRAMS[0].id ? null : id });
  return html`
    <div class="page">
      <div class="top">
        <h1>${t("Connect")}</h1>
      </div>
      <div class="scroll">
        <div class="connect">
          <p class="dim">
            ${t("Let agents and programs search this server. Choose what they search, and copy what they need.")}
          </p>
          <section aria-labelledby="connect-what">
            <h2 id="connect-what">${t("What")}</h2>
            ${baseField(base)}
          </section>
          <section aria-labelledby="connect-key">
            <h2 id="connect-key">${t("Key")}</h2>
            ${() => keySection(key, role)}${() => sightNote(base.value, role.value)}
          </section>
          <section aria-labelledby="connect-with">
            <h2 id="connect-with">${t("With")}</h2>
            ${tabs(t("With"), choices, () => program.value.id, choose)}
            ${() => snippetView(program.value, target)}
          </section>
        </div>
      </div>
    </div>
  `;
}

/** @param {Computed<{id: string} | null>} base */
function baseField(base) {
  const options = () =>
    (bases.value ?? []).map(({ id, name }) =>
      html`<option value="${id}" ?selected=${base.value?.id === id}>${name}</option>`
    );
  const onchange = (/** @type {Event} */ event) => {
    const id = /** @type {HTMLSelectElement} */ (event.target).value;
    go(`${id ? `/b/${id}/connect` : "/connect"}${location.search}`, { replace: true });
  };
  return html`
    <label class="field">
      <span>${t("Base")}</span>
      <select @change=${onchange} aria-describedby="connect-base-hint">
        <option value="">${t("All bases")}</option>${options}
      </select>
    </label>
    <p class="hint" id="connect-base-hint">${() => (base.value ? t(KEY_HINT) : null)}</p>
  `;
}

const EVERYONE = "org:*";

/**
 * What a key of an admin's making will not see: a key that acts as no one sees the bases of everyone, unless it is an
 * admin's.
 * @param {Base | null} base @param {string} role
 */
function sightNote(base, role) {
  if (!allows("admin") || role === "admin") return null;
  const isSeen = (/** @type {Base} */ { acl }) => acl.includes(EVERYONE);
  const all = bases.value ?? [];
  if (base ? isSeen(base) : all.every(isSeen)) return null;
  const seen = all.filter(isSeen).length;
  const text = base
    ? t("A key with this role does not see {name}: the base is not shared with everyone.", { name: base.name })
    : t("A key with this role sees only bases that are shared with everyone: {seen} of {all}.", {
      seen,
      all: all.length,
    });
  const share = async () => {
    try {
      await api.put(`/knowledge-bases/${base?.id}/shares`, { principal: EVERYONE, role: "reader" });
      await refreshBases(base?.id);
    } catch (error) {
      showError(error);
    }
  };
  return html`
    <div class="banner" role="status">
      ${icon("warn")}<p>${text}</p>${base ? button(t("Share with everyone"), share, { small: true }) : null}
    </div>
  `;
}

/** @param {Signal<string>} key @param {Signal<string>} role */
function keySection(key, role) {
  if (key.value) return newKeyView(key.value);
  const { keyId, user } = session.value ?? {};
  const isLocal = keyId === null && !user;
  const note = isLocal
    ? t("On this machine no key is needed. From other machines, programs need one.")
    : t("Programs sign in with a key. It decides what they see.");
  const isPerson = Boolean(user) && keyId === null; // a key can't create keys
  return html`
    <p class="dim">${note}</p>
    ${allows("admin") || isPerson ? newKeyForm(key, role) : ownKeyField(key)}
  `;
}

/** @param {string} key */
function newKeyView(key) {
  const copy = () => copyText(key);
  return html`
    <div class="new-key" role="status">
      <p>${t("Copy this key now. It is shown only once. It is filled in below.")}</p>
      <code class="secret" tabindex="0">${key}</code>
      ${button(t("Copy key"), copy, { icon: "copy", small: true })}
    </div>
  `;
}

/**
 * People who are not admins create a key that acts as them.
 * @param {Signal<string>} key @param {Signal<string>} role
 */
function newKeyForm(key, role) {
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const days = Number(data.get("days"));
    const body = {
      name: String(data.get("name")),
      role: data.get("role"),
      expiresAt: days ? new Date(Date.now() + days * 86_400_000).toISOString() : null,
    };
    try {
      key.value = (await api.post(allows("admin") ? "/api-keys" : "/session/keys", body)).key;
    } catch (error) {
      showError(error);
    }
  };
  const onrole = (/** @type {Event} */ event) => {
    role.value = /** @type {HTMLSelectElement} */ (event.target).value;
  };
  const roles = ROLES.filter(allows).map((name) => html`<option value="${name}">${t(name)}</option>`);
  const expiries = EXPIRIES.map((days) =>
    html`<option value="${days}" ?selected=${days === DEFAULT_EXPIRY}>${t("In {n} days", { n: days })}</option>`
  );
  return html`
    <form class="key-form" @submit=${submit}>
      <label class="field"><span>${t("Name")}</span>
        <input name="name" required maxlength="200" autocomplete="off" value="${t("Agent")}">
      </label>
      <label class="field"><span>${t("Role")}</span>
        <select name="role" @change=${onrole}>${roles}</select>
      </label>
      <label class="field"><span>${t("Expires")}</span>
        <select name="days">${expiries}<option value="0">${t("Never")}</option></select>
      </label>
      <button class="button line">${icon("key")}<span>${t("Create key")}</span></button>
    </form>
    <p class="dim small-text">
      ${t("Readers can search, editors can also add and delete, admins can do everything.")}
    </p>
  `;
}

/** @param {Signal<string>} key For callers who can't create keys. */
function ownKeyField(key) {
  const onchange = (/** @type {Event} */ event) => {
    key.value = /** @type {HTMLInputElement} */ (event.target).value.trim();
  };
  return html`
    <label class="field">
      <span>${t("Your key")}</span>
      <input type="password" autocomplete="off" placeholder="gm_…" aria-describedby="own-key-hint" @change=${onchange}>
      <span class="hint" id="own-key-hint">
        ${t("It is filled in below, and not stored. Ask an admin if you need one.")}
      </span>
    </label>
  `;
}

/** @param {Program} program @param {Computed<Target>} target */
function snippetView(program, target) {
  const result = signal(/** @type {{isGood: boolean, text: string} | null} */ (null));
  // Not with every change of the base: the outcome stays while documents are added to it.
  const tested = computed(() => `${target.value.key} ${target.value.base?.id ?? ""}`);
  effect(
    () => tested.value,
    () => {
      result.value = null;
    },
  );
  const isComplete = computed(() => !needsBase(program.id) || target.value.base !== null);
  const copy = () => copyText(program.code(target.peek()));
  const run = async () => {
    try {
      result.value = { isGood: true, text: await tryIt(program.id, target.peek()) };
    } catch (error) {
      result.value = { isGood: false, text: /** @type {Error} */ (error).message };
    }
  };
  const outcome = () =>
    result.value
      ? html`
        <p class="outcome ${result.value.isGood ? "ok" : "bad"}">
          ${icon(result.value.isGood ? "check" : "warn")}<span>${result.value.text}</span>
        </p>
      `
      : null;
  const chooseBase = () =>
    isComplete.value ? null : html`<p class="dim">${t("Choose a base above: it takes one.")}</p>`;
  return html`
    <div class="snippet">
      <p class="dim">${t(HINTS[program.id])}</p>
      <pre class="log" tabindex="0" aria-label="${t("Code for {name}", { name: program.label })}">${() =>
        program.code(target.value)}</pre>
      <div class="snippet-actions">
        ${button(t("Copy"), copy, { icon: "copy" })}
        ${button(t("Test it"), run, { icon: "play", disabled: () => !isComplete.value })}
      </div>
      ${chooseBase}
      <div role="status">${outcome}</div>
    </div>
  `;
}
