// @ts-check
/** What people have searched a base for, if it keeps that: the latest first, with a way to delete it. */

import { api } from "../../api.js";
import { html, signal } from "../../core.js";
import { formatNumber, t } from "../../i18n.js";
import { button } from "../../components/button.js";
import { confirm } from "../../components/dialog.js";
import { relativeTime } from "../../components/status.js";
import { showError, toast } from "../../components/toast.js";

/** @import { Base } from "../../bases.js" */
/** @import { Signal } from "../../core.js" */
/** @typedef {{id: string, question: string, times: number, bestScore: number | null, askedAt: string}} Question */
/** @typedef {{items: Question[], nextCursor: string | null}} QuestionPage */

const PAGE = 20;

/** @param {Base} base @param {Signal<QuestionPage | null>} shown @param {string | null} cursor */
async function loadMore(base, shown, cursor) {
  const after = cursor === null ? "" : `&cursor=${cursor}`;
  try {
    const page = await api.get(`/knowledge-bases/${base.id}/questions?limit=${PAGE}${after}`);
    const before = cursor === null ? [] : shown.peek()?.items ?? [];
    shown.value = { items: [...before, ...page.items], nextCursor: page.nextCursor };
  } catch (error) {
    showError(error);
  }
}

/** @param {Base} base @param {Signal<QuestionPage | null>} shown */
async function deleteAll(base, shown) {
  const isConfirmed = await confirm({
    title: t("Delete what people searched {name} for?", { name: base.name }),
    text: t("New searches are kept as before. This can't be undone."),
    action: t("Delete all"),
  });
  if (!isConfirmed) return;
  try {
    const { deleted } = await api.delete(`/knowledge-bases/${base.id}/questions`);
    shown.value = { items: [], nextCursor: null };
    toast(t("{n} questions were deleted", { n: deleted }));
  } catch (error) {
    showError(error);
  }
}

/** @param {Base} base The questions of a base that keeps them; nothing for others. */
export function questionList(base) {
  if (base.settings.questions !== "keep") return null;
  const shown = signal(/** @type {QuestionPage | null} */ (null));
  loadMore(base, shown, null);
  return html`
    <section class="questions" aria-label="${t("What people searched for")}">
      ${() => (shown.value ? questionTable(base, shown, shown.value) : null)}
    </section>
  `;
}

/** @param {Base} base @param {Signal<QuestionPage | null>} shown @param {QuestionPage} page */
function questionTable(base, shown, { items, nextCursor }) {
  if (!items.length) return html`<p class="dim">${t("No one has searched this base yet.")}</p>`;
  const row = (/** @type {Question} */ { question, times, bestScore, askedAt }) =>
    html`
      <tr>
        <td><a href="/b/${base.id}?q=${encodeURIComponent(question)}">${question}</a></td>
        <td class="right">${formatNumber(times)}</td>
        <td class="right">${bestScore === null ? "–" : bestScore.toFixed(2)}</td>
        <td class="dim">${relativeTime(() => askedAt)}</td>
      </tr>
    `;
  const more = () => button(t("More"), () => loadMore(base, shown, nextCursor), { small: true });
  return html`
    <table>
      <caption>${t("What people searched for")}</caption>
      <thead>
        <tr>
          <th scope="col">${t("Question")}</th>
          <th scope="col" class="right">${t("Times")}</th>
          <th scope="col" class="right">${t("Best score")}</th>
          <th scope="col">${t("Last asked")}</th>
        </tr>
      </thead>
      <tbody>${items.map(row)}</tbody>
    </table>
    <div class="list-footer">
      ${nextCursor ? more() : null}
      ${button(t("Delete all"), () => deleteAll(base, shown), { small: true, kind: "danger" })}
    </div>
  `;
}
