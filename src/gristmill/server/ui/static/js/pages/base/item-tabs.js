// @ts-check
/** Tabs of an item: its canonical content, its images and tables, and its timeline. */

import { api, fetchAll } from "../../api.js";
import { effect, html, signal } from "../../core.js";
import { addErrors, formatDateTime, formatDuration, language, problemMessage, t } from "../../i18n.js";
import { button } from "../../components/button.js";
import { dot, emptyState, relativeTime } from "../../components/status.js";
import { showError, toast } from "../../components/toast.js";
import { JOB_KINDS } from "../../job-kinds.js";
import { live } from "../../live.js";
import { allows } from "../../session.js";

/** @import { Tone } from "../../components/status.js" */

// A job of the timeline that can't be cancelled says so in the words of the queue.
if (language === "zh") addErrors((await import("../../locales/zh-admin-errors.js")).errors);

const MAX_CHARACTERS = 200_000; // shown on the page; a link opens longer content

/**
 * Shows what `load` returns; `show` gets a function that loads it again.
 * @template T @param {() => Promise<T>} load @param {(value: T, reload: () => void) => unknown} show
 * @param {string} title the title where loading fails
 */
function loadedView(load, show, title) {
  const value = signal(/** @type {T | null} */ (null));
  const errorText = signal("");
  const reload = async () => {
    try {
      value.value = await load();
      errorText.value = "";
    } catch (error) {
      errorText.value = /** @type {Error} */ (error).message;
    }
  };
  effect(() => {
    reload();
    return live.on({}, (changes) => {
      if (errorText.peek() && changes.some((change) => change.type === "reload")) reload(); // after an outage
    });
  });
  const content = () => {
    if (errorText.value) return emptyState("file", title, errorText.value);
    return value.value === null ? null : show(value.value, reload);
  };
  return html`<div class="tab-content">${content}</div>`;
}

/** @param {string} id */
export function contentTab(id) {
  const url = `/api/knowledge-items/${id}/content`;
  const link = (/** @type {number} */ n) =>
    html`
      <p class="list-footer">
        <a class="button line small" href="${url}" target="_blank">${t("Show all {n} characters", { n })}</a>
      </p>
    `;
  return loadedView(
    () => api.get(`/knowledge-items/${id}/content`),
    (/** @type {string} */ text) => [
      html`<pre class="content" tabindex="0">${text.slice(0, MAX_CHARACTERS)}</pre>`,
      text.length > MAX_CHARACTERS ? link(text.length) : null,
    ],
    t("No content to show"),
  );
}

/** @param {string} id @param {boolean} canChange */
export function assetsTab(id, canChange) {
  const retry = async (/** @type {() => void} */ reload) => {
    try {
      await api.post(`/knowledge-items/${id}/assets/analyse`);
      toast(t("Describing the images again"));
      reload();
    } catch (error) {
      showError(error);
    }
  };
  const retryButton = (/** @type {() => void} */ reload) =>
    button(t("Retry failed descriptions"), () => retry(reload), { small: true, icon: "retry" });
  return loadedView(
    () => fetchAll(`/knowledge-items/${id}/assets`, {}, 500),
    (assets, reload) => {
      if (!assets.length) return noAssets();
      const hasFailures = canChange && assets.some((asset) => asset.state === "failed");
      return [
        hasFailures ? html`<p class="list-footer">${retryButton(reload)}</p>` : null,
        html`<ul class="assets">${assets.map((asset) => assetRow(id, asset))}</ul>`,
      ];
    },
    t("No images to show"),
  );
}

const noAssets = () =>
  emptyState(
    "file",
    t("No images or tables"),
    t("Images and tables found in the document appear here with their descriptions."),
  );

/** @param {string} id @param {any} asset */
function assetRow(id, asset) {
  const isImage = asset.kind === "image";
  const alt = asset.caption || asset.text || t("Image");
  const url = `/api/knowledge-items/${id}/assets/${asset.hash}`;
  const page = asset.page === null ? "" : t("page {page}", { page: asset.page });
  const facts = [page, asset.mediaType, asset.state ? t(asset.state) : ""].filter(Boolean).join(" · ");
  const text = asset.error ? html`<span class="bad">${problemMessage(asset.error)}</span>` : asset.text ?? "";
  return html`
    <li>
      ${isImage ? html`<img loading="lazy" alt="${alt}" src="${url}">` : null}
      <div>
        <b>${asset.caption || (isImage ? t("Image") : t("Table"))}</b>
        <span class="dim small-text">${facts}</span>
        <p>${text}</p>
      </div>
    </li>
  `;
}

/** @type {Record<string, Tone>} */
const TONES = { queued: "queued", delayed: "warn", running: "running", dead: "failed", done: "ok", cancelled: "off" };

/** @param {string} id */
export const timelineTab = (id) =>
  loadedView(
    () => api.get(`/knowledge-items/${id}/timeline`),
    (/** @type {any} */ timeline, reload) => [
      versionView(timeline),
      html`<ul class="jobs">${timeline.jobs.map((/** @type {any} */ job) => jobRow(job, reload))}</ul>`,
    ],
    t("No history to show"),
  );

/** @param {any} timeline */
function versionView(timeline) {
  const seconds = timeline.made?.seconds;
  if (!seconds) return null;
  const longest = Math.max(seconds.read ?? 0, seconds.embed ?? 0, seconds.write ?? 0, 0.001);
  const stage = (/** @type {string} */ label, /** @type {number} */ value) =>
    html`
      <li>
        <span>${label}</span>
        <span class="length"><i style.--share=${value / longest}></i></span>
        <span>${formatDuration(value)}</span>
      </li>
    `;
  const { characters, chunks, reused, resumed } = timeline.made;
  const facts = [
    t("{n} characters", { n: characters }),
    t("{n} chunks", { n: chunks }),
    reused ? t("{n} reused", { n: reused }) : "",
    resumed ? t("{n} from an earlier attempt", { n: resumed }) : "",
  ];
  return html`
    <div class="version-timing">
      <h3>${t("Version {v}, built in {time}", { v: timeline.version, time: formatDuration(seconds.all ?? 0) })}</h3>
      <ul>
        ${stage(t("Read and chunk"), seconds.read ?? 0)}
        ${stage(t("Embed"), seconds.embed ?? 0)}
        ${stage(t("Write"), seconds.write ?? 0)}
      </ul>
      <p class="dim small-text">${facts.filter(Boolean).join(" · ")}</p>
    </div>
  `;
}

/** @param {any} job @param {() => void} reload */
function jobRow(job, reload) {
  const cancel = async () => {
    try {
      await api.post(`/jobs/${job.id}/cancel`);
      reload();
    } catch (error) {
      showError(error);
    }
  };
  const canCancel = allows("admin") && ["queued", "delayed", "running"].includes(job.state);
  const attempt = t("attempt {n} of {max}", { n: job.attempt, max: job.maxAttempts });
  const when = html`<span class="dim small-text">${relativeTime(() => job.finishedAt ?? job.createdAt)}</span>`;
  return html`
    <li>
      ${dot(() => TONES[job.state] ?? "off")}
      <div>
        <b>${t(JOB_KINDS[job.kind] ?? job.kind)}</b> <span class="dim">${t(job.state)} · ${attempt}</span>
        ${job.errors.map(jobError)}
      </div>
      ${canCancel ? button(t("Cancel"), cancel, { small: true }) : when}
    </li>
  `;
}

/** @param {{at: string, message: string, code: string}} error */
const jobError = (error) =>
  html`
    <p class="bad small-text">
      <span class="dim">${formatDateTime(error.at)}</span> ${problemMessage(error)} <code>${error.code}</code>
    </p>
  `;
