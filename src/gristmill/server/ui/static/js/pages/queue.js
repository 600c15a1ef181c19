// @ts-check
/** The queue: throughput, lanes, and dead jobs with their errors. */

import "../admin-locale.js";
import { api, fetchAll } from "../api.js";
import { JOB_KINDS } from "../job-kinds.js";
import { each, html } from "../core.js";
import { resource } from "../resource.js";
import { formatDuration, formatNumber, problemMessage, t } from "../i18n.js";
import { button, iconButton } from "../components/button.js";
import { confirm } from "../components/dialog.js";
import { icon } from "../components/icon.js";
import { sparkline } from "../components/sparkline.js";
import { dot, emptyState, errorBanner, relativeTime, setPageTitle } from "../components/status.js";
import { segments } from "../components/tabs.js";
import { toast } from "../components/toast.js";
import { setQuery } from "../router.js";

/** @import { Tone } from "../components/status.js" */
/** @import { Signal } from "../core.js" */
/** @import { Resource } from "../resource.js" */
/** @import { LiveRoute } from "../router.js" */

/**
 * @typedef {{lane: string, kind: string, id: string | null, name: string, running: number, slots: number,
 *   waiting: number, dead: number, paused: boolean, working: string | null, ratePerMinute: number,
 *   etaSeconds: number | null, done: number[]}} Lane
 */
/**
 * @typedef {{running: number, waiting: number, dead: number, stepSeconds: number, done: number[], lanes: Lane[]}} Queue
 */
/**
 * @typedef {{id: string, kind: string, lane: string, subject: string | null, title: string | null, attempt: number,
 *   errors: {at: string, code: string, message: string}[], createdAt: string}} Job
 */

const SPANS = { 15: "15m", 60: "1h", 1440: "24h" };
const CONFIRMED = 10; // so many dead jobs are retried without a question
const MAX_SQUARES = 6; // a lane with more slots shows their share

/** @param {LiveRoute} route */
export function page(route) {
  setPageTitle(() => t("Queue"));
  const minutes = () => route.value.query.get("span") ?? "60";
  /** @type {Resource<Queue>} */
  const queue = resource(() => api.get("/queue", { minutes: minutes() }), {
    live: {},
    every: () => (minutes() === "1440" ? 15_000 : 2000),
    rest: 700,
  });
  /** @type {Resource<Job[]>} */
  const dead = resource(() => fetchAll("/jobs", { state: "dead" }, 500), { live: {}, every: () => 5000, rest: 1000 });

  const spans = Object.entries(SPANS).map(([id, label]) => ({ id, label: t(label) }));
  const chooseSpan = (/** @type {string} */ id) => {
    setQuery({ span: id === "60" ? null : id });
    queue.refresh();
  };
  const lanes = each(() => queue.value.value?.lanes ?? [], (lane) => lane.lane, (lane) => laneRow(lane, queue));
  return html`
    <div class="page">
      <div class="top">
        <h1>${t("Queue")}</h1>
        <div class="actions">${segments(t("Time range"), spans, minutes, chooseSpan)}</div>
      </div>
      <div class="scroll">
        ${() => errorBanner(queue.error.value)}
        ${summary(queue)}
        <div class="section"><h2>${t("Lanes")}</h2></div>
        <div class="rows lanes" role="list" aria-label="${t("Lanes")}">${lanes}</div>
        ${() => (queue.value.value?.lanes.length === 0 ? noLanes() : null)}
        ${deadJobs(dead, queue)}
      </div>
    </div>
  `;
}

const noLanes = () => emptyState("queue", t("No jobs yet"), t("Add content to a base and its lane appears here."));

/** @param {Queue | null} queue Jobs per minute, of the last minute. */
function throughput(queue) {
  if (!queue) return 0;
  const lastMinute = queue.done.slice(-Math.max(1, Math.round(60 / queue.stepSeconds)));
  return Math.round((60 * lastMinute.reduce((sum, n) => sum + n, 0)) / (lastMinute.length * queue.stepSeconds));
}

/** @param {Resource<Queue>} queue */
function summary(queue) {
  const figure = (/** @type {string} */ label, /** @type {"running" | "waiting" | "dead"} */ name) =>
    html`
      <div>
        <dt>${label}</dt>
        <dd>${() => (queue.value.value ? formatNumber(queue.value.value[name]) : "–")}</dd>
      </div>
    `;
  const rate = () => throughput(queue.value.value);
  const graph = () => {
    const label = t("Currently {n} jobs per minute", { n: rate() });
    return sparkline(queue.value.value?.done ?? [0, 0], { width: 840, height: 44, label });
  };
  return html`
    <div class="overview">
      <dl class="figures">
        ${figure(t("Running"), "running")}
        ${figure(t("Waiting"), "waiting")}
        ${figure(t("Dead"), "dead")}
      </dl>
      <div class="throughput">
        <div class="line">
          <span class="dim small-text">${t("Throughput, jobs per minute")}</span>
          <b>${() => formatNumber(rate())}</b>
        </div>
        ${graph}
      </div>
    </div>
  `;
}

/** @param {Lane} lane @returns {Tone} */
function toneOf(lane) {
  if (lane.paused) return "off";
  if (lane.running) return "running";
  return lane.waiting ? "queued" : "ok";
}

/** @param {Lane} lane */
function remainingTime(lane) {
  if (lane.paused) return t("paused");
  if (!lane.waiting && !lane.running) return t("idle");
  return lane.etaSeconds === null ? "–" : formatDuration(lane.etaSeconds);
}

/** @param {Lane} lane */
function laneUrl(lane) {
  if (lane.kind === "other") return null; // work of the server itself
  if (lane.kind === "base") return `/b/${lane.id}`;
  return lane.kind === "connector" ? `/connectors/${lane.id}` : "/events/webhooks";
}

/** @param {Lane} lane */
function laneName(lane) {
  if (lane.kind === "webhook") return t("Webhook");
  if (lane.lane === "refresh") return t("Checks of sources for changes");
  return lane.lane === "reconcile" ? t("Reconciler") : lane.name;
}

/** @param {Signal<Lane>} lane @param {Resource<Queue>} queue */
function laneRow(lane, queue) {
  const name = () => laneName(lane.value);
  const slots = () => {
    const { running, slots } = lane.value;
    return t("{running} of {slots} slots", { running: formatNumber(running), slots, n: slots });
  };
  const graph = () => sparkline(lane.value.done, { width: 120, height: 24, label: t("Jobs done") });
  return html`
    <div class="lane" role="listitem">
      ${dot(() => toneOf(lane.value))}
      <a class="cut name" href="${() => laneUrl(lane.value)}">
        ${name}<span class="dim small-text">${() => lane.value.working ?? ""}</span>
      </a>
      <span class="slots" role="img" aria-label="${slots}">${() => slotSquares(lane.value)}</span>
      <span class="right">${() => t("{n} waiting", { n: lane.value.waiting })}</span>
      <span class="hide-phone">${graph}</span>
      <span class="right dim hide-phone">${() => remainingTime(lane.value)}</span>
      <span class="right act">${lane.peek().kind === "base" ? pauseButton(lane, queue) : null}</span>
    </div>
  `;
}

/** @param {Lane} lane */
function slotSquares(lane) {
  const squares = Math.min(lane.slots, MAX_SQUARES);
  const filled = lane.slots > MAX_SQUARES ? Math.ceil((lane.running / lane.slots) * squares) : lane.running;
  return Array.from({ length: squares }, (_, i) => html`<i class="${i < filled ? "on" : ""}"></i>`);
}

/**
 * One element for as long as the lane is listed: the focus stays at it when the queue changes.
 * @param {Signal<Lane>} lane @param {Resource<Queue>} queue
 */
function pauseButton(lane, queue) {
  const label = () => (lane.value.paused ? t("Resume") : t("Pause"));
  const toggle = () => {
    const { paused, id } = lane.peek();
    const current = /** @type {Queue} */ (queue.value.peek());
    const lanes = current.lanes.map((other) => (other.id === id ? { ...other, paused: !paused } : other));
    queue.update({ ...current, lanes }, () => api.post(`/knowledge-bases/${id}/queue/${paused ? "resume" : "pause"}`));
  };
  return html`
    <button type="button" class="button quiet small" title="${() => `${label()}: ${lane.value.name}`}" @click=${toggle}>
      <span>${label}</span>
    </button>
  `;
}

/** @param {Resource<Job[]>} dead @param {Resource<Queue>} queue */
function deadJobs(dead, queue) {
  const retryAll = async () => {
    const n = queue.value.peek()?.dead ?? dead.value.peek()?.length ?? 0; // also those that are not listed
    const text = t("They are queued again, with all their attempts. What they embed may cost money.");
    const question = {
      title: t("Retry {n} jobs?", { n }),
      text,
      action: t("Retry all"),
      kind: /** @type {const} */ ("primary"),
    };
    if (n >= CONFIRMED && !(await confirm(question))) return;
    await dead.update([], async () => {
      const { retried } = await api.post("/jobs/retry");
      toast(t("{n} jobs are queued again", { n: retried }));
    });
  };
  const retryButton = () => button(t("Retry all"), retryAll, { icon: "retry", small: true });
  const rows = each(() => dead.value.value ?? [], (job) => job.id, (job) => deadRow(job, dead, queue));
  return html`
    <div class="section">
      <h2>${t("Dead jobs")}</h2>
      ${() => (dead.value.value?.length ? retryButton() : null)}
    </div>
    <div class="rows dead" role="list" aria-label="${t("Dead jobs")}">${rows}</div>
    ${() => (dead.value.value?.length === 0 ? noDeadJobs() : null)}
  `;
}

const noDeadJobs = () =>
  html`
    <p class="empty-note">
      ${icon("check")}${t("No dead jobs. Jobs that fail permanently are listed here with their error.")}
    </p>
  `;

/** @param {Signal<Job>} job @param {Resource<Job[]>} dead @param {Resource<Queue>} queue */
function deadRow(job, dead, queue) {
  const { id, kind, subject, lane } = job.peek();
  const error = () => job.value.errors.at(-1);
  const otherJobs = () => (dead.value.peek() ?? []).filter((other) => other.id !== id);
  const retry = () => dead.update(otherJobs(), () => api.post(`/jobs/${id}/retry`));
  const dismiss = () => dead.update(otherJobs(), () => api.delete(`/jobs/${id}`));
  const label = t(JOB_KINDS[kind] ?? kind);
  const name = job.peek().title;
  const isItem = subject && name !== null;
  const laneName = () => queue.value.value?.lanes.find((candidate) => candidate.lane === lane)?.name;
  const title = html`<span class="cut">${() => job.value.title ?? laneName() ?? label}</span>`;
  return html`
    <div class="dead-job" role="listitem">
      ${icon("file")}
      <div class="grow">
        <div class="cut">
          ${isItem ? html`<a href="/b/${lane}/i/${subject}">${title}</a>` : title}
          <span class="dim small-text">${() => (isItem ? laneName() ?? "" : "")}</span>
        </div>
        <p class="error">${() => problemMessage(error()) || t("No error message was recorded.")}</p>
      </div>
      <span class="dim right hide-phone">${() => `${label} · ${t("{n} attempts", { n: job.value.attempt })}`}</span>
      <span class="dim right hide-phone">${relativeTime(() => error()?.at ?? job.value.createdAt)}</span>
      ${button(t("Retry"), retry, { small: true, title: `${t("Retry")}: ${name ?? label}` })}
      ${iconButton(t("Dismiss {name}", { name: name ?? label }), "close", dismiss)}
    </div>
  `;
}
