// @ts-check
/** The dialog that explains why a document is not among the hits, or at which rank it is. */

import { api } from "../../api.js";
import { effect, html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { dialog } from "../../components/dialog.js";
import { icon, itemIcon } from "../../components/icon.js";

const TYPING_DELAY = 200;

/** @param {string} base @param {string} question @param {string} mode @param {{id: string, title: string}} [item] */
export function openWhyNot(base, question, mode, item) {
  const typed = signal("");
  const matches = signal(/** @type {any[]} */ ([]));
  const explanation = signal(/** @type {any} */ (null));
  const errorText = signal("");
  const choose = async (/** @type {{id: string, title: string}} */ chosen) => {
    errorText.value = "";
    try {
      const response = await api.post(`/knowledge-items/${chosen.id}/why-not`, { query: question, mode });
      explanation.value = { ...response, title: chosen.title };
    } catch (error) {
      errorText.value = /** @type {Error} */ (error).message;
    }
  };
  dialog(
    t("Why is a document missing?"),
    () => {
      effect(
        () => typed.value.trim(),
        (q) => {
          if (!q) return;
          const timer = setTimeout(async () => {
            try {
              matches.value = (await api.get(`/knowledge-bases/${base}/tree`, { q, limit: 8, leaves: true })).items;
            } catch (error) {
              errorText.value = /** @type {Error} */ (error).message;
            }
          }, TYPING_DELAY);
          return () => clearTimeout(timer);
        },
      );
      if (item) choose(item);
      const oninput = (/** @type {Event} */ event) => {
        typed.value = /** @type {HTMLInputElement} */ (event.target).value;
        explanation.value = null;
      };
      const choices = () => html`<div class="choices">${matches.value.map((match) => matchRow(match, choose))}</div>`;
      return html`
        <div class="dialog-body why">
          <p class="dim">${t("Query: {question}", { question })}</p>
          <label class="search-box">
            ${icon("search")}
            <span class="sr">${t("Document name")}</span>
            <input type="text" autofocus placeholder="${t("Document name")}" @input=${oninput}>
          </label>
          ${() => (explanation.value ? null : choices())}
          <div aria-live="polite">
            ${() => (explanation.value ? explanationView(explanation.value) : null)}
            <p class="bad">${() => errorText.value}</p>
          </div>
        </div>
      `;
    },
    { wide: true },
  );
}

/** @param {any} match @param {(match: any) => void} choose */
const matchRow = (match, choose) =>
  html`
    <button type="button" @click=${() => choose(match)}>
      ${itemIcon(match.type)}
      <span class="cut">${match.title}</span>
      <span class="dim small-text cut">${match.path.join(" / ")}</span>
    </button>
  `;

/** @param {any} explanation */
function explanationView(explanation) {
  const { title, rank, ranks, reasons, textScore, similarity } = explanation;
  const score = (/** @type {number | null | undefined} */ n) => n?.toFixed(3) ?? "–";
  const figure = (/** @type {string} */ name, /** @type {unknown} */ value) =>
    html`
      <div>
        <dt>${name}</dt>
        <dd>${value}</dd>
      </div>
    `;
  const reasonRow = (/** @type {any} */ reason) =>
    html`
      <li>
        <code>${reason.code}</code>
        <span>${reason.message}</span>
      </li>
    `;
  return html`
    <div class="explanation">
      <h3>${title}</h3>
      ${rank ? html`<p>${t("It is in the results, at rank {rank}.", { rank })}</p>` : null}
      <ul class="reasons">${reasons.map(reasonRow)}</ul>
      <dl class="explain">
        ${figure(t("Keyword rank"), ranks?.text ?? "–")}
        ${figure(t("Semantic rank"), ranks?.vector ?? "–")}
        ${figure(t("Keyword score"), score(textScore))}
        ${figure(t("Similarity"), score(similarity))}
      </dl>
    </div>
  `;
}
