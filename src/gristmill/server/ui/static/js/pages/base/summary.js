// @ts-check
/** A base in numbers, how far it is in all, and what waits for a hand. */

import { api } from "../../api.js";
import { renewBases, sum, total } from "../../bases.js";
import { effect, html, signal } from "../../core.js";
import { duration, number, t } from "../../i18n.js";
import { live } from "../../live.js";
import { button } from "../../parts/button.js";
import { icon } from "../../parts/icon.js";
import { stack } from "../../parts/status.js";
import { refused, toast } from "../../parts/toast.js";
import { pending } from "./upload.js";

/** @typedef {import("../../core.js").Computed<import("../../bases.js").Base | null>} LiveBase */
const MOVING = ["reading", "embedding"];
const QUEUED = ["preparing", "processing"];
const REST = 2000; // between two looks at the queue
const WORTH = 20; // items to do, from which on somebody wants to know how long it takes

/** @typedef {import("../../core.js").Signal<any>} Queue */

/** @param {LiveBase} base How far all of it is; files that are still on their way count, so that it does not fall back. */
function percent(base) {
  const now = base.value;
  if (!now) return 0;
  const [here, coming] = [total(now), pending.value];
  return here + coming ? (now.progress * here) / (here + coming) : now.progress;
}

/** @param {Queue} queue */
function pace(queue) {
  const { etaSeconds, ratePerMinute, queueSize, processingCount } = queue.value ?? {};
  if (!etaSeconds || queueSize + processingCount < WORTH) return "";
  return ` · ${t("{rate} a minute, about {time} left", { rate: ratePerMinute, time: duration(etaSeconds) })}`;
}

/** @param {LiveBase} base @param {Queue} queue */
export function summary(base, queue) {
  const count = (/** @type {string[]} */ statuses) => (base.value ? sum(base.value.leafCounts, statuses) : 0);
  const all = () => (base.value ? total(base.value) : 0);
  const figure = (/** @type {string} */ label, /** @type {() => number} */ value) => html`<div><dt>${label}</dt><dd>${() => (base.value ? number(value()) : "–")}</dd></div>`;
  return html`<div class="base-summary"><dl class="figures">${figure(t("Items"), all)}${figure(t("Chunks"), () => base.value?.chunkCount ?? 0)}${figure(t("Processing"), () =>
    count([...MOVING, ...QUEUED]),
  )}${figure(t("Failed"), () => count(["failed"]))}</dl>
    <div class="overall"><div><span class="dim small-text">${t("Overall progress")}${() => pace(queue)}</span><b>${() => (all() || pending.value ? `${number(Number(percent(base).toFixed(1)))}%` : "–")}</b></div>
    ${stack(t("Overall progress"), () => {
      const [ok, moving, failed, queued] = [count(["completed"]), count(MOVING), count(["failed"]), count(QUEUED) + pending.value];
      const rest = ok + moving + failed + queued;
      return [
        { tone: "ok", share: ok, label: t("{n} indexed", { n: ok }) },
        { tone: "running", share: moving, label: t("{n} in work", { n: moving }) },
        { tone: "failed", share: failed, label: t("{n} failed", { n: failed }) },
        { tone: "queued", share: queued || (rest ? 0 : 1), label: t("{n} queued", { n: queued }) },
      ];
    })}</div></div>`;
}

/** @param {string} id The base's queue, looked at again while something happens; null for who may not see it. */
export function queueOf(id) {
  const queue = signal(/** @type {any} */ (null));
  let due = false;
  const look = async () => {
    due = false;
    try {
      queue.value = await api.get(`/knowledge-bases/${id}/queue`);
    } catch {
      queue.value = null;
    }
  };
  effect(() => {
    look();
    return live.on({ base: id }, () => {
      if (!due) setTimeout(look, REST);
      due = true;
    });
  });
  return queue;
}

/** @param {string} id @param {LiveBase} base @param {Queue} queue What a person has to decide: interrupted work, a base that failed. */
export function banners(id, base, queue) {
  /** @param {"recover" | "dismiss"} what */
  const settle = async (what) => {
    const was = queue.peek();
    queue.value = { ...was, orphanItemIds: [] };
    try {
      const done = await api.post(`/knowledge-bases/${id}/queue/${what}`);
      toast(what === "recover" ? t("Recovered {n} items", { n: done.recovered }) : t("Dismissed {n} items", { n: done.dismissed }));
      renewBases(id);
    } catch (error) {
      queue.value = was;
      refused(error);
    }
  };
  return html`<div class="banners" aria-live="polite">${() =>
    base.value?.status === "failed"
      ? html`<div class="banner bad">${icon("warn")}<p><b>${t("This base can't be worked on.")}</b> ${base.value.error?.message ?? ""}</p></div>`
      : null}${() => {
    const left = queue.value?.orphanItemIds.length ?? 0;
    return left
      ? html`<div class="banner">${icon("warn")}<p><b>${t("{n} unfinished items", { n: left })}</b> ${t("were left by a worker that stopped. Recovering goes on from what is done.")}</p>${button(
          t("Recover"),
          () => settle("recover"),
        )}${button(t("Dismiss"), () => settle("dismiss"), { kind: "quiet" })}</div>`
      : null;
  }}</div>`;
}
