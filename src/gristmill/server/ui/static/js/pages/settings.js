// @ts-check
/** Settings: what this browser shows, the embedders, the API keys, the workers. */

import "../machine-words.js";
import { all, api } from "../api.js";
import { computed, each, html, signal } from "../core.js";
import { fetched } from "../fetched.js";
import { duration, language, LANGUAGES, number, setLanguage, t } from "../i18n.js";
import { button, iconButton } from "../parts/button.js";
import { confirm, dialog } from "../parts/dialog.js";
import { choiceField, fieldErrors, noErrors, textField } from "../parts/form.js";
import { icon } from "../parts/icon.js";
import { dot, empty, since, titled } from "../parts/status.js";
import { refused, toast } from "../parts/toast.js";
import { theme } from "../theme.js";
import { problem } from "./queue.js";

const PARTS = /** @type {Record<string, [string, () => Node]>} */ ({
  general: ["General", general],
  models: ["Models", models],
  keys: ["API keys", keys],
  workers: ["Workers", workers],
});

/** @param {import("../router.js").LiveRoute} route */
export function page(route) {
  const part = computed(() => (PARTS[route.value.params.part] ? route.value.params.part : "general"));
  titled(() => t(PARTS[part.value][0]));
  return html`<div class="page"><div class="top"><h1>${t("Settings")}</h1></div>
    <nav class="tabs strip" aria-label="${t("Settings")}">${Object.entries(PARTS).map(
      ([id, [label]]) => html`<a href="/settings/${id}" aria-current=${() => (part.value === id ? "page" : null)}>${t(label)}</a>`,
    )}</nav><div class="scroll">${() => PARTS[part.value][1]()}</div></div>`;
}

function general() {
  /** @type {import("../fetched.js").Fetched<{role: string, keyId: string | null, principal: {email: string | null} | null}>} */
  const who = fetched(() => api.get("/session"));
  /** @type {import("../fetched.js").Fetched<{violations: {promise: string, detail: string, advice: string}[]}>} */
  const health = fetched(() => api.get("/health/invariants"));
  const leave = async () => {
    await api.delete("/session").catch(refused);
    location.assign("/sign-in");
  };
  return html`<div class="narrow">
    <section class="card"><h2>${t("This browser")}</h2>
      ${choiceField({ label: t("Language"), name: "language", value: language, choices: Object.entries(LANGUAGES), onchange: (value) => setLanguage(/** @type {"en" | "zh"} */ (value)) })}
      ${choiceField({
        label: t("Theme"),
        name: "theme",
        value: theme.peek(),
        choices: [["auto", t("As the system has it")], ["light", t("Light")], ["dark", t("Dark")]],
        onchange: (value) => {
          theme.value = /** @type {import("../theme.js").Theme} */ (value);
        },
      })}</section>
    <section class="card"><h2>${t("Who you are")}</h2>${() => {
      const me = who.value.value;
      if (!me) return null;
      return me.keyId
        ? html`<p>${t("Signed in with a key of the role {role}", { role: t(me.role) })}${me.principal?.email ? `, ${me.principal.email}` : ""}.</p><div>${button(t("Sign out"), leave)}</div>`
        : html`<p>${t("You are on the same machine as the server, which asks nobody for a key here.")}</p>`;
    }}</section>
    <section class="card"><h2>${t("Promises")}</h2>${() => {
      const found = health.value.value?.violations;
      if (health.error.value) return html`<p class="error">${health.error.value.message}</p>`;
      if (!found) return html`<p class="dim">${t("Looking …")}</p>`;
      return found.length
        ? html`<ul>${found.slice(0, 20).map((one) => html`<li><p class="error">${one.detail}</p><p class="dim small-text">${one.advice}</p></li>`)}</ul>`
        : html`<p class="status">${dot(() => "ok")}<span>${t("Nothing is stuck, half there or left over.")}</span></p>`;
    }}</section></div>`;
}

/** @typedef {{name: string, dimensions: number, maxTokens: number, englishOnly: boolean, isDefault: boolean}} Embedder */

function models() {
  /** @type {import("../fetched.js").Fetched<Embedder[]>} */
  const found = fetched(async () => (await api.get("/embedders")).items);
  return html`${() => problem(found.error.value)}<div class="rows first" role="list" aria-label="${t("Models")}">${each(
    () => found.value.value ?? [],
    (one) => one.name,
    (one) => modelRow(one.peek()),
  )}</div><p class="foot dim small-text">${t("Embedders are named in the server's settings, under embedders; the default is the setting embedder. A base keeps the one that it was made with.")}</p>`;
}

/** @param {Embedder} one */
function modelRow(one) {
  const tried = signal(/** @type {any} */ (null));
  const test = async () => {
    tried.value = "asking";
    try {
      tried.value = await api.post("/embedders/test", { name: one.name });
    } catch (error) {
      tried.value = null;
      refused(error);
    }
  };
  return html`<div class="entry" role="listitem">${icon("base")}<span class="grow two-line"><b class="cut">${one.name}${one.isDefault ? html` <span class="chip">${t("Default")}</span>` : null}</b>
      <span class="dim cut">${t("{dimensions} dimensions, up to {tokens} tokens", { dimensions: one.dimensions, tokens: one.maxTokens })}${one.englishOnly ? ` · ${t("English only")}` : ""}</span></span>
    <span class="said" role="status">${() => {
      const it = tried.value;
      if (!it) return null;
      if (it === "asking") return html`<span class="dim">${t("Asking …")}</span>`;
      return html`<span class="status ${it.ok ? "ok" : "failed"}">${dot(() => (it.ok ? "ok" : "failed"))}<span>${it.ok ? t("Works: {time}", { time: duration(it.tookMs / 1000) }) : it.error.message}</span></span>`;
    }}</span>${button(t("Test"), test, { small: true, title: `${t("Test")}: ${one.name}`, disabled: () => tried.value === "asking" })}</div>`;
}

/** @typedef {{id: string, name: string, prefix: string, role: string, principal: {email: string | null}, expiresAt: string | null, lastUsedAt: string | null, createdAt: string}} Key */

function keys() {
  /** @type {import("../fetched.js").Fetched<Key[]>} */
  const found = fetched(() => all("/api-keys"));
  const add = () => newKey(() => found.renew());
  const revoke = async (/** @type {Key} */ key) => {
    const sure = await confirm({ title: t("Revoke {name}?", { name: key.name }), text: t("Whoever uses it is let in no more, from the next request on. This can't be taken back."), action: t("Revoke") });
    if (!sure) return;
    const without = (found.value.peek() ?? []).filter((one) => one.id !== key.id);
    await found.change(without, () => api.delete(`/api-keys/${key.id}`));
  };
  return html`${() => problem(found.error.value)}<div class="section"><h2>${t("API keys")}</h2>${button(t("New key"), add, { icon: "plus", small: true })}</div>
    <div class="rows first" role="list" aria-label="${t("API keys")}">${each(
      () => found.value.value ?? [],
      (key) => key.id,
      (key) => html`<div class="entry" role="listitem">${icon("key")}<span class="grow two-line"><b class="cut">${() => key.value.name} <span class="chip">${() => t(key.value.role)}</span></b>
          <span class="dim cut"><code>${key.peek().prefix}…</code>${() => (key.value.principal.email ? ` · ${key.value.principal.email}` : "")}</span></span>
        <span class="dim right small-text hide-phone">${() => (key.value.lastUsedAt ? html`${t("used")} ${since(() => key.value.lastUsedAt)}` : t("never used"))}${() => (key.value.expiresAt ? html`<br>${t("expires")} ${since(() => key.value.expiresAt)}` : null)}</span>
        ${iconButton(t("Revoke {name}", { name: key.peek().name }), "trash", () => revoke(key.peek()))}</div>`,
    )}</div>${() => (found.value.value?.length === 0 ? empty("key", t("There is no key yet"), t("On this machine none is needed. Programs elsewhere, and people who come over the network, need one."), button(t("New key"), add, { icon: "plus" })) : null)}`;
}

/** @param {() => void} done */
function newKey(done) {
  const errors = noErrors();
  const wrong = signal("");
  const made = signal("");
  dialog(t("New key"), (close) => {
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
      const days = Number(data.get("days"));
      const email = String(data.get("email")).trim();
      const body = {
        name: data.get("name"),
        role: data.get("role"),
        principal: email ? { email, teams: [], groups: [] } : undefined,
        expiresAt: days ? new Date(Date.now() + days * 86_400_000).toISOString() : null,
      };
      try {
        made.value = (await api.post("/api-keys", body)).key;
        done();
      } catch (error) {
        errors.value = fieldErrors(error);
        wrong.value = Object.keys(errors.peek()).length ? "" : /** @type {Error} */ (error).message;
      }
    };
    return html`<div class="dialog-part">${() =>
      made.value
        ? shownOnce(made.value, t("This is the key. It is shown once, and kept nowhere in plain."), close)
        : html`<form @submit=${submit}><div class="dialog-body">${textField({ label: t("Name"), name: "name", required: true, focus: true, error: () => errors.value.name })}
          ${choiceField({ label: t("Role"), name: "role", value: "reader", choices: [["reader", t("reader")], ["editor", t("editor")], ["admin", t("admin")]], hint: t("A reader searches, an editor also adds and deletes, an admin does everything.") })}
          ${textField({ label: t("Whose eyes (email)"), name: "email", type: "email", hint: t("Access lists go by it. An admin sees everything."), error: () => errors.value["principal.email"] })}
          ${choiceField({ label: t("Lives for"), name: "days", value: "0", choices: [["0", t("as long as nobody revokes it")], ["30", t("{n} days", { n: 30 })], ["365", t("{n} days", { n: 365 })]] })}
          ${() => (wrong.value ? html`<p class="error" role="alert">${wrong.value}</p>` : null)}</div>
          <footer>${button(t("Cancel"), close, { kind: "quiet" })}<button type="submit" class="button primary">${t("Create")}</button></footer></form>`}</div>`;
  });
}

/** @param {string} secret @param {string} text @param {() => void} close */
export function shownOnce(secret, text, close) {
  const copy = () => navigator.clipboard.writeText(secret).then(() => toast(t("Copied")), refused);
  return html`<div class="dialog-body"><p>${text}</p><code class="secret" tabindex="0">${secret}</code></div><footer>${button(t("Copy"), copy)}${button(t("Done"), close, { kind: "primary" })}</footer>`;
}

/** @typedef {{id: string, host: string, pid: number, startedAt: string, beatAt: string, alive: boolean, running: number, slots: number}} Worker */

function workers() {
  /** @type {import("../fetched.js").Fetched<Worker[]>} */
  const found = fetched(async () => (await api.get("/workers")).items, { every: () => 2000 });
  return html`${() => problem(found.error.value)}<div class="rows first" role="list" aria-label="${t("Workers")}">${each(
    () => found.value.value ?? [],
    (one) => one.id,
    (one) => html`<div class="entry" role="listitem">${dot(() => (one.value.alive ? "ok" : "failed"))}<span class="grow two-line"><b class="cut">${one.peek().host} <span class="dim">${t("process {pid}", { pid: String(one.peek().pid) })}</span></b>
        <span class="dim cut">${() => (one.value.alive ? t("Works") : t("Gives no sign of life; its jobs go to others"))} · ${t("started")} ${since(() => one.value.startedAt)}</span></span>
      <span class="right">${() => t("{running} of {slots} slots", { running: number(one.value.running), slots: one.value.slots })}</span></div>`,
  )}</div>${() => (found.value.value?.length === 0 ? empty("queue", t("Nobody works"), t("Start gristmill serve or gristmill worker: jobs wait until then.")) : null)}
  <p class="foot dim small-text">${t("One more on any machine that reaches the database:")} <code>gristmill worker</code></p>`;
}
