// @ts-check
/** The pane of one connector: its settings, its runs, and the details of the selected run. */

import { api } from "../api.js";
import { baseName } from "../bases.js";
import { button } from "../components/button.js";
import { dialog } from "../components/dialog.js";
import { icon } from "../components/icon.js";
import { kebab } from "../components/menu.js";
import { emptyState, relativeTime } from "../components/status.js";
import { showError, toast } from "../components/toast.js";
import { computed, each, effect, html, signal } from "../core.js";
import { describeCron } from "../cron.js";
import { problemMessage, t } from "../i18n.js";
import { resource } from "../resource.js";
import { go } from "../router.js";
import { accessInWords } from "./connector-access.js";
import { checkResultView, openConnectorForm } from "./connector-form.js";
import { kindOf, kindTitle } from "./connector-kinds.js";
import { openPeopleDialog } from "./connector-people.js";
import { openPushDialog } from "./connector-push.js";
import { runDetails, runRow } from "./connector-run.js";
import { scopeOf, sync } from "./connectors.js";

/** @import { Computed, Signal } from "../core.js" */
/** @import { Resource } from "../resource.js" */
/** @import { LiveRoute } from "../router.js" */
/** @import { Run } from "./connector-run.js" */
/** @import { Connector, Connectors } from "./connectors.js" */

/**
 * @param {string} id @param {Computed<Connector | null>} connector @param {Connectors} list
 * @param {LiveRoute} route
 */
export function connectorPane(id, connector, list, route) {
  /** @type {Resource<Run[]>} */
  const runs = resource(async () => (await api.get(`/connectors/${id}/runs`, { limit: 30 })).items, {
    every: () => (runs.value.peek()?.some((run) => !run.completedAt) ? 700 : 5000),
  });
  effect(
    () => `${route.value.params.run} ${connector.value?.open ? "open" : connector.value?.lastSyncAt}`,
    () => void runs.refresh(),
  );
  const chosen = computed(() => route.value.params.run ?? runs.value.value?.[0]?.id ?? null);
  const run = computed(() => runs.value.value?.find((other) => other.id === chosen.value) ?? null);
  const checkResult = signal(/** @type {any} */ (null));
  const name = () => connector.value?.name ?? t("Connector");
  const isLoaded = computed(() => Boolean(connector.value));
  const isMissing = computed(() => Boolean(list.value.value) && !connector.value);
  const actions = () =>
    html`
      ${syncOrCancelButton(id, connector, runs, list)}
      ${kebab(t("More for this connector"), () => menuEntries(connector.peek(), list, checkResult))}
    `;
  const rows = each(
    () => runs.value.value ?? [],
    (item) => item.id,
    (item) => runRow(id, item, () => chosen.value === item.value.id),
  );
  return html`
    <aside class="pane" aria-label="${name}">
      <header class="pane-top">
        <a class="icon-button hide-desk" href="/connectors" aria-label="${t("Back")}">${icon("back")}</a>
        <h2 class="cut grow">${name}</h2>
        ${() => (isLoaded.value ? actions() : null)}
      </header>
      <div class="scroll">
        ${() => (isMissing.value ? emptyState("plug", t("Connector not found"), t("It may have been deleted.")) : null)}
        ${() => (connector.value ? connectorFacts(connector.value) : null)}
        <div class="pad-x" role="status">${() => checkResultView(checkResult.value)}</div>
        ${() => syncError(connector.value)}
        <h3 class="sr">${t("Runs")}</h3>
        <div class="rows runs" role="list" aria-label="${t("Runs")}">${rows}</div>
        ${() => (runs.value.value?.length === 0 ? noRuns() : null)}
        ${() => (chosen.value ? runDetails(id, chosen.value, run) : null)}
      </div>
    </aside>
  `;
}

const noRuns = () => html`<p class="empty-note plain">${t("It has not run yet.")}</p>`;

/** @param {Connector | null} connector */
function syncError(connector) {
  if (!connector?.lastSyncError) return null;
  const isSignedOut = connector.lastSyncError.code === "connector_sign_in_needed";
  return html`
    <div class="pad">
      <div class="banner bad">
        ${icon("warn")}
        <p>${problemMessage(connector.lastSyncError)}</p>
        ${isSignedOut ? button(t("Sign in at the tool"), () => signIn(connector), { small: true }) : null}
      </div>
    </div>
  `;
}

/**
 * @param {string} id @param {Computed<Connector | null>} connector @param {Resource<Run[]>} runs
 * @param {Connectors} list
 */
function syncOrCancelButton(id, connector, runs, list) {
  const isRunning = computed(() =>
    Boolean(connector.value?.open) || Boolean(runs.value.value?.some((run) => !run.completedAt))
  );
  const start = async () => {
    const current = connector.peek();
    if (!current) return;
    await sync(current, list);
    await runs.refresh();
  };
  const cancel = () => cancelRun(id, runs, list);
  return () =>
    isRunning.value ? button(t("Cancel"), cancel, { small: true }) : button(t("Sync now"), start, { small: true });
}

/** @param {Connector} connector */
function connectorFacts(connector) {
  const { aclAsOf, rateLimitedUntil } = connector;
  const baseLinks = connector.knowledgeBaseIds.map((id) =>
    html`<a class="chip" href="/b/${id}">${() => baseName(id) || id.slice(0, 8)}</a>`
  );
  const asOf = () => (aclAsOf ? html`${t("synced")} ${relativeTime(() => aclAsOf)}` : t("not synced yet"));
  const isRateLimited = rateLimitedUntil && new Date(rateLimitedUntil) > new Date();
  const rateLimit = html`
    <dt>${t("Rate limit")}</dt>
    <dd>${t("Rate limited by the tool until")} ${relativeTime(() => rateLimitedUntil)}</dd>
  `;
  return html`
    <dl class="about">
      <dt>${t("Tool")}</dt>
      <dd>${() => kindTitle(connector.type)} · ${scopeOf(connector)}</dd>
      <dt>${t("Target bases")}</dt>
      <dd>${baseLinks.length ? baseLinks : t("None yet")}</dd>
      <dt>${t("Schedule")}</dt>
      <dd><code class="chip">${connector.schedule}</code> ${describeCron(connector.schedule)}</dd>
      <dt>${t("Next run")}</dt>
      <dd>${connector.enabled ? relativeTime(() => connector.nextSyncAt) : t("Paused")}</dd>
      <dt>${t("Visible to")}</dt>
      <dd>${() => accessInWords(connector, kindOf(connector.type), asOf)}</dd>
      ${isRateLimited ? rateLimit : null}
    </dl>
  `;
}

/** @param {string} id @param {Resource<Run[]>} runs @param {Connectors} list */
async function cancelRun(id, runs, list) {
  const completedAt = new Date().toISOString();
  const optimistic = (runs.value.peek() ?? []).map((run) =>
    run.completedAt ? run : { ...run, status: "cancelled", completedAt }
  );
  await runs.update(optimistic, () => api.post(`/connectors/${id}/cancel`));
  list.refresh();
}

/** @param {Connector | null} connector @param {Connectors} list @param {Signal<any>} checkResult */
function menuEntries(connector, list, checkResult) {
  if (!connector) return [];
  const withChanges = (/** @type {Partial<Connector>} */ changes) =>
    (list.value.peek() ?? []).map((other) => (other.id === connector.id ? { ...other, ...changes } : other));
  const check = async () => {
    checkResult.value = "checking";
    try {
      checkResult.value = await api.post(`/connectors/${connector.id}/check`);
    } catch (error) {
      checkResult.value = null;
      showError(error);
    }
  };
  const edit = () => openConnectorForm(() => list.refresh(), connector).catch(showError);
  const setEnabled = (/** @type {boolean} */ enabled) => () =>
    list.update(
      withChanges({ enabled }),
      () => api.post(`/connectors/${connector.id}/${enabled ? "resume" : "pause"}`),
    );
  const syncWith = (/** @type {Record<string, boolean>} */ options) => () => sync(connector, list, options);
  const disabled = Boolean(connector.open);
  return [
    { label: t("Edit"), icon: "gear", onselect: edit },
    { label: t("Check credentials"), icon: "key", onselect: check },
    ...(kindOf(connector.type)?.hasSignIn
      ? [{ label: t("Sign in at the tool"), icon: "link", onselect: () => signIn(connector) }]
      : []),
    { label: t("People"), icon: "agent", onselect: () => openPeopleDialog(connector).catch(showError) },
    { label: t("Push"), icon: "link", onselect: () => openPushDialog(connector).catch(showError) },
    { label: t("Dry run"), icon: "search", onselect: syncWith({ dryRun: true }), disabled },
    { label: t("Full resync"), icon: "retry", onselect: syncWith({ force: true }), disabled },
    connector.enabled
      ? { label: t("Pause"), icon: "pause", onselect: setEnabled(false) }
      : { label: t("Resume"), icon: "play", onselect: setEnabled(true) },
    { label: t("Delete"), icon: "trash", danger: true, onselect: () => confirmDelete(connector, list) },
  ];
}

/** Sends the browser to the tool's page, which sends it back here. @param {Connector} connector */
async function signIn(connector) {
  try {
    const { url } = await api.post(`/connectors/${connector.id}/sign-in`);
    location.assign(url);
  } catch (error) {
    showError(error);
  }
}

/** @param {Connector} connector @param {Connectors} list */
function confirmDelete(connector, list) {
  dialog(t("Delete {name}?", { name: connector.name }), (close) => {
    const deleteWith = (/** @type {"purge" | "detach"} */ onDelete) => async () => {
      close();
      go("/connectors");
      const optimistic = (list.value.peek() ?? []).filter((other) => other.id !== connector.id);
      const request = () => api.delete(`/connectors/${connector.id}`, { query: { onDelete } });
      if (await list.update(optimistic, request)) toast(t("{name} is deleted", { name: connector.name }));
    };
    return html`
      <form @submit=${(/** @type {Event} */ event) => event.preventDefault()}>
        <div class="dialog-body">
          <p>${t("Its credentials and run history will be deleted. Do you want to keep the documents it imported?")}</p>
        </div>
        <footer>
          ${button(t("Cancel"), close, { kind: "quiet" })}
          ${button(t("Keep documents"), deleteWith("detach"))}
          ${button(t("Delete documents too"), deleteWith("purge"), { kind: "danger" })}
        </footer>
      </form>
    `;
  });
}
