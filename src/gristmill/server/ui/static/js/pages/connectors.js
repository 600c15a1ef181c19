// @ts-check
/** Connectors: the tools that are followed, and of one of them its settings, its runs and what a run has to tell. */

import "../machine-words.js";
import { all, api } from "../api.js";
import { computed, each, html } from "../core.js";
import { inWords } from "../cron.js";
import { fetched } from "../fetched.js";
import { ago, t } from "../i18n.js";
import { button } from "../parts/button.js";
import { bar, dot, empty, titled } from "../parts/status.js";
import { refused, toast } from "../parts/toast.js";
import { go } from "../router.js";
import { openConnectorForm } from "./connector-form.js";
import { connectorPane } from "./connector.js";
import { problem } from "./queue.js";

/** @typedef {{id: string, name: string, type: string, config: Record<string, any>, schedule: string, aclSchedule: string,
 *   enabled: boolean, knowledgeBaseIds: string[], lastSyncStatus: string | null, lastSyncAt: string | null,
 *   lastSyncError: {code: string, message: string} | null, nextSyncAt: string | null, rateLimitedUntil: string | null,
 *   aclAsOf: string | null, open?: {progress: number} | null}} Connector */
/** @typedef {import("../fetched.js").Fetched<Connector[]>} Connectors */

const BADGES = /** @type {Record<string, string>} */ ({ github: "GH", gitlab: "GL", jira: "JR", confluence: "CF" });
export const OPEN = new Set(["running", "partial"]);

/** @returns {Promise<Connector[]>} each with its open run, if it has one */
async function load() {
  /** @type {Connector[]} */ const found = await all("/connectors");
  return Promise.all(
    found.map(async (one) => {
      if (!OPEN.has(one.lastSyncStatus ?? "")) return one;
      const [run] = (await api.get(`/connectors/${one.id}/runs`, { limit: 1 })).items;
      return { ...one, open: run && !run.completedAt ? run : null };
    }),
  );
}

/** @param {import("../router.js").LiveRoute} route */
export function page(route) {
  /** @type {Connectors} */
  const list = fetched(load, { every: () => (list.value.peek()?.some((one) => one.open) ? 1000 : 10_000) });
  const chosen = computed(() => route.value.params.connector ?? null);
  const current = computed(() => list.value.value?.find((one) => one.id === chosen.value) ?? null);
  titled(() => current.value?.name ?? t("Connectors"));
  const add = () =>
    openConnectorForm((made) => {
      list.value.value = [...(list.value.peek() ?? []), made];
      list.renew();
      go(`/connectors/${made.id}`);
    }).catch(refused);

  return html`<div class="page"><div class="top"><h1>${t("Connectors")}</h1><div class="actions">${button(t("New connector"), add, { kind: "primary", icon: "plus" })}</div></div>
    <div class="sides ${() => (chosen.value ? "with-pane" : "")}"><div class="scroll list">${() => problem(list.error.value)}
      <div class="rows" role="list" aria-label="${t("Connectors")}">${each(
        () => list.value.value ?? [],
        (one) => one.id,
        (one) => row(one, list, () => chosen.value === one.value.id),
      )}</div>${() =>
        list.value.value?.length === 0
          ? empty("plug", t("No tool is followed yet"), t("Follow GitHub, GitLab, Jira or Confluence: what is there becomes searchable here, for those who may see it there."), button(t("New connector"), add, { icon: "plus" }))
          : null}</div>
      ${() => (chosen.value ? connectorPane(chosen.value, current, list, route) : null)}</div></div>`;
}

/** @param {Connector} one */
export function toneOf(one) {
  if (one.open) return { tone: /** @type {const} */ ("running"), word: t("Syncing") };
  if (one.lastSyncStatus === "failed") return { tone: /** @type {const} */ ("failed"), word: t("Failed") };
  if (one.lastSyncStatus === "completed_with_errors") return { tone: /** @type {const} */ ("warn"), word: t("Some errors") };
  if (one.lastSyncStatus === "cancelled") return { tone: /** @type {const} */ ("off"), word: t("Cancelled") };
  return one.lastSyncStatus ? { tone: /** @type {const} */ ("ok"), word: t("Up to date") } : { tone: /** @type {const} */ ("queued"), word: t("Never ran") };
}

/** @param {Connector} one What it follows, shortly. */
export function scopeOf(one) {
  const { config } = one;
  const named = [config.repositories, config.organizations, config.projects, config.groups, config.spaces].flatMap((names) => names ?? []);
  if (!named.length) return t("Everything that it may see");
  return named.slice(0, 2).join(", ") + (named.length > 2 ? ` +${named.length - 2}` : "");
}

/** @param {Connector} one */
const scheduleOf = (one) => (one.enabled ? `${inWords(one.schedule)}${one.nextSyncAt ? ` · ${t("next {when}", { when: ago(one.nextSyncAt) })}` : ""}` : t("Paused"));

/**
 * Asks for a run: shown as running before the server has answered.
 * @param {Connector} one @param {Connectors} list @param {Record<string, boolean>} [how]
 */
export function sync(one, list, how = {}) {
  const ahead = (list.value.peek() ?? []).map((other) => (other.id === one.id ? { ...other, open: { progress: 0 } } : other));
  return list.change(ahead, async () => {
    const { runId } = await api.post(`/connectors/${one.id}/sync`, how);
    if (how.dryRun) toast(t("A dry run is under way: it only tells what a run would do."));
    go(`/connectors/${one.id}/runs/${runId}`);
  });
}

/** @param {import("../core.js").Signal<Connector>} one @param {Connectors} list @param {() => boolean} isChosen */
function row(one, list, isChosen) {
  const { id, type } = one.peek();
  return html`<div class="tool ${() => (isChosen() ? "here" : "")}" role="listitem"><span class="badge ${type}" aria-hidden="true">${BADGES[type] ?? type.slice(0, 2).toUpperCase()}</span>
    <a class="grow two-line" href="/connectors/${id}" aria-current=${() => (isChosen() ? "true" : null)}><b class="cut">${() => one.value.name}</b><span class="cut dim">${() => scopeOf(one.value)}</span></a>
    <span class="two-line when"><span class="status ${() => toneOf(one.value).tone}">${dot(() => toneOf(one.value).tone)}<span>${() => toneOf(one.value).word}</span></span><span class="cut dim small-text hide-phone">${() => scheduleOf(one.value)}</span></span>
    <span class="go">${() =>
      one.value.open
        ? html`${bar(() => one.value.open?.progress ?? 0)}<span class="percent">${() => `${one.value.open?.progress ?? 0}%`}</span>`
        : button(t("Sync now"), () => sync(one.peek(), list), { small: true, title: `${t("Sync now")}: ${one.peek().name}` })}</span></div>`;
}

