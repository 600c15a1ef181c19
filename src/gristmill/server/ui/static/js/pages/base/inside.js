// @ts-check
/** What else is inside an item: its canonical content, its images and tables, and how it was made. */

import { all, api } from "../../api.js";
import { effect, html, signal } from "../../core.js";
import { duration, full, t } from "../../i18n.js";
import { button } from "../../parts/button.js";
import { dot, empty, since } from "../../parts/status.js";
import { refused, toast } from "../../parts/toast.js";

const MOST = 200_000; // characters that are shown at once; the rest is a download

/**
 * @template T @param {() => Promise<T>} fetch @param {(value: T, again: () => void) => unknown} show @param {string} title
 */
function loaded(fetch, show, title) {
  const value = signal(/** @type {T | null} */ (null));
  const failed = signal("");
  const load = async () => {
    try {
      value.value = await fetch();
      failed.value = "";
    } catch (error) {
      failed.value = /** @type {Error} */ (error).message;
    }
  };
  effect(
    () => null,
    () => void load(),
  );
  return html`<div class="inside">${() => (failed.value ? empty("file", title, failed.value) : value.value === null ? null : show(value.value, load))}</div>`;
}

/** @param {string} id */
export const contentOf = (id) =>
  loaded(
    () => api.get(`/knowledge-items/${id}/content`),
    (/** @type {string} */ text) => [
      html`<pre class="content" tabindex="0">${text.slice(0, MOST)}</pre>`,
      text.length > MOST ? html`<p class="after"><a class="button line small" href="/api/knowledge-items/${id}/content" target="_blank">${t("All {n} characters", { n: text.length })}</a></p>` : null,
    ],
    t("No content to show"),
  );

/** @param {string} id */
export const assetsOf = (id) =>
  loaded(
    () => all(`/knowledge-items/${id}/assets`, {}, 500),
    (assets, again) => {
      if (!assets.length) return empty("file", t("No images or tables"), t("What is found in the document is shown here, with what it says."));
      const lost = assets.some((one) => one.state === "failed");
      const retry = async () => {
        try {
          await api.post(`/knowledge-items/${id}/assets/analyse`);
          toast(t("The images are described again"));
          again();
        } catch (error) {
          refused(error);
        }
      };
      return [
        lost ? html`<p class="after">${button(t("Describe again what failed"), retry, { small: true, icon: "retry" })}</p>` : null,
        html`<ul class="assets">${assets.map((one) => html`<li>${one.kind === "image" ? html`<img loading="lazy" alt="${one.caption || one.text || t("Image")}" src="${`/api/knowledge-items/${id}/assets/${one.hash}`}">` : null}
          <div><b>${one.caption || (one.kind === "image" ? t("Image") : t("Table"))}</b><span class="dim small-text">${[one.page === null ? "" : t("page {page}", { page: one.page }), one.mediaType, one.state ? t(one.state) : ""].filter(Boolean).join(" · ")}</span>
          <p>${one.error ? html`<span class="bad">${one.error.message ?? one.error}</span>` : (one.text ?? "")}</p></div></li>`)}</ul>`,
      ];
    },
    t("No images to show"),
  );

/** @type {Record<string, import("../../parts/status.js").Tone>} */
const TONES = { queued: "queued", delayed: "warn", running: "running", dead: "failed", done: "ok", cancelled: "off" };

/** @param {string} id */
export const timelineOf = (id) =>
  loaded(
    () => api.get(`/knowledge-items/${id}/timeline`),
    (/** @type {any} */ told, again) => [made(told), html`<ul class="jobs">${told.jobs.map((/** @type {any} */ job) => jobRow(job, again))}</ul>`],
    t("No history to show"),
  );

/** @param {any} told */
function made(told) {
  const seconds = told.made?.seconds;
  if (!seconds) return null;
  const longest = Math.max(seconds.read ?? 0, seconds.embed ?? 0, seconds.write ?? 0, 0.001);
  const stages = /** @type {[string, string][]} */ ([
    ["read", t("Read and cut")],
    ["embed", t("Embed")],
    ["write", t("Write")],
  ]);
  return html`<div class="made"><h3>${t("Version {v}, made in {time}", { v: told.version, time: duration(seconds.all ?? 0) })}</h3>
    <ul>${stages.map(([name, label]) => html`<li><span>${label}</span><span class="length"><i style.--share=${(seconds[name] ?? 0) / longest}></i></span><span>${duration(seconds[name] ?? 0)}</span></li>`)}</ul>
    <p class="dim small-text">${[
      t("{n} characters", { n: told.made.characters }),
      t("{n} chunks", { n: told.made.chunks }),
      told.made.reused ? t("{n} known already", { n: told.made.reused }) : "",
      told.made.resumed ? t("{n} from an earlier attempt", { n: told.made.resumed }) : "",
    ]
      .filter(Boolean)
      .join(" · ")}</p></div>`;
}

/** @param {any} job @param {() => void} again */
function jobRow(job, again) {
  const cancel = async () => {
    try {
      await api.post(`/jobs/${job.id}/cancel`);
      again();
    } catch (error) {
      refused(error);
    }
  };
  return html`<li>${dot(() => TONES[job.state] ?? "off")}<div><b>${job.kind.replaceAll("_", " ")}</b> <span class="dim">${t(job.state)} · ${t("attempt {n} of {most}", { n: job.attempt, most: job.maxAttempts })}</span>
    ${job.errors.map((/** @type {any} */ one) => html`<p class="bad small-text"><span class="dim">${full(one.at)}</span> ${one.message} <code>${one.code}</code></p>`)}</div>
    ${["queued", "delayed", "running"].includes(job.state) ? button(t("Cancel"), cancel, { small: true }) : html`<span class="dim small-text">${since(() => job.finishedAt ?? job.createdAt)}</span>`}</li>`;
}

