// @ts-check
/** Webhooks: where events are sent, how far each has come, and what to do about an event that was not taken. */

import "../machine-words.js";
import { all, api } from "../api.js";
import { bases } from "../bases.js";
import { computed, each, html, signal } from "../core.js";
import { fetched } from "../fetched.js";
import { number, t } from "../i18n.js";
import { baseName } from "../names.js";
import { button } from "../parts/button.js";
import { confirm, dialog } from "../parts/dialog.js";
import { choiceField, fieldErrors, noErrors, textField } from "../parts/form.js";
import { icon } from "../parts/icon.js";
import { kebab } from "../parts/menu.js";
import { dot, empty, since, titled } from "../parts/status.js";
import { refused, toast } from "../parts/toast.js";
import { go } from "../router.js";
import { views } from "./events.js";
import { problem } from "./queue.js";
import { shownOnce } from "./settings.js";

/** @typedef {{id: string, url: string, description: string, baseId: string | null, types: string[] | null, status: "active" | "paused",
 *   delivered: number, deliveredAt: string | null, attempts: number, failingSince: string | null, cursor: string,
 *   error: {code: string, message: string} | null}} Hook */
/** @typedef {{eventId: string, type: string, attempts: number, error: {message: string}, diedAt: string, outcome: string | null}} Letter */
/** @typedef {import("../fetched.js").Fetched<Hook[]>} Hooks */

/** @param {import("../router.js").LiveRoute} route */
export function page(route) {
  titled(() => t("Webhooks"));
  /** @type {Hooks} */
  const list = fetched(() => all("/webhooks"), { live: { topic: "event" }, rest: 1500, every: () => 5000 });
  const chosen = computed(() => route.value.params.hook ?? null);
  const hook = computed(() => list.value.value?.find((one) => one.id === chosen.value) ?? null);
  const add = () =>
    newHook((made) => {
      list.value.value = [...(list.value.peek() ?? []), made];
      list.renew();
      go(`/events/webhooks/${made.id}`);
    });
  return html`<div class="page"><div class="top"><h1>${t("Events")}</h1><div class="actions">${views("webhooks")}${button(t("New webhook"), add, { kind: "primary", icon: "plus" })}</div></div>
    <div class="sides ${() => (chosen.value ? "with-pane" : "")}"><div class="scroll list">${() => problem(list.error.value)}<div class="rows" role="list" aria-label="${t("Webhooks")}">${each(
      () => list.value.value ?? [],
      (one) => one.id,
      (one) => html`<div class="tool ${() => (chosen.value === one.value.id ? "here" : "")}" role="listitem">${dot(() => toneOf(one.value))}<a class="grow two-line" href="/events/webhooks/${one.peek().id}" aria-current=${() =>
        chosen.value === one.value.id ? "true" : null}><b class="cut">${() => one.value.url.replace(/^https?:\/\//, "")}</b><span class="cut dim">${() => one.value.description || wants(one.value)}</span></a>
        <span class="two-line when"><span>${() => wordOf(one.value)}</span><span class="dim small-text">${() => t("{n} delivered", { n: one.value.delivered })}</span></span></div>`,
    )}</div>${() => (list.value.value?.length === 0 ? empty("link", t("Events are sent nowhere yet"), t("A webhook is sent every event that it wants, signed and in order, until it is taken."), button(t("New webhook"), add, { icon: "plus" })) : null)}</div>
    ${() => (chosen.value ? pane(chosen.value, hook, list) : null)}</div></div>`;
}

/** @param {Hook} hook @returns {import("../parts/status.js").Tone} */
const toneOf = (hook) => (hook.status === "paused" ? (hook.error ? "failed" : "off") : hook.failingSince ? "warn" : "ok");
/** @param {Hook} hook */
const wordOf = (hook) => (hook.status === "paused" ? t("Paused") : hook.failingSince ? t("Is refused") : t("Active"));
/** @param {Hook} hook */
const wants = (hook) => (hook.types?.length ? hook.types.join(", ") : t("Every event"));

/** @param {string} id @param {import("../core.js").Computed<Hook | null>} hook @param {Hooks} list */
function pane(id, hook, list) {
  /** @type {import("../fetched.js").Fetched<Letter[]>} */
  const letters = fetched(() => all(`/webhooks/${id}/dead-letters`, {}, 200), { every: () => 5000 });
  const test = async () => {
    try {
      const answer = await api.post(`/webhooks/${id}/test`);
      toast(answer.delivered ? t("Taken: {status} in {ms} ms", { status: String(answer.status), ms: Math.round(answer.tookMs) }) : answer.error.message, { bad: !answer.delivered });
    } catch (error) {
      refused(error);
    }
  };
  const decide = (/** @type {Letter} */ letter, /** @type {"redrive" | "skip"} */ how) => () => {
    const ahead = (letters.value.peek() ?? []).map((one) => (one.eventId === letter.eventId ? { ...one, outcome: how === "skip" ? "skipped" : "redriven" } : one));
    letters.change(ahead, () => api.post(`/webhooks/${id}/dead-letters/${letter.eventId}/${how}`)).then(() => list.renew());
  };
  return html`<aside class="pane" aria-label="${t("Webhook")}"><header class="pane-top"><a class="icon-button hide-desk" href="/events/webhooks" aria-label="${t("Back")}">${icon("back")}</a><h2 class="cut grow">${() => hook.value?.url ?? t("Webhook")}</h2>${button(t("Test"), test, { small: true })}${kebab(t("More for this webhook"), () => menu(hook.peek(), list))}</header>
    <div class="scroll">${() => (hook.value ? facts(hook.value) : null)}
      ${() => (hook.value?.error ? html`<div class="pad"><div class="banner bad">${icon("warn")}<p>${hook.value.error.message}</p></div></div>` : null)}
      ${() => (letters.value.value?.length ? html`<div class="section"><h3>${t("Given up")}</h3></div>` : null)}
      <div class="rows" role="list" aria-label="${t("Given up")}">${each(
        () => letters.value.value ?? [],
        (letter) => letter.eventId,
        (letter) => html`<div class="deadjob" role="listitem"><div class="grow"><div class="cut">${letter.peek().type} <span class="dim small-text">#${letter.peek().eventId}</span></div><p class="error">${letter.peek().error.message}</p></div>${() =>
          letter.value.outcome
            ? html`<span class="dim small-text">${t(letter.value.outcome)}</span>`
            : html`${button(t("Send again"), decide(letter.peek(), "redrive"), { small: true })}${button(t("Skip"), decide(letter.peek(), "skip"), { small: true, kind: "quiet" })}`}</div>`,
      )}</div></div></aside>`;
}

/** @param {Hook} hook */
function facts(hook) {
  return html`<dl class="about"><dt>${t("Sends")}</dt><dd>${wants(hook)}</dd><dt>${t("Base")}</dt><dd>${hook.baseId ? baseName(hook.baseId) : t("All bases")}</dd>
    <dt>${t("Delivered")}</dt><dd>${number(hook.delivered)}${hook.deliveredAt ? html` · ${since(() => hook.deliveredAt)}` : null}</dd>
    ${hook.failingSince ? html`<dt>${t("Refused")}</dt><dd>${t("{n} attempts", { n: hook.attempts })} · ${t("first")} ${since(() => hook.failingSince)}</dd>` : null}</dl>`;
}

/** @param {Hook | null} hook @param {Hooks} list */
function menu(hook, list) {
  if (!hook) return [];
  const isPaused = hook.status === "paused";
  const next = isPaused ? /** @type {const} */ ("active") : /** @type {const} */ ("paused");
  const swap = () => (list.value.peek() ?? []).map((one) => (one.id === hook.id ? { ...one, status: next } : one));
  const remove = async () => {
    if (!(await confirm({ title: t("Delete this webhook?"), text: t("What it was not sent yet is not sent any more."), action: t("Delete") }))) return;
    go("/events/webhooks");
    await list.change((list.value.peek() ?? []).filter((one) => one.id !== hook.id), () => api.delete(`/webhooks/${hook.id}`));
  };
  return [
    { label: isPaused ? t("Resume") : t("Pause"), icon: isPaused ? "play" : "pause", act: () => list.change(swap(), () => api.patch(`/webhooks/${hook.id}`, { status: next })) },
    { label: t("Delete"), icon: "trash", danger: true, act: remove },
  ];
}

/** @param {(made: Hook) => void} done */
function newHook(done) {
  const errors = noErrors();
  const wrong = signal("");
  const made = signal(/** @type {any} */ (null));
  dialog(
    t("New webhook"),
    (close) => {
      const submit = async (/** @type {SubmitEvent} */ event) => {
        event.preventDefault();
        const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
        try {
          made.value = await api.post("/webhooks", { url: data.get("url"), description: data.get("description"), baseId: data.get("base") || null });
        } catch (error) {
          errors.value = fieldErrors(error);
          wrong.value = Object.keys(errors.peek()).length ? "" : /** @type {Error} */ (error).message;
        }
      };
      return html`<div class="dialog-part">${() =>
        made.value
          ? shownOnce(made.value.secret, t("Requests are signed with this secret. It is shown once."), close)
          : html`<form @submit=${submit}><div class="dialog-body">${textField({ label: t("Address"), name: "url", type: "url", required: true, focus: true, placeholder: "https://…", error: () => errors.value.url })}
            ${textField({ label: t("Description"), name: "description" })}
            ${choiceField({ label: t("Base"), name: "base", value: "", choices: [["", t("All bases")], ...(bases.peek() ?? []).map((one) => /** @type {[string, string]} */ ([one.id, one.name]))] })}
            ${() => (wrong.value ? html`<p class="error" role="alert">${wrong.value}</p>` : null)}</div>
            <footer>${button(t("Cancel"), close, { kind: "quiet" })}<button type="submit" class="button primary">${t("Create")}</button></footer></form>`}</div>`;
    },
    { onclose: () => made.peek() && done(made.peek()) },
  );
}
