// @ts-check
/** The worker processes: which are alive, and how many jobs each runs. */

import { api } from "../../api.js";
import { dot, emptyState, errorBanner, relativeTime } from "../../components/status.js";
import { each, html } from "../../core.js";
import { formatNumber, t } from "../../i18n.js";
import { resource } from "../../resource.js";

/** @import { Signal } from "../../core.js" */
/** @import { Resource } from "../../resource.js" */
/**
 * @typedef {{id: string, host: string, pid: number, version: string, startedAt: string, beatAt: string,
 *   alive: boolean, running: number, slots: number}} Worker
 */

export function workersSection() {
  /** @type {Resource<Worker[]>} */
  const workers = resource(async () => (await api.get("/workers")).items, { every: () => 2000 });
  const rows = each(() => workers.value.value ?? [], (worker) => worker.id, workerRow);
  return html`
    ${() => errorBanner(workers.error.value)}
    <div class="rows first" role="list" aria-label="${t("Workers")}">${rows}</div>
    ${() => (workers.value.value?.length === 0 ? noWorkers() : null)}
    <p class="foot dim small-text">
      ${t("To add a worker on any machine that can reach the database:")} <code>gristmill worker</code>
    </p>
  `;
}

const noWorkers = () =>
  emptyState("queue", t("No workers"), t("Start gristmill serve or gristmill worker. Jobs wait until then."));

/** @param {Signal<Worker>} worker */
function workerRow(worker) {
  const { host, pid } = worker.peek();
  const state = () => (worker.value.alive ? t("Running") : t("Not responding; its jobs move to other workers"));
  const slots = () => {
    const { running, slots } = worker.value;
    return t("{running} of {slots} slots", { running: formatNumber(running), slots, n: slots });
  };
  return html`
    <div class="entry" role="listitem">
      ${dot(() => (worker.value.alive ? "ok" : "failed"))}
      <span class="grow two-line">
        <b class="cut">${host} <span class="dim">${t("process {pid}", { pid: String(pid) })}</span></b>
        <span class="dim cut">${state} · ${t("started")} ${relativeTime(() => worker.value.startedAt)}
          · ${t("last heartbeat")} ${relativeTime(() => worker.value.beatAt)}
          ${worker.peek().version ? t("version {v}", { v: worker.peek().version }) : null}</span>
      </span>
      <span class="right">${slots}</span>
    </div>
  `;
}
