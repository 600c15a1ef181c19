// @ts-check
/** The dialog that explains why a document is not among the hits, or at which rank it is. */

import { api } from "../../api.js";
import { effect, html, signal } from "../../core.js";
import { addErrors, errorMessage, language, t } from "../../i18n.js";
import { dialog } from "../../components/dialog.js";
import { icon, itemIcon } from "../../components/icon.js";
import { showError } from "../../components/toast.js";

if (language === "zh") addErrors((await import("../../locales/zh-admin-errors.js")).errors);

/** @import { Signal } from "../../core.js" */

const TYPING_DELAY = 200;

/** @typedef {{id: string, type: string, title: string, path: string[]}} Match */

/** @param {string} base @param {string} question @param {string} mode @param {{id: string, title: string}} [item] */
export function openWhyNot(base, question, mode, item) {
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
      const { input, choices } = documentPicker(base, choose, () => {
        explanation.value = null;
      });
      if (item) choose(item);
      return html`
        <div class="dialog-body why">
          <p class="dim">${t("Query: {question}", { question })}</p>
          <div class="search-box">${icon("search")}${input}</div>
          ${() => (explanation.value ? null : choices)}
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

/**
 * A field for the name of a document, and the documents that match it. Arrow keys move, Enter chooses: also before the
 * matches have arrived, then the first of them.
 * @param {string} base @param {(match: Match) => void} choose @param {() => void} ontype
 */
function documentPicker(base, choose, ontype) {
  const typed = signal("");
  const matches = signal(/** @type {Match[]} */ ([]));
  const selected = signal(0);
  let [isCurrent, mustChoose] = [true, false];
  const pick = (/** @type {Match | undefined} */ match) => {
    mustChoose = false;
    if (match) choose(match);
  };
  const load = async (/** @type {string} */ q) => {
    const found = (await api.get(`/knowledge-bases/${base}/tree`, { q, limit: 8, leaves: true })).items;
    if (q !== typed.peek().trim()) return;
    [matches.value, selected.value, isCurrent] = [found, 0, true];
    if (mustChoose) pick(found[0]);
  };
  effect(
    () => typed.value.trim(),
    (q) => {
      mustChoose = false;
      isCurrent = !q;
      if (!q) matches.value = [];
      const timer = q ? setTimeout(() => load(q).catch(showError), TYPING_DELAY) : undefined;
      return () => clearTimeout(timer);
    },
  );
  const oninput = (/** @type {Event} */ event) => {
    typed.value = /** @type {HTMLInputElement} */ (event.target).value;
    ontype();
  };
  const onkeydown = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    const count = Math.max(1, matches.peek().length);
    if (event.key === "ArrowDown") selected.value = (selected.peek() + 1) % count;
    else if (event.key === "ArrowUp") selected.value = (selected.peek() + count - 1) % count;
    else if (event.key === "Enter" && isCurrent) pick(matches.peek()[selected.peek()]);
    else if (event.key === "Enter") mustChoose = true;
    else return;
    event.preventDefault();
  };
  const input = html`
    <input
      type="text"
      role="combobox"
      autofocus
      aria-label="${t("Document name")}"
      aria-expanded="${() => String(matches.value.length > 0)}"
      aria-controls="why-choices"
      aria-activedescendant=${() => (matches.value.length ? `why-choice-${selected.value}` : null)}
      placeholder="${t("Document name")}"
      @input=${oninput}
      @keydown=${onkeydown}
    >
  `;
  const rows = () => matches.value.map((match, index) => matchRow(match, index, selected, () => pick(match)));
  return {
    input,
    choices: html`<ul class="choices" id="why-choices" role="listbox" aria-label="${t("Documents")}">${rows}</ul>`,
  };
}

/** @param {Match} match @param {number} index @param {Signal<number>} selected @param {() => void} onclick */
function matchRow(match, index, selected, onclick) {
  const onmousemove = () => {
    selected.value = index;
  };
  return html`
    <li
      role="option"
      id="why-choice-${index}"
      aria-selected="${() => String(selected.value === index)}"
      @click=${onclick}
      @mousemove=${onmousemove}
    >
      ${itemIcon(match.type)}
      <span class="cut">${match.title}</span>
      <span class="dim small-text cut">${match.path.join(" / ")}</span>
    </li>
  `;
}

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
        <span>${errorMessage(`why_${reason.code}`, reason.message)}</span>
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
