// @ts-check
/** The queue: how much was done, who waits for what, and what is dead until somebody retries it. */

import "../machine-words.js";
import { all, api } from "../api.js";
import { each, html } from "../core.js";
import { fetched } from "../fetched.js";
import { duration, number, t } from "../i18n.js";
import { button, iconButton } from "../parts/button.js";
import { icon } from "../parts/icon.js";
import { spark } from "../parts/spark.js";
import { dot, empty, since, titled } from "../parts/status.js";
import { segments } from "../parts/tabs.js";
import { refused, toast } from "../parts/toast.js";
import { setQuery } from "../router.js";

/** @typedef {{lane: string, kind: string, id: string | null, name: string, running: number, slots: number, waiting: number,
 *   dead: number, paused: boolean, working: string | null, ratePerMinute: number, etaSeconds: number | null, done: number[]}} Lane */
/** @typedef {{running: number, waiting: number, dead: number, stepSeconds: number, done: number[], lanes: Lane[]}} Queue */
/** @typedef {{id: string, kind: string, lane: string, subject: string | null, title: string | null, attempt: number,
 *   errors: {at: string, code: string, message: string}[], createdAt: string}} Job */

const SPANS = { 15: "15m", 60: "1h", 1440: "24h" };
const MOST_SLOTS = 6; // squares; more are a number

/** @param {import("../router.js").LiveRoute} route */
export function page(route) {
  titled(() => t("Queue"));
  const minutes = () => route.value.query.get("span") ?? "60";
  /** @type {import("../fetched.js").Fetched<Queue>} */
  const queue = fetched(() => api.get("/queue", { minutes: minutes() }), {
    live: {},
    every: () => (minutes() === "1440" ? 15_000 : 2000),
    rest: 700,
  });
  /** @type {import("../fetched.js").Fetched<Job[]>} */
  const dead = fetched(() => all("/jobs", { state: "dead" }, 500), { live: {}, every: () => 5000, rest: 1000 });

  return html`<div class="page"><div class="top"><h1>${t("Queue")}</h1><div class="actions">${segments(
    t("Time shown"),
    Object.entries(SPANS).map(([id, label]) => ({ id, label })),
    minutes,
    (id) => {
      setQuery({ span: id === "60" ? null : id });
      queue.renew();
    },
  )}</div></div>
  <div class="scroll">${() => problem(queue.error.value)}${summary(queue)}
    <div class="section"><h2>${t("Lanes")}</h2></div>
    <div class="rows lanes" role="list" aria-label="${t("Lanes")}">${each(
      () => queue.value.value?.lanes ?? [],
      (lane) => lane.lane,
      (lane) => laneRow(lane, queue),
    )}</div>
    ${() => (queue.value.value?.lanes.length === 0 ? empty("queue", t("Nothing was ever queued"), t("Add content to a base, and its lane shows here.")) : null)}
    ${deadJobs(dead, queue)}
  </div></div>`;
}

/** @param {Error | null} error */
export const problem = (error) =>
  error && /** @type {any} */ (error).code !== "offline" ? html`<div class="pad"><div class="banner bad" role="alert">${icon("warn")}<p>${error.message}</p></div></div>` : null;

/** @param {import("../fetched.js").Fetched<Queue>} queue */
function summary(queue) {
  const figure = (/** @type {string} */ label, /** @type {(q: Queue) => number} */ of) =>
    html`<div><dt>${label}</dt><dd>${() => (queue.value.value ? number(of(queue.value.value)) : "–")}</dd></div>`;
  const rate = () => {
    const found = queue.value.value;
    if (!found) return 0;
    const last = found.done.slice(-Math.max(1, Math.round(60 / found.stepSeconds)));
    return Math.round((60 * last.reduce((sum, n) => sum + n, 0)) / (last.length * found.stepSeconds));
  };
  return html`<div class="overview"><dl class="figures">${figure(t("In flight"), (q) => q.running)}${figure(t("Waiting"), (q) => q.waiting)}${figure(t("Dead"), (q) => q.dead)}</dl>
    <div class="through"><div class="line"><span class="dim small-text">${t("Throughput, jobs a minute")}</span><b>${() => number(rate())}</b></div>${() =>
      spark(queue.value.value?.done ?? [0, 0], { width: 840, height: 44, label: t("{n} jobs a minute at the end", { n: rate() }) })}</div></div>`;
}

/** @param {Lane} lane @returns {import("../parts/status.js").Tone} */
function toneOf(lane) {
  if (lane.paused) return "off";
  if (lane.running) return "running";
  return lane.waiting ? "queued" : "ok";
}

/** @param {Lane} lane */
function when(lane) {
  if (lane.paused) return t("paused");
  if (!lane.waiting && !lane.running) return t("idle");
  return lane.etaSeconds === null ? "–" : duration(lane.etaSeconds);
}

/** @param {Lane} lane */
function address(lane) {
  return lane.kind === "base" ? `/b/${lane.id}` : lane.kind === "connector" ? `/connectors/${lane.id}` : "/events/webhooks";
}

/** @param {import("../core.js").Signal<Lane>} lane @param {import("../fetched.js").Fetched<Queue>} queue */
function laneRow(lane, queue) {
  const name = () => (lane.value.kind === "webhook" ? t("Webhook") : lane.value.name);
  return html`<div class="lane" role="listitem">${dot(() => toneOf(lane.value))}
    <a class="cut name" href="${() => address(lane.value)}">${name}<span class="dim small-text">${() => lane.value.working ?? ""}</span></a>
    <span class="slots" role="img" aria-label="${() => t("{n} of {of} slots", { n: lane.value.running, of: lane.value.slots })}">${() => slots(lane.value)}</span>
    <span class="right">${() => t("{n} waiting", { n: lane.value.waiting })}</span>
    <span class="hide-phone">${() => spark(lane.value.done, { width: 120, height: 24, label: t("Jobs done") })}</span>
    <span class="right dim hide-phone">${() => when(lane.value)}</span>
    <span class="right act">${() => (lane.value.kind === "base" ? pauseButton(lane, queue) : null)}</span></div>`;
}

/** @param {Lane} lane */
function slots(lane) {
  const shown = Math.min(lane.slots, MOST_SLOTS);
  const full = lane.slots > MOST_SLOTS ? Math.ceil((lane.running / lane.slots) * shown) : lane.running;
  return Array.from({ length: shown }, (_, i) => html`<i class="${i < full ? "on" : ""}"></i>`);
}

/** @param {import("../core.js").Signal<Lane>} lane @param {import("../fetched.js").Fetched<Queue>} queue */
function pauseButton(lane, queue) {
  const { paused, id, name } = lane.value;
  const act = () => {
    const now = /** @type {Queue} */ (queue.value.peek());
    const lanes = now.lanes.map((one) => (one.id === id ? { ...one, paused: !paused } : one));
    queue.change({ ...now, lanes }, () => api.post(`/knowledge-bases/${id}/queue/${paused ? "resume" : "pause"}`));
  };
  const label = paused ? t("Resume") : t("Pause");
  return button(label, act, { kind: "quiet", small: true, title: `${label}: ${name}` });
}

/** @type {Record<string, string>} */
const KINDS = {
  index_document: "index",
  prepare_root: "list",
  delete_subtree: "delete",
  delete_base: "delete",
  reindex_subtree: "reindex",
  sync_connector: "sync",
  sync_access: "permissions",
  deliver_events: "deliver",
  analyse_assets: "images",
  check_file_processing_result: "convert",
};

/** @param {import("../fetched.js").Fetched<Job[]>} dead @param {import("../fetched.js").Fetched<Queue>} queue */
function deadJobs(dead, queue) {
  const retryAll = async () => {
    await dead.change([], async () => {
      const { retried } = await api.post("/jobs/retry");
      toast(t("{n} jobs are queued again", { n: retried }));
    });
  };
  return html`<div class="section"><h2>${t("Dead jobs")}</h2>${() =>
    dead.value.value?.length ? button(t("Retry all"), retryAll, { icon: "retry", small: true }) : null}</div>
    <div class="rows dead" role="list" aria-label="${t("Dead jobs")}">${each(
      () => dead.value.value ?? [],
      (job) => job.id,
      (job) => deadRow(job, dead, queue),
    )}</div>${() => (dead.value.value?.length === 0 ? html`<p class="nothing">${icon("check")}${t("No job is dead. What fails for good is listed here, with its error.")}</p>` : null)}`;
}

/**
 * @param {import("../core.js").Signal<Job>} job @param {import("../fetched.js").Fetched<Job[]>} dead
 * @param {import("../fetched.js").Fetched<Queue>} queue
 */
function deadRow(job, dead, queue) {
  const { id, kind, subject, lane } = job.peek();
  const error = () => job.value.errors.at(-1);
  const without = () => (dead.value.peek() ?? []).filter((one) => one.id !== id);
  const retry = () => dead.change(without(), () => api.post(`/jobs/${id}/retry`));
  const remove = () => {
    if (subject) dead.change(without(), () => api.delete(`/knowledge-items/${subject}`)).catch(refused);
  };
  const label = t(KINDS[kind] ?? kind);
  const isItem = subject && job.peek().title !== null;
  const home = () => queue.value.value?.lanes.find((one) => one.lane === lane);
  const title = html`<span class="cut">${() => job.value.title ?? home()?.name ?? label}</span>`;
  return html`<div class="deadjob" role="listitem">${icon("file")}
    <div class="grow"><div class="cut">${isItem ? html`<a href="/b/${lane}/i/${subject}">${title}</a>` : title} <span class="dim small-text">${() => (isItem ? (home()?.name ?? "") : "")}</span></div>
      <p class="error">${() => error()?.message ?? t("It ended without a word.")}</p></div>
    <span class="dim right hide-phone">${() => `${label} · ${t("{n} attempts", { n: job.value.attempt })}`}</span>
    <span class="dim right hide-phone">${since(() => error()?.at ?? job.value.createdAt)}</span>
    ${button(t("Retry"), retry, { small: true, title: `${t("Retry")}: ${job.peek().title ?? label}` })}
    ${isItem ? iconButton(t("Delete {name}", { name: job.peek().title }), "trash", remove) : html`<span class="icon-button"></span>`}</div>`;
}

