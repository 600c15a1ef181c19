// @ts-check
/** The list of connectors, with the pane of the selected one. */

import "../admin-locale.js";
import { api, fetchAll } from "../api.js";
import { computed, each, html } from "../core.js";
import { describeCron } from "../cron.js";
import { resource } from "../resource.js";
import { formatRelative, t } from "../i18n.js";
import { button } from "../components/button.js";
import { bar, emptyState, errorBanner, setPageTitle, status } from "../components/status.js";
import { showError, toast } from "../components/toast.js";
import { go } from "../router.js";
import { openConnectorForm } from "./connector-form.js";
import { connectorPane } from "./connector.js";

/** @import { Tone } from "../components/status.js" */
/** @import { Signal } from "../core.js" */
/** @import { Resource } from "../resource.js" */
/** @import { LiveRoute } from "../router.js" */

/**
 * @typedef {{id: string, name: string, type: string, config: Record<string, any>, schedule: string,
 *   aclSchedule: string, acl: string[] | null, enabled: boolean, knowledgeBaseIds: string[],
 *   lastSyncStatus: string | null, lastSyncAt: string | null, lastSyncError: {code: string, message: string} | null,
 *   nextSyncAt: string | null, rateLimitedUntil: string | null, aclAsOf: string | null,
 *   open?: {progress: number} | null}} Connector
 */
/** @typedef {Resource<Connector[]>} Connectors */

const BADGES = /** @type {Record<string, string>} */ ({ github: "GH", gitlab: "GL", jira: "JR", confluence: "CF" });
/** Why a sign-in at a tool failed, by the code in the address. */
const SIGN_IN_FAILURES = /** @type {Record<string, string>} */ ({
  connector_unavailable: "The tool did not respond when it was asked for the token. Sign in again in a minute.",
  oauth_denied: "The tool did not give its consent. Sign in again, and accept what it asks.",
  oauth_failed: "The tool issued no token. Check the client, its secret and its redirect address.",
  oauth_state_invalid: "The sign-in was begun more than ten minutes ago, or elsewhere. Begin it again.",
});
export const OPEN_STATUSES = new Set(["running", "partial"]);

/** @returns {Promise<Connector[]>} each with its running sync, if it has one */
async function loadConnectors() {
  /** @type {Connector[]} */ const connectors = await fetchAll("/connectors");
  return Promise.all(
    connectors.map(async (connector) => {
      if (!OPEN_STATUSES.has(connector.lastSyncStatus ?? "")) return connector;
      const [run] = (await api.get(`/connectors/${connector.id}/runs`, { limit: 1 })).items;
      return { ...connector, open: run && !run.completedAt ? run : null };
    }),
  );
}

/** @param {LiveRoute} route */
export function page(route) {
  /** @type {Connectors} */
  const list = resource(loadConnectors, {
    every: () => (list.value.peek()?.some((connector) => connector.open) ? 1000 : 10_000),
  });
  const chosen = computed(() => route.value.params.connector ?? null);
  const current = computed(() => list.value.value?.find((connector) => connector.id === chosen.value) ?? null);
  setPageTitle(() => current.value?.name ?? t("Connectors"));
  const failure = route.peek().query.get("error");
  if (failure) showError(new Error(t(SIGN_IN_FAILURES[failure] ?? "The sign-in failed. Begin it again.")));
  const openForm = () =>
    openConnectorForm((created) => {
      list.value.value = [...(list.value.peek() ?? []), created];
      list.refresh();
      go(`/connectors/${created.id}`);
    }).catch(showError);
  const rows = each(
    () => list.value.value ?? [],
    (connector) => connector.id,
    (connector) => connectorRow(connector, list, () => chosen.value === connector.value.id),
  );
  return html`
    <div class="page">
      <div class="top">
        <h1>${t("Connectors")}</h1>
        <div class="actions">${button(t("New connector"), openForm, { kind: "primary", icon: "plus" })}</div>
      </div>
      <div class="sides ${() => (chosen.value ? "with-pane" : "")}">
        <div class="scroll list">
          ${() => errorBanner(list.error.value)}
          <div class="rows" role="list" aria-label="${t("Connectors")}">${rows}</div>
          ${() => (list.value.value?.length === 0 ? noConnectors(openForm) : null)}
        </div>
        ${() => (chosen.value ? connectorPane(chosen.value, current, list, route) : null)}
      </div>
    </div>
  `;
}

/** @param {() => void} openForm */
const noConnectors = (openForm) =>
  emptyState(
    "plug",
    t("No connectors yet"),
    `${t("Connect your tools: Google Drive, SharePoint, Notion, Slack, Jira, GitHub, mail and more.")} ${
      t("People find only what they can see in the tool.")
    }`,
    button(t("New connector"), openForm, { icon: "plus" }),
  );

/** @param {Connector} connector @returns {{tone: Tone, word: string}} */
export function statusOf(connector) {
  if (connector.open) return { tone: "running", word: t("Syncing") };
  if (!connector.lastSyncStatus) return { tone: "queued", word: t("Never synced") };
  switch (connector.lastSyncStatus) {
    case "failed":
      return { tone: "failed", word: t("Failed") };
    case "completed_with_errors":
      return { tone: "warn", word: t("Some errors") };
    case "cancelled":
      return { tone: "off", word: t("Cancelled") };
    default:
      return { tone: "ok", word: t("Up to date") };
  }
}

/** Settings that name what a connector follows. */
const SCOPES = [
  ...["repositories", "organizations", "projects", "groups", "spaces"],
  ...["url", "bucket", "container", "folder", "apiUrl", "feeds", "host"],
];

/** @param {Connector} connector What it syncs, in short. */
export function scopeOf(connector) {
  const names = SCOPES.flatMap((setting) => connector.config[setting] || []);
  if (!names.length) return t("Everything it can access");
  return names.slice(0, 2).join(", ") + (names.length > 2 ? ` +${names.length - 2}` : "");
}

/** @param {Connector} connector */
function scheduleOf(connector) {
  if (!connector.enabled) return t("Paused");
  const next = connector.nextSyncAt ? ` · ${t("next {when}", { when: formatRelative(connector.nextSyncAt) })}` : "";
  return describeCron(connector.schedule) + next;
}

/**
 * Starts a sync. The row shows it as running before the server responds.
 * @param {Connector} connector @param {Connectors} list @param {Record<string, boolean>} [options]
 */
export function sync(connector, list, options = {}) {
  const optimistic = (list.value.peek() ?? []).map((other) =>
    other.id === connector.id ? { ...other, open: { progress: 0 } } : other
  );
  return list.update(optimistic, async () => {
    const { runId } = await api.post(`/connectors/${connector.id}/sync`, options);
    if (options.dryRun) toast(t("Dry run started. It only reports what a sync would change."));
    go(`/connectors/${connector.id}/runs/${runId}`);
  });
}

/** @param {Signal<Connector>} connector @param {Connectors} list @param {() => boolean} isChosen */
function connectorRow(connector, list, isChosen) {
  const { id, type } = connector.peek();
  const badge = BADGES[type] ?? type.slice(0, 2).toUpperCase();
  const percent = () => connector.value.open?.progress ?? 0;
  const syncButton = () => {
    const title = `${t("Sync now")}: ${connector.peek().name}`;
    return button(t("Sync now"), () => sync(connector.peek(), list), { small: true, title });
  };
  const progress = () => html`${bar(percent)}<span class="percent">${() => `${percent()}%`}</span>`;
  return html`
    <div class="pane-row ${() => (isChosen() ? "selected" : "")}" role="listitem">
      <span class="badge ${type}" aria-hidden="true">${badge}</span>
      <a class="grow two-line" href="/connectors/${id}" aria-current=${() => (isChosen() ? "true" : null)}>
        <b class="cut">${() => connector.value.name}</b>
        <span class="cut dim">${() => scopeOf(connector.value)}</span>
      </a>
      <span class="two-line when">
        ${status(() => statusOf(connector.value))}
        <span class="cut dim small-text hide-phone">${() => scheduleOf(connector.value)}</span>
      </span>
      <span class="go">${() => (connector.value.open ? progress() : syncButton())}</span>
    </div>
  `;
}
