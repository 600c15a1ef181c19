// @ts-check
/** The list of webhooks, with the pane of the selected one: its deliveries, and events that could not be delivered. */

import "../admin-locale.js";
import { api, fetchAll } from "../api.js";
import { baseName, bases } from "../bases.js";
import { computed, each, html, signal } from "../core.js";
import { resource } from "../resource.js";
import { formatNumber, problemMessage, t } from "../i18n.js";
import { button } from "../components/button.js";
import { confirm, dialog } from "../components/dialog.js";
import { fieldErrors, noErrors, selectField, textField } from "../components/form.js";
import { icon } from "../components/icon.js";
import { kebab } from "../components/menu.js";
import { dot, emptyState, errorBanner, relativeTime, setPageTitle } from "../components/status.js";
import { showError, toast } from "../components/toast.js";
import { go } from "../router.js";
import { viewSwitch } from "./events.js";
import { secretView } from "../components/secret.js";

/** @import { Errors } from "../components/form.js" */
/** @import { Tone } from "../components/status.js" */
/** @import { Computed, Signal } from "../core.js" */
/** @import { Resource } from "../resource.js" */
/** @import { LiveRoute } from "../router.js" */

/**
 * @typedef {{id: string, url: string, description: string, baseId: string | null, types: string[] | null,
 *   status: "active" | "paused", delivered: number, deliveredAt: string | null, attempts: number,
 *   failingSince: string | null, cursor: string, error: {code: string, message: string} | null}} Webhook
 */
/**
 * @typedef {{eventId: string, type: string, attempts: number, error: {message: string}, diedAt: string,
 *   outcome: string | null}} DeadLetter
 */
/** @typedef {Resource<Webhook[]>} Webhooks */

/** @param {LiveRoute} route */
export function page(route) {
  setPageTitle(() => t("Webhooks"));
  /** @type {Webhooks} */
  const list = resource(() => fetchAll("/webhooks"), { live: { topic: "event" }, rest: 1500, every: () => 5000 });
  const chosen = computed(() => route.value.params.hook ?? null);
  const webhook = computed(() => list.value.value?.find((item) => item.id === chosen.value) ?? null);
  const openDialog = () =>
    openNewWebhookDialog((created) => {
      list.value.value = [...(list.value.peek() ?? []), created];
      list.refresh();
      go(`/events/webhooks/${created.id}`);
    });
  const rows = each(
    () => list.value.value ?? [],
    (item) => item.id,
    (item) => webhookRow(item, () => chosen.value === item.value.id),
  );
  return html`
    <div class="page">
      <div class="top">
        <h1>${t("Events")}</h1>
        <div class="actions">
          ${viewSwitch("webhooks")}
          ${button(t("New webhook"), openDialog, { kind: "primary", icon: "plus" })}
        </div>
      </div>
      <div class="sides ${() => (chosen.value ? "with-pane" : "")}">
        <div class="scroll list">
          ${() => errorBanner(list.error.value)}
          <div class="rows" role="list" aria-label="${t("Webhooks")}">${rows}</div>
          ${() => (list.value.value?.length === 0 ? noWebhooks(openDialog) : null)}
        </div>
        ${() => (chosen.value ? webhookPane(chosen.value, webhook, list) : null)}
      </div>
    </div>
  `;
}

/** @param {() => void} openDialog */
const noWebhooks = (openDialog) =>
  emptyState(
    "link",
    t("No webhooks yet"),
    t("Send events to a URL, signed and in order. Failed deliveries are retried."),
    button(t("New webhook"), openDialog, { icon: "plus" }),
  );

/** @param {Webhook} webhook @returns {Tone} */
function toneOf(webhook) {
  if (webhook.status === "paused") return webhook.error ? "failed" : "off";
  return webhook.failingSince ? "warn" : "ok";
}

/** @param {Webhook} webhook */
function stateLabel(webhook) {
  if (webhook.status === "paused") return t("Paused");
  return webhook.failingSince ? t("Failing") : t("Active");
}

/** @param {Webhook} webhook */
const describeTypes = (webhook) => (webhook.types?.length ? webhook.types.join(", ") : t("Every event"));

/** @param {Signal<Webhook>} webhook @param {() => boolean} isChosen */
function webhookRow(webhook, isChosen) {
  const url = `/events/webhooks/${webhook.peek().id}`;
  return html`
    <div class="pane-row ${() => (isChosen() ? "selected" : "")}" role="listitem">
      ${dot(() => toneOf(webhook.value))}
      <a class="grow two-line" href="${url}" aria-current=${() => (isChosen() ? "true" : null)}>
        <b class="cut">${() => webhook.value.url.replace(/^https?:\/\//, "")}</b>
        <span class="cut dim">${() => webhook.value.description || describeTypes(webhook.value)}</span>
      </a>
      <span class="two-line when">
        <span>${() => stateLabel(webhook.value)}</span>
        <span class="dim small-text">${() => t("{n} delivered", { n: webhook.value.delivered })}</span>
      </span>
    </div>
  `;
}

/** @param {string} id @param {Computed<Webhook | null>} webhook @param {Webhooks} list */
function webhookPane(id, webhook, list) {
  /** @type {Resource<DeadLetter[]>} */
  const letters = resource(() => fetchAll(`/webhooks/${id}/dead-letters`, {}, 200), { every: () => 5000 });
  const rows = each(
    () => letters.value.value ?? [],
    (letter) => letter.eventId,
    (letter) => letterRow(letter, (action) => resolveLetter(id, letter.peek(), action, letters, list)),
  );
  const title = () => (letters.value.value?.length
    ? html`
      <div class="section">
        <h3>${t("Failed deliveries")}</h3>
      </div>
    `
    : null);
  const isLoaded = computed(() => Boolean(webhook.value));
  const isMissing = computed(() => Boolean(list.value.value) && !webhook.value);
  const actions = () =>
    html`
      ${button(t("Test"), () => testWebhook(id), { small: true })}
      ${kebab(t("More for this webhook"), () => menuEntries(webhook.peek(), list))}
    `;
  return html`
    <aside class="pane" aria-label="${t("Webhook")}">
      <header class="pane-top">
        <a class="icon-button hide-desk" href="/events/webhooks" aria-label="${t("Back")}">${icon("back")}</a>
        <h2 class="cut grow">${() => webhook.value?.url ?? t("Webhook")}</h2>
        ${() => (isLoaded.value ? actions() : null)}
      </header>
      <div class="scroll">
        ${() => (isMissing.value ? emptyState("link", t("Webhook not found"), t("It may have been deleted.")) : null)}
        ${() => (webhook.value ? webhookFacts(webhook.value) : null)}
        ${() => webhookError(webhook.value)}
        ${title}
        <div class="rows" role="list" aria-label="${t("Failed deliveries")}">${rows}</div>
      </div>
    </aside>
  `;
}

/** @param {Webhook | null} webhook */
function webhookError(webhook) {
  if (!webhook?.error) return null;
  return html`
    <div class="pad">
      <div class="banner bad">${icon("warn")}<p>${problemMessage(webhook.error)}</p></div>
    </div>
  `;
}

/** @param {string} id */
async function testWebhook(id) {
  try {
    const { delivered, status, tookMs, error } = await api.post(`/webhooks/${id}/test`);
    const text = delivered
      ? t("Delivered: {status} in {ms} ms", { status: String(status), ms: Math.round(tookMs) })
      : problemMessage(error);
    toast(text, { bad: !delivered });
  } catch (error) {
    showError(error);
  }
}

/**
 * @param {string} id @param {DeadLetter} letter @param {"redrive" | "skip"} action
 * @param {Resource<DeadLetter[]>} letters @param {Webhooks} list
 */
async function resolveLetter(id, letter, action, letters, list) {
  const outcome = action === "skip" ? "skipped" : "redriven";
  const optimistic = (letters.value.peek() ?? []).map((other) =>
    other.eventId === letter.eventId ? { ...other, outcome } : other
  );
  await letters.update(optimistic, () => api.post(`/webhooks/${id}/dead-letters/${letter.eventId}/${action}`));
  list.refresh();
}

/** @param {Signal<DeadLetter>} letter @param {(action: "redrive" | "skip") => void} resolve */
function letterRow(letter, resolve) {
  const { type, eventId, error } = letter.peek();
  const buttons = () => [
    button(t("Send again"), () => resolve("redrive"), { small: true }),
    button(t("Skip"), () => resolve("skip"), { small: true, kind: "quiet" }),
  ];
  const outcome = () => html`<span class="dim small-text">${t(letter.value.outcome ?? "")}</span>`;
  return html`
    <div class="dead-job" role="listitem">
      <div class="grow">
        <div class="cut">${type} <span class="dim small-text">#${eventId}</span></div>
        <p class="error">${problemMessage(error)}</p>
      </div>
      ${() => (letter.value.outcome ? outcome() : buttons())}
    </div>
  `;
}

/** @param {Webhook} webhook */
function webhookFacts(webhook) {
  const { deliveredAt, failingSince } = webhook;
  const lastDelivery = deliveredAt ? html`<span>· ${relativeTime(() => deliveredAt)}</span>` : null;
  const failures = html`
    <dt>${t("Failures")}</dt>
    <dd>${t("{n} attempts", { n: webhook.attempts })} · ${t("first failed")} ${relativeTime(() => failingSince)}</dd>
  `;
  return html`
    <dl class="about">
      <dt>${t("Events")}</dt>
      <dd>${describeTypes(webhook)}</dd>
      <dt>${t("Base")}</dt>
      <dd>${webhook.baseId ? baseName(webhook.baseId) : t("All bases")}</dd>
      <dt>${t("Delivered")}</dt>
      <dd>${formatNumber(webhook.delivered)} ${lastDelivery}</dd>
      ${failingSince ? failures : null}
    </dl>
  `;
}

/** @param {Webhook | null} webhook @param {Webhooks} list */
function menuEntries(webhook, list) {
  if (!webhook) return [];
  const isPaused = webhook.status === "paused";
  const status = isPaused ? /** @type {const} */ ("active") : /** @type {const} */ ("paused");
  const others = () => (list.value.peek() ?? []).filter((other) => other.id !== webhook.id);
  const toggle = () => {
    const optimistic = (list.value.peek() ?? []).map((other) => other.id === webhook.id ? { ...other, status } : other);
    return list.update(optimistic, () => api.patch(`/webhooks/${webhook.id}`, { status }));
  };
  const remove = async () => {
    const isConfirmed = await confirm({
      title: t("Delete this webhook?"),
      text: t("Events that were not delivered yet will not be sent."),
      action: t("Delete"),
    });
    if (!isConfirmed) return;
    go("/events/webhooks");
    await list.update(others(), () => api.delete(`/webhooks/${webhook.id}`));
  };
  return [
    { label: isPaused ? t("Resume") : t("Pause"), icon: isPaused ? "play" : "pause", onselect: toggle },
    { label: t("Delete"), icon: "trash", danger: true, onselect: remove },
  ];
}

/** @param {(created: Webhook) => void} oncreated */
function openNewWebhookDialog(oncreated) {
  const errors = noErrors();
  const errorText = signal("");
  const created = signal(/** @type {any} */ (null));
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const [url, description] = [data.get("url"), data.get("description")];
    try {
      created.value = await api.post("/webhooks", { url, description, baseId: data.get("base") || null });
    } catch (error) {
      errors.value = fieldErrors(error);
      errorText.value = Object.keys(errors.peek()).length ? "" : /** @type {Error} */ (error).message;
    }
  };
  const secret = (/** @type {() => void} */ close) =>
    secretView(created.value.secret, t("Requests are signed with this secret. It is shown only once."), close);
  const form = (/** @type {() => void} */ close) =>
    html`
      <form @submit=${submit}>
        <div class="dialog-body">
          ${newWebhookFields(errors)}
          ${() => (errorText.value ? html`<p class="error" role="alert">${errorText.value}</p>` : null)}
        </div>
        <footer>
          ${button(t("Cancel"), close, { kind: "quiet" })}
          <button type="submit" class="button primary">${t("Create")}</button>
        </footer>
      </form>
    `;
  dialog(
    t("New webhook"),
    (close) => html`<div class="dialog-part">${() => (created.value ? secret(close) : form(close))}</div>`,
    { onclose: () => created.peek() && oncreated(created.peek()) },
  );
}

/** @param {Errors} errors */
function newWebhookFields(errors) {
  const choices = (bases.peek() ?? []).map(({ id, name }) => /** @type {[string, string]} */ ([id, name]));
  return [
    textField({
      label: t("URL"),
      name: "url",
      type: "url",
      required: true,
      focus: true,
      placeholder: "https://…",
      error: () => errors.value.url,
    }),
    textField({ label: t("Description"), name: "description" }),
    selectField({ label: t("Base"), name: "base", value: "", choices: [["", t("All bases")], ...choices] }),
  ];
}
