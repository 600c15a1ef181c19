// @ts-check
/** "Why is a document not here?": choose one by its name, and be told what keeps it from the hits, or where it stands. */

import { api } from "../../api.js";
import { effect, html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { dialog } from "../../parts/dialog.js";
import { icon, iconOf } from "../../parts/icon.js";

const PAUSE = 200;

/** @param {string} base @param {string} question @param {string} mode @param {{id: string, title: string}} [item] */
export function openWhyNot(base, question, mode, item) {
  const typed = signal("");
  const found = signal(/** @type {any[]} */ ([]));
  const told = signal(/** @type {any} */ (null));
  const failed = signal("");
  const choose = async (/** @type {{id: string, title: string}} */ one) => {
    failed.value = "";
    try {
      told.value = { ...(await api.post(`/knowledge-items/${one.id}/why-not`, { query: question, mode })), title: one.title };
    } catch (error) {
      failed.value = /** @type {Error} */ (error).message;
    }
  };
  dialog(
    t("Why is a document not here?"),
    () => {
      effect(
        () => typed.value.trim(),
        (q) => {
          if (!q) return;
          const timer = setTimeout(async () => {
            try {
              found.value = (await api.get(`/knowledge-bases/${base}/tree`, { q, limit: 8, leaves: true })).items;
            } catch (error) {
              failed.value = /** @type {Error} */ (error).message;
            }
          }, PAUSE);
          return () => clearTimeout(timer);
        },
      );
      if (item) choose(item);
      return html`<div class="dialog-body why"><p class="dim">${t("For the question: {question}", { question })}</p>
        <label class="search-box">${icon("search")}<span class="sr">${t("Name of the document")}</span><input type="text" autofocus placeholder="${t("Name of the document")}" @input=${(/** @type {Event} */ event) => {
          typed.value = /** @type {HTMLInputElement} */ (event.target).value;
          told.value = null;
        }}></label>
        ${() => (told.value ? null : html`<div class="choices">${found.value.map((one) => html`<button type="button" @click=${() => choose(one)}>${iconOf(one.type)}<span class="cut">${one.title}</span><span class="dim small-text cut">${one.path.join(" / ")}</span></button>`)}</div>`)}
        <div aria-live="polite">${() => (told.value ? reasons(told.value) : null)}<p class="bad">${() => failed.value}</p></div></div>`;
    },
    { wide: true },
  );
}

/** @param {any} told */
function reasons(told) {
  const figure = (/** @type {number | null} */ n) => (n === null || n === undefined ? "–" : n.toFixed(3));
  return html`<div class="told"><h3>${told.title}</h3>${
    told.rank ? html`<p>${t("It is a hit, at place {rank}.", { rank: told.rank })}</p>` : null
  }<ul class="reasons">${told.reasons.map((/** @type {any} */ one) => html`<li><code>${one.code}</code><span>${one.message}</span></li>`)}</ul>
  <dl class="explain"><div><dt>${t("Keyword rank")}</dt><dd>${told.ranks?.text ?? "–"}</dd></div><div><dt>${t("Semantic rank")}</dt><dd>${told.ranks?.vector ?? "–"}</dd></div>
  <div><dt>${t("Keyword score")}</dt><dd>${figure(told.textScore)}</dd></div><div><dt>${t("Similarity")}</dt><dd>${figure(told.similarity)}</dd></div></dl></div>`;
}
