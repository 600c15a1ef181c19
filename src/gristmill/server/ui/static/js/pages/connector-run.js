// @ts-check
/** The runs of a connector: one row for each, and the figures, the live log and the errors of the selected one. */

import { api, fetchAll } from "../api.js";
import { bar, dot, relativeTime } from "../components/status.js";
import { each, effect, html, signal } from "../core.js";
import { formatDuration, formatNumber, formatTime, problemMessage, t } from "../i18n.js";
import { resource } from "../resource.js";
import { translateLine } from "../run-log.js";

/** @import { Tone } from "../components/status.js" */
/** @import { Computed, Signal } from "../core.js" */
/** @import { Resource } from "../resource.js" */
/**
 * @typedef {{id: string, trigger: string, status: string, stage: string, dryRun: boolean, force: boolean,
 *   startedAt: string, completedAt: string | null, totalItems: number | null, documentsProcessed: number,
 *   documentsIngested: number, documentsUnchanged: number, documentsPruned: number, deletionsHeld: number,
 *   pending: number, itemErrors: number, progress: number, rateLimitedUntil: string | null, error: {code: string,
 *   message: string} | null, plan: Record<string, any> | null}} Run
 */
/** @typedef {{id: number, at: string, level: string, message: string}} LogLine */
/** @typedef {{sourceId: string, attempts: number, error: {message: string}}} Failure */

/** @type {Record<string, Tone>} */
const TONES = { success: "ok", failed: "failed", cancelled: "off" };

/** @param {Run} run @returns {Tone} */
const toneOf = (run) => (run.completedAt ? TONES[run.status] ?? "warn" : "running");

/** @param {Run} run The outcome in one line. */
function describeOutcome(run) {
  if (run.error) return problemMessage(run.error);
  if (!run.completedAt) return describeStage(run);
  if (run.dryRun && run.plan) return t("would add {add}, change {change}, remove {prune}", run.plan);
  if (run.status === "cancelled") return t("cancelled");
  const parts = [
    run.documentsIngested ? t("{n} changed", { n: run.documentsIngested }) : null,
    run.documentsPruned ? t("{n} removed", { n: run.documentsPruned }) : null,
    run.itemErrors ? t("{n} errors", { n: run.itemErrors }) : null,
    run.deletionsHeld ? t("{n} deletions on hold", { n: run.deletionsHeld }) : null,
  ].filter(Boolean);
  return parts.length ? parts.join(", ") : t("no changes");
}

/** @param {Run} run What an unfinished run is doing. */
function describeStage(run) {
  if (run.rateLimitedUntil) return t("waiting: rate limited by the tool");
  if (run.stage === "indexing") return t("{n} documents are being indexed", { n: run.pending });
  if (run.stage === "pruning") return t("checking for deleted documents");
  return run.totalItems
    ? t("{done} of {total} documents", {
      done: run.documentsProcessed,
      total: run.totalItems,
      n: run.totalItems,
    })
    : t("{n} documents", { n: run.documentsProcessed });
}

/** @param {string} id @param {Signal<Run>} run @param {() => boolean} isChosen */
export function runRow(id, run, isChosen) {
  const trigger = () => {
    if (run.value.dryRun) return t("Dry run");
    return run.value.trigger === "manual" ? t("Manual") : t("Scheduled");
  };
  const progress = () => (run.value.completedAt ? null : bar(() => run.value.progress));
  const when = () => (run.value.completedAt ? relativeTime(() => run.value.completedAt) : `${run.value.progress}%`);
  return html`
    <div role="listitem">
      <a
        class="run ${() => (isChosen() ? "selected" : "")}"
        href="/connectors/${id}/runs/${run.peek().id}"
        aria-current=${() => (isChosen() ? "true" : null)}
      >
        ${dot(() => toneOf(run.value))}
        <b>${trigger}</b>
        <span class="cut grow dim">${() => describeOutcome(run.value)}</span>
        ${progress}
        <span class="dim right small-text">${when}</span>
      </a>
    </div>
  `;
}

/** @param {string} id @param {string} runId @param {Computed<Run | null>} run */
export function runDetails(id, runId, run) {
  const figure = (/** @type {string} */ label, /** @type {(run: Run) => number} */ valueOf) =>
    html`
      <div>
        <dt>${label}</dt>
        <dd>${() => (run.value ? formatNumber(valueOf(run.value)) : "–")}</dd>
      </div>
    `;
  return html`
    <section aria-label="${t("Run")}">
      <dl class="figures small">
        ${figure(t("Read"), (run) => run.documentsProcessed)}
        ${figure(t("Changed"), (run) => run.documentsIngested)}
        ${figure(t("Unchanged"), (run) => run.documentsUnchanged)}
        ${figure(t("Removed"), (run) => run.documentsPruned)}
        ${figure(t("Errors"), (run) => run.itemErrors)}
      </dl>
      ${() => runDuration(run.value)}
      ${runLog(runId, run)}
      ${() => (run.value?.itemErrors ? failures(id) : null)}
    </section>
  `;
}

/** @param {Run | null} run */
function runDuration(run) {
  if (!run?.completedAt) return null;
  const time = formatDuration((Date.parse(run.completedAt) - Date.parse(run.startedAt)) / 1000);
  return html`<p class="pad-x dim small-text">${t("Took {time}", { time })}</p>`;
}

/** @param {string} runId @param {Computed<Run | null>} run The log; new lines are fetched from the last one on. */
function runLog(runId, run) {
  const lines = signal(/** @type {LogLine[]} */ ([]));
  const loadMore = async () => {
    for (;;) {
      const page = await api.get(`/connector-runs/${runId}/logs`, { cursor: lines.peek().at(-1)?.id, limit: 500 });
      lines.value = [...lines.peek(), ...page.items].slice(-2000);
      if (!page.nextCursor) return true;
    }
  };
  const tail = resource(loadMore, { every: () => (run.peek()?.completedAt ? null : 700) });
  effect(() => run.value?.completedAt, () => void tail.refresh()); // fetch its last lines
  /** @type {HTMLElement | undefined} */ let log;
  effect(() => lines.value, () => {
    const isAtEnd = log && log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    if (isAtEnd) requestAnimationFrame(() => log?.scrollTo(0, log.scrollHeight));
  });
  const setLog = (/** @type {HTMLElement} */ element) => {
    log = element;
  };
  const rows = each(() => lines.value, (line) => line.id, (line) => logLine(line.peek()));
  const noLines = () => (lines.value.length ? null : html`<div class="dim">${t("No log lines yet.")}</div>`);
  // spaces are shown in a log: nothing between its tags but the lines
  return html`<div class="log" role="log" tabindex="0" aria-label="${t("Log")}" ref=${setLog}>${rows}${noLines}</div>`;
}

/** @param {LogLine} line */
const logLine = (line) =>
  html`<div class="${line.level}"><time datetime="${line.at}">${formatTime(line.at)}</time>  ${
    translateLine(line.message)
  }</div>`;

/** @param {string} id */
function failures(id) {
  /** @type {Resource<Failure[]>} */
  const failed = resource(() => fetchAll(`/connectors/${id}/failures`, {}, 200));
  const rows = each(() => failed.value.value ?? [], (failure) => failure.sourceId, failureRow);
  return html`
    <div class="failures">
      ${() => (failed.value.value?.length ? html`<h3>${t("Failed documents")}</h3>` : null)}
      <ul>${rows}</ul>
    </div>
  `;
}

/** @param {Signal<Failure>} failure */
const failureRow = (failure) =>
  html`
    <li>
      <b class="cut">${failure.peek().sourceId}</b>
      <p class="error">${problemMessage(failure.peek().error)}</p>
    </li>
  `;
