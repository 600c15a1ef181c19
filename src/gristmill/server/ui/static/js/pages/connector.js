// @ts-check
/** One connector, beside the list: its settings, its runs, and of the chosen run figures, errors and the log as it grows. */

import { all, api } from "../api.js";
import { baseName } from "../names.js";
import { computed, each, effect, html, signal } from "../core.js";
import { inWords } from "../cron.js";
import { fetched } from "../fetched.js";
import { duration, number, t, timeOf } from "../i18n.js";
import { button } from "../parts/button.js";
import { dialog } from "../parts/dialog.js";
import { icon } from "../parts/icon.js";
import { kebab } from "../parts/menu.js";
import { bar, dot, since } from "../parts/status.js";
import { refused, toast } from "../parts/toast.js";
import { go } from "../router.js";
import { openConnectorForm, said, TYPES } from "./connector-form.js";
import { scopeOf, sync } from "./connectors.js";

/** @typedef {import("./connectors.js").Connector} Connector */
/** @typedef {{id: string, trigger: string, status: string, stage: string, dryRun: boolean, force: boolean, startedAt: string,
 *   completedAt: string | null, totalItems: number | null, documentsProcessed: number, documentsIngested: number,
 *   documentsUnchanged: number, documentsPruned: number, deletionsHeld: number, pending: number, itemErrors: number,
 *   progress: number, rateLimitedUntil: string | null, error: {code: string, message: string} | null,
 *   plan: Record<string, any> | null}} Run */
/** @typedef {{id: number, at: string, level: string, message: string}} Line */

/**
 * @param {string} id @param {import("../core.js").Computed<Connector | null>} one @param {import("./connectors.js").Connectors} list
 * @param {import("../router.js").LiveRoute} route
 */
export function connectorPane(id, one, list, route) {
  /** @type {import("../fetched.js").Fetched<Run[]>} */
  const runs = fetched(async () => (await api.get(`/connectors/${id}/runs`, { limit: 30 })).items, {
    every: () => (runs.value.peek()?.some((run) => !run.completedAt) ? 700 : 5000),
  });
  effect(
    () => `${route.value.params.run} ${one.value?.open ? "open" : one.value?.lastSyncAt}`,
    () => void runs.renew(),
  );
  const chosen = computed(() => route.value.params.run ?? runs.value.value?.[0]?.id ?? null);
  const run = computed(() => runs.value.value?.find((other) => other.id === chosen.value) ?? null);
  const isOpen = computed(() => Boolean(one.value?.open) || Boolean(runs.value.value?.some((other) => !other.completedAt)));
  const checked = signal(/** @type {any} */ (null));
  return html`<aside class="pane" aria-label="${() => one.value?.name ?? t("Connector")}"><header class="pane-top"><a class="icon-button hide-desk" href="/connectors" aria-label="${t("Back")}">${icon("back")}</a>
      <h2 class="cut grow">${() => one.value?.name ?? t("Connector")}</h2>${() => (isOpen.value ? button(t("Cancel"), () => cancel(id, runs, list), { small: true }) : button(t("Sync now"), () => one.peek() && sync(/** @type {Connector} */ (one.peek()), list).then(() => runs.renew()), { small: true }))}${kebab(t("More for this connector"), () => menu(one.peek(), list, checked))}</header>
    <div class="scroll">${() => (one.value ? facts(one.value) : null)}<div class="pad-x" role="status">${() => said(checked.value)}</div>
      ${() => (one.value?.lastSyncError ? html`<div class="pad"><div class="banner bad">${icon("warn")}<p>${one.value.lastSyncError.message}</p></div></div>` : null)}
      <h3 class="sr">${t("Runs")}</h3><div class="rows runs" role="list" aria-label="${t("Runs")}">${each(
        () => runs.value.value ?? [],
        (other) => other.id,
        (other) => runRow(id, other, () => chosen.value === other.value.id),
      )}</div>${() => (runs.value.value?.length === 0 ? html`<p class="nothing plain">${t("It has not run yet.")}</p>` : null)}
      ${() => (chosen.value ? runDetails(id, chosen.value, run) : null)}</div></aside>`;
}

/** @param {Connector} one */
function facts(one) {
  const named = one.knowledgeBaseIds.map((id) => html`<a class="chip" href="/b/${id}">${() => baseName(id) || id.slice(0, 8)}</a>`);
  return html`<dl class="about"><dt>${t("Tool")}</dt><dd>${TYPES[one.type] ?? one.type} · ${scopeOf(one)}</dd>
    <dt>${t("Feeds")}</dt><dd>${named.length ? named : t("No base yet")}</dd>
    <dt>${t("Schedule")}</dt><dd><code class="chip">${one.schedule}</code> ${inWords(one.schedule)}</dd>
    <dt>${t("Next run")}</dt><dd>${one.enabled ? since(() => one.nextSyncAt) : t("Paused")}</dd>
    <dt>${t("Permissions")}</dt><dd>${one.aclAsOf ? html`${t("asked")} ${since(() => one.aclAsOf)}` : t("not asked yet")}</dd>
    ${one.rateLimitedUntil && new Date(one.rateLimitedUntil) > new Date() ? html`<dt>${t("Waits")}</dt><dd>${t("The tool asks for time, until")} ${since(() => one.rateLimitedUntil)}</dd>` : null}</dl>`;
}

/** @param {string} id @param {import("../fetched.js").Fetched<Run[]>} runs @param {import("./connectors.js").Connectors} list */
async function cancel(id, runs, list) {
  const ahead = (runs.value.peek() ?? []).map((run) => (run.completedAt ? run : { ...run, status: "cancelled", completedAt: new Date().toISOString() }));
  await runs.change(ahead, () => api.post(`/connectors/${id}/cancel`));
  list.renew();
}

/** @param {Connector | null} one @param {import("./connectors.js").Connectors} list @param {import("../core.js").Signal<any>} checked */
function menu(one, list, checked) {
  if (!one) return [];
  const swap = (/** @type {Partial<Connector>} */ what) => (list.value.peek() ?? []).map((other) => (other.id === one.id ? { ...other, ...what } : other));
  const check = async () => {
    checked.value = "asking";
    try {
      checked.value = await api.post(`/connectors/${one.id}/check`);
    } catch (error) {
      checked.value = null;
      refused(error);
    }
  };
  return [
    { label: t("Edit"), icon: "gear", act: () => openConnectorForm(() => list.renew(), one).catch(refused) },
    { label: t("Check credentials"), icon: "key", act: check },
    { label: t("Dry run"), icon: "search", act: () => sync(one, list, { dryRun: true }), disabled: Boolean(one.open) },
    { label: t("Read everything anew"), icon: "retry", act: () => sync(one, list, { force: true }), disabled: Boolean(one.open) },
    one.enabled
      ? { label: t("Pause"), icon: "pause", act: () => list.change(swap({ enabled: false }), () => api.post(`/connectors/${one.id}/pause`)) }
      : { label: t("Resume"), icon: "play", act: () => list.change(swap({ enabled: true }), () => api.post(`/connectors/${one.id}/resume`)) },
    { label: t("Delete"), icon: "trash", danger: true, act: () => askDelete(one, list) },
  ];
}

/** @param {Connector} one @param {import("./connectors.js").Connectors} list */
function askDelete(one, list) {
  dialog(t("Delete {name}?", { name: one.name }), (close) => {
    const act = (/** @type {"purge" | "detach"} */ how) => async () => {
      close();
      go("/connectors");
      const without = (list.value.peek() ?? []).filter((other) => other.id !== one.id);
      if (await list.change(without, () => api.delete(`/connectors/${one.id}`, { query: { onDelete: how } }))) toast(t("{name} is deleted", { name: one.name }));
    };
    return html`<form @submit=${(/** @type {Event} */ event) => event.preventDefault()}><div class="dialog-body"><p>${t("Its credentials and runs are forgotten. What becomes of the documents that it brought?")}</p></div>
      <footer>${button(t("Cancel"), close, { kind: "quiet" })}${button(t("Keep them"), act("detach"))}${button(t("Delete them too"), act("purge"), { kind: "danger" })}</footer></form>`;
  });
}

/** @param {Run} run @returns {import("../parts/status.js").Tone} */
function tone(run) {
  if (!run.completedAt) return "running";
  return run.status === "success" ? "ok" : run.status === "failed" ? "failed" : run.status === "cancelled" ? "off" : "warn";
}

/** @param {Run} run What came of it, in one line. */
function outcome(run) {
  if (run.error) return run.error.message;
  if (!run.completedAt) {
    if (run.rateLimitedUntil) return t("waits for the tool");
    if (run.stage === "indexing") return t("{n} documents are being indexed", { n: run.pending });
    if (run.stage === "pruning") return t("looking for what is gone");
    return run.totalItems ? t("{done} of {total} documents", { done: run.documentsProcessed, total: run.totalItems }) : t("{n} documents", { n: run.documentsProcessed });
  }
  if (run.dryRun && run.plan) return t("would add {add}, change {change}, remove {prune}", run.plan);
  if (run.status === "cancelled") return t("cancelled");
  const told = [
    run.documentsIngested ? t("{n} changed", { n: run.documentsIngested }) : null,
    run.documentsPruned ? t("{n} removed", { n: run.documentsPruned }) : null,
    run.itemErrors ? t("{n} errors", { n: run.itemErrors }) : null,
    run.deletionsHeld ? t("{n} deletions held", { n: run.deletionsHeld }) : null,
  ].filter(Boolean);
  return told.length ? told.join(", ") : t("no changes");
}

/** @param {string} id @param {import("../core.js").Signal<Run>} run @param {() => boolean} isChosen */
function runRow(id, run, isChosen) {
  return html`<div role="listitem"><a class="run ${() => (isChosen() ? "here" : "")}" href="/connectors/${id}/runs/${run.peek().id}" aria-current=${() => (isChosen() ? "true" : null)}>${dot(() => tone(run.value))}
    <b>${() => (run.value.dryRun ? t("Dry run") : run.value.trigger === "manual" ? t("By hand") : t("By schedule"))}</b><span class="cut grow dim">${() => outcome(run.value)}</span>
    ${() => (run.value.completedAt ? null : bar(() => run.value.progress))}<span class="dim right small-text">${() => (run.value.completedAt ? since(() => run.value.completedAt) : `${run.value.progress}%`)}</span></a></div>`;
}

/** @param {string} id @param {string} runId @param {import("../core.js").Computed<Run | null>} run */
function runDetails(id, runId, run) {
  const figures = /** @type {[string, (run: Run) => number][]} */ ([
    [t("Read"), (one) => one.documentsProcessed],
    [t("Changed"), (one) => one.documentsIngested],
    [t("Unchanged"), (one) => one.documentsUnchanged],
    [t("Removed"), (one) => one.documentsPruned],
    [t("Errors"), (one) => one.itemErrors],
  ]);
  return html`<section aria-label="${t("Run")}"><dl class="figures small">${figures.map(
    ([label, of]) => html`<div><dt>${label}</dt><dd>${() => (run.value ? number(of(run.value)) : "–")}</dd></div>`,
  )}</dl>${() => (run.value?.completedAt ? html`<p class="pad-x dim small-text">${t("Took {time}", { time: duration((Date.parse(run.value.completedAt) - Date.parse(run.value.startedAt)) / 1000) })}</p>` : null)}
  ${logOf(runId, run)}${() => (run.value?.itemErrors ? failures(id) : null)}</section>`;
}

/** @param {string} runId @param {import("../core.js").Computed<Run | null>} run The log, read on from its last line. */
function logOf(runId, run) {
  const lines = signal(/** @type {Line[]} */ ([]));
  const more = fetched(
    async () => {
      for (;;) {
        const page = await api.get(`/connector-runs/${runId}/logs`, { cursor: lines.peek().at(-1)?.id, limit: 500 });
        lines.value = [...lines.peek(), ...page.items].slice(-2000);
        if (!page.nextCursor) return true;
      }
    },
    { every: () => (run.peek()?.completedAt ? null : 700) },
  );
  effect(() => run.value?.completedAt, () => void more.renew()); // its last words
  /** @type {HTMLElement | undefined} */ let box;
  effect(() => lines.value, () => {
    if (box && box.scrollHeight - box.scrollTop - box.clientHeight < 60) requestAnimationFrame(() => box?.scrollTo(0, box.scrollHeight));
  });
  return html`<div class="log" role="log" tabindex="0" aria-label="${t("Log")}" ref=${(/** @type {HTMLElement} */ element) => {
    box = element;
  }}>${each(
    () => lines.value,
    (line) => line.id,
    (line) => html`<div class="${line.peek().level}"><time datetime="${line.peek().at}">${timeOf(line.peek().at)}</time>  ${line.peek().message}</div>`,
  )}${() => (lines.value.length ? null : html`<div class="dim">${t("Nothing is told yet.")}</div>`)}</div>`;
}

/** @param {string} id */
function failures(id) {
  /** @type {import("../fetched.js").Fetched<{sourceId: string, attempts: number, error: {message: string}}[]>} */
  const found = fetched(() => all(`/connectors/${id}/failures`, {}, 200));
  return html`<div class="failures">${() => (found.value.value?.length ? html`<h3>${t("Could not be read")}</h3>` : null)}<ul>${each(
    () => found.value.value ?? [],
    (one) => one.sourceId,
    (one) => html`<li><b class="cut">${one.peek().sourceId}</b><p class="error">${one.peek().error.message}</p></li>`,
  )}</ul></div>`;
}

