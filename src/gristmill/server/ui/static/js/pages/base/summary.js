// @ts-check
/** The figures of a base, its overall progress, and banners about what needs a decision. */

import { api } from "../../api.js";
import { countOf, leafCount, refreshBases } from "../../bases.js";
import { effect, html, signal } from "../../core.js";
import { formatDuration, formatNumber, problemMessage, t } from "../../i18n.js";
import { live } from "../../live.js";
import { button } from "../../components/button.js";
import { icon } from "../../components/icon.js";
import { stackedBar } from "../../components/status.js";
import { showError, toast } from "../../components/toast.js";
import { STATUSES } from "./toolbar.js";
import { pendingIn } from "./upload.js";

/** @import { ApiError } from "../../api.js" */
/** @import { Base } from "../../bases.js" */
/** @import { Computed, Signal } from "../../core.js" */

/** @import { Tone } from "../../components/status.js" */
/** @import { BaseRole } from "./role.js" */
/** @typedef {Computed<Base | null>} LiveBase */
const QUEUE_INTERVAL = 2000; // milliseconds between two fetches of the queue
const MIN_ITEMS_FOR_ETA = 20; // a remaining time is only shown from this many items on

/**
 * The base's queue, null while it is unknown; and whether the caller may change the base: an editor may not where some
 * of its items are hidden from them.
 * @typedef {{value: Signal<any>, access: Signal<"unknown" | "allowed" | "refused">, refusal: Signal<string>}} Queue
 */

/** @param {LiveBase} base Files that are still uploading count as items, so that the percentage does not fall. */
function overallProgress(base) {
  const current = base.value;
  if (!current) return 0;
  const [arrived, uploading] = [leafCount(current), pendingIn(current.id)];
  return arrived + uploading ? (current.progress * arrived) / (arrived + uploading) : current.progress;
}

/** @param {Queue} queue */
function describePace(queue) {
  const { etaSeconds, ratePerMinute, queueSize, processingCount } = queue.value.value ?? {};
  if (!etaSeconds || queueSize + processingCount < MIN_ITEMS_FOR_ETA) return "";
  return ` · ${t("{rate} per minute, about {time} left", { rate: ratePerMinute, time: formatDuration(etaSeconds) })}`;
}

/** @param {LiveBase} base @param {Queue} queue */
export function summary(base, queue) {
  const count = (/** @type {string[]} */ statuses) => (base.value ? countOf(base.value.leafCounts, statuses) : 0);
  const total = () => (base.value ? leafCount(base.value) : 0);
  const figure = (/** @type {string} */ label, /** @type {() => number} */ value) =>
    html`
      <div>
        <dt>${label}</dt>
        <dd>${() => (base.value ? formatNumber(value()) : "–")}</dd>
      </div>
    `;
  const uploading = () => pendingIn(base.value?.id ?? "");
  const percent = () => {
    if (!total() && !uploading()) return "–";
    return `${formatNumber(Number(overallProgress(base).toFixed(1)))}%`;
  };
  return html`
    <div class="base-summary">
      <dl class="figures">
        ${figure(t("Items"), total)}
        ${figure(t("Chunks"), () => base.value?.chunkCount ?? 0)}
        ${figure(t("Processing"), () => count(STATUSES.processing))}
        ${figure(t("Queued"), () => count(STATUSES.queued))}
        ${figure(t("Failed"), () => count(STATUSES.failed))}
      </dl>
      <div class="overall">
        <div>
          <span class="dim small-text">${t("Overall progress")}${() => describePace(queue)}</span>
          <b>${percent}</b>
        </div>
        ${stackedBar(t("Overall progress"), () => barParts(count, uploading()))}
      </div>
    </div>
  `;
}

/**
 * @param {(statuses: string[]) => number} count @param {number} uploading files
 * @returns {{tone: Tone, share: number, label: string}[]}
 */
function barParts(count, uploading) {
  const [ok, running, failed] = [count(["completed"]), count(STATUSES.processing), count(STATUSES.failed)];
  const queued = count(STATUSES.queued) + uploading;
  const isEmpty = ok + running + failed + queued === 0;
  return [
    { tone: "ok", share: ok, label: t("{n} indexed", { n: ok }) },
    { tone: "running", share: running, label: t("{n} in progress", { n: running }) },
    { tone: "failed", share: failed, label: t("{n} failed", { n: failed }) },
    { tone: "queued", share: isEmpty ? 1 : queued, label: t("{n} queued", { n: queued }) },
  ];
}

/**
 * The base's queue, fetched again while something changes; not for readers of the base.
 * @param {string} id @param {Computed<BaseRole | null>} role @returns {Queue}
 */
export function watchQueue(id, role) {
  /** @type {Queue} */
  const queue = { value: signal(null), access: signal("unknown"), refusal: signal("") };
  let isScheduled = false;
  const load = async () => {
    isScheduled = false;
    try {
      queue.value.value = await api.get(`/knowledge-bases/${id}/queue`);
      queue.access.value = "allowed";
    } catch (error) {
      queue.value.value = null;
      if (/** @type {ApiError} */ (error).status !== 403) return;
      queue.access.value = "refused";
      queue.refusal.value = /** @type {ApiError} */ (error).message;
    }
  };
  effect(
    () => role.value === "editor" || role.value === "owner",
    (isEditor) => {
      if (!isEditor) return;
      load();
      return live.on({ base: id }, () => {
        if (!isScheduled) setTimeout(load, QUEUE_INTERVAL);
        isScheduled = true;
      });
    },
  );
  return queue;
}

/**
 * @param {string} id @param {LiveBase} base
 * @param {Queue} queue What needs a decision: interrupted work, or a failed base.
 */
export function banners(id, base, queue) {
  /** @param {"recover" | "dismiss"} action */
  const resolveOrphans = async (action) => {
    const previous = queue.value.peek();
    queue.value.value = { ...previous, orphanItemIds: [] };
    try {
      const result = await api.post(`/knowledge-bases/${id}/queue/${action}`);
      toast(
        action === "recover"
          ? t("Recovered {n} items", { n: result.recovered })
          : t("Dismissed {n} items", { n: result.dismissed }),
      );
      refreshBases(id);
    } catch (error) {
      queue.value.value = previous;
      showError(error);
    }
  };
  const failure = () => {
    if (base.value?.status !== "failed") return null;
    const message = problemMessage(base.value.error);
    return html`
      <div class="banner bad">
        ${icon("warn")}
        <p><b>${t("This base has failed.")}</b> ${message}</p>
      </div>
    `;
  };
  const orphans = () => {
    const orphanCount = queue.value.value?.orphanItemIds.length ?? 0;
    if (!orphanCount) return null;
    const explanation = t("were left by a worker that stopped. Recover them to continue from where it stopped.");
    return html`
      <div class="banner">
        ${icon("warn")}
        <p><b>${t("{n} unfinished items", { n: orphanCount })}</b> ${explanation}</p>
        ${button(t("Recover"), () => resolveOrphans("recover"))}
        ${button(t("Dismiss"), () => resolveOrphans("dismiss"), { kind: "quiet" })}
      </div>
    `;
  };
  const refusal = () => {
    if (queue.access.value !== "refused") return null;
    return html`<div class="banner">${icon("key")}<p>${queue.refusal.value}</p></div>`;
  };
  return html`<div class="banners" aria-live="polite">${failure}${refusal}${orphans}</div>`;
}
