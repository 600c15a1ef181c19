// @ts-check
/**
 * The embedder of a base, and its change, or that of its chunking: the new vectors are made while the old ones answer,
 * both are compared, and the new ones take over or wait for a decision. Searches go on meanwhile.
 */

import { api } from "../../api.js";
import { button } from "../../components/button.js";
import { dialog } from "../../components/dialog.js";
import { describeEstimate } from "../../components/estimate.js";
import { bar, errorBanner, relativeTime } from "../../components/status.js";
import { showError } from "../../components/toast.js";
import { effect, html, signal } from "../../core.js";
import { formatNumber, problemMessage, t } from "../../i18n.js";
import { resource } from "../../resource.js";
import { allows } from "../../session.js";

/** @import { Base } from "../../bases.js" */
/** @import { Resource } from "../../resource.js" */
/** @typedef {{hybrid?: {ndcg: number, medianMs: number}}} Figures */
/**
 * @typedef {{id: string, state: "building" | "comparing" | "waiting" | "switched" | "refused" | "cancelled",
 *   embedder: string, previousEmbedder: string, progress: number, report: {verdict: string, questions: number,
 *   old?: Figures, new?: Figures} | null, error: {message: string} | null, canRevert: boolean, updatedAt: string}} Swap
 */

const POLL_INTERVAL = 1500; // milliseconds

/** @param {Base} base @param {() => void} onswitched called when another embedder or chunking has taken over */
export function embedderField(base, onswitched) {
  /** @type {Resource<Swap | "none">} */
  const swap = resource(() => loadSwap(base.id), {
    every: () => (isUnderWay(swap.value.peek()) ? POLL_INTERVAL : null),
  });
  /** @type {string | null} */
  let lastShown = null;
  effect(() => {
    const last = swap.value.value;
    if (!last) return;
    const shown = last === "none" ? "none" : `${last.id} ${last.state}`;
    const isNew = lastShown !== null && lastShown !== shown;
    lastShown = shown;
    if (last !== "none" && last.state === "switched" && (isNew || last.embedder !== base.embedder)) onswitched();
  });
  const openDialog = () => openSwapDialog(base, () => swap.refresh());
  const canChange = () => allows("admin") && base.index === "embedded" && !isUnderWay(swap.value.value);
  return html`
    <div class="field">
      <span>${t("Embedding model")}</span>
      <p>
        <code>${base.embedder}</code> <span class="dim">${t("{n} dimensions", { n: base.dimensions })}</span>
        ${() => (canChange() ? button(t("Change …"), openDialog, { small: true }) : null)}
      </p>
      ${() => (canChange() && base.suggestedEmbedder ? suggestion(base.suggestedEmbedder) : null)}
      ${() => errorBanner(swap.error.value)}
      <div role="status">${() => swapView(base, swap.value.value, swap)}</div>
    </div>
  `;
}

/** @param {string} name */
const suggestion = (name) =>
  html`<span class="hint">${t("Many of its texts are in languages that {name} knows better.", { name })}</span>`;

/** @param {string} id @returns {Promise<Swap | "none">} */
async function loadSwap(id) {
  return allows("editor") && (await api.get(`/knowledge-bases/${id}/embedder`, { required: false })) || "none";
}

/** @param {Swap | "none" | null} swap */
const isUnderWay = (swap) => swap !== null && swap !== "none" && ["building", "comparing"].includes(swap.state);

/** @param {Base} base @param {Swap | "none" | null} swap @param {Resource<Swap | "none">} resource */
function swapView(base, swap, resource) {
  if (!swap || swap === "none" || swap.state === "cancelled") return null;
  const act = async (/** @type {string} */ action) => {
    try {
      resource.value.value = await api.post(`/knowledge-bases/${base.id}/embedder/${action}`);
      resource.refresh();
    } catch (error) {
      showError(error);
    }
  };
  const approve = button(t("Use {name}", { name: swap.embedder }), () => act("approve"), { small: true });
  const cancel = button(t("Cancel"), () => act("cancel"), { small: true, kind: "quiet" });
  const revertLabel = isOfChunking(swap)
    ? t("Back to the earlier chunking")
    : t("Back to {name}", { name: swap.previousEmbedder });
  const revert = button(revertLabel, () => act("revert"), { small: true });
  const buttons = {
    building: [cancel],
    comparing: [cancel],
    waiting: [approve, cancel],
    refused: swap.error ? [] : [approve, cancel],
    switched: swap.canRevert ? [revert] : [],
  }[swap.state];
  return html`
    <div class="swap">
      <p>${describe(swap)}</p>
      ${swap.state === "building" ? bar(swap.progress) : null}
      ${swap.report ? reportView(swap) : null}
      ${allows("admin") ? html`<div class="actions">${buttons}</div>` : null}
    </div>
  `;
}

/** Whether only the chunking changes. @param {Swap} swap */
const isOfChunking = (swap) => swap.embedder === swap.previousEmbedder;

/** @param {Swap} swap */
function describe(swap) {
  const name = swap.embedder;
  const percent = formatNumber(Math.floor(swap.progress));
  switch (swap.state) {
    case "building":
      return t("The vectors of {name} are being made: {percent}%. Searches use the old ones.", { name, percent });
    case "comparing":
      return t("{name} is being compared with the old model.", { name });
    case "waiting":
      return t("{name} is ready. Choose whether to use it.", { name });
    case "refused":
      return problemMessage(swap.error) || t("{name} was not taken, because it finds less.", { name });
    default:
      return html`${
        isOfChunking(swap) ? t("Chunking changed") : t("Changed from {name}", { name: swap.previousEmbedder })
      } ${relativeTime(() => swap.updatedAt)}`;
  }
}

/** @param {string} verdict */
const verdictLabel = (verdict) =>
  ({
    better: t("Finds more"),
    as_good: t("As good"),
    worse: t("Finds less"),
    no_better_than_chance: t("No better than chance"),
    too_few_questions: t("Too few documents to compare"),
  })[verdict] ?? verdict;

/** @param {Swap} swap */
function reportView(swap) {
  const report = /** @type {NonNullable<Swap["report"]>} */ (swap.report);
  const row = (/** @type {string} */ name, /** @type {Figures | undefined} */ figures) => {
    if (!figures?.hybrid) return null;
    const { ndcg, medianMs } = figures.hybrid;
    return html`
      <tr>
        <th scope="row">${name}</th>
        <td>${formatNumber(Math.round(1000 * ndcg) / 10)}%</td>
        <td>${formatNumber(Math.round(medianMs))} ms</td>
      </tr>
    `;
  };
  const table = () =>
    html`
      <table>
        <thead>
          <tr>
            <th scope="col">${t("Model")}</th>
            <th scope="col">${t("Found (nDCG)")}</th>
            <th scope="col">${t("Time of a search")}</th>
          </tr>
        </thead>
        <tbody>${row(swap.previousEmbedder, report.old)}${row(swap.embedder, report.new)}</tbody>
      </table>
    `;
  return html`
    <p><b>${verdictLabel(report.verdict)}</b> · ${t("{n} questions made from this base", { n: report.questions })}</p>
    ${report.new ? table() : null}
  `;
}

/** @param {Base} base @param {() => void} onbegun */
function openSwapDialog(base, onbegun) {
  const embedders = signal(/** @type {{name: string}[]} */ ([]));
  const errorText = signal("");
  const estimateText = signal("");
  api.get("/embedders").then((page) => (embedders.value = page.items), showError);
  // The base's own one comes last: it is of use with another chunking.
  const choices = () => {
    const isOwn = (/** @type {{name: string}} */ { name }) => name === base.embedder;
    const ordered = [...embedders.value.filter((each) => !isOwn(each)), ...embedders.value.filter(isOwn)];
    return ordered.map((each) => {
      const label = isOwn(each) ? t("{name} (unchanged)", { name: each.name }) : each.name;
      return html`<option value="${each.name}">${label}</option>`;
    });
  };
  const changeFrom = (/** @type {HTMLFormElement} */ form) => {
    const data = new FormData(form);
    const maxTokens = Number(data.get("maxTokens"));
    return {
      embedder: data.get("embedder"),
      ...(maxTokens ? { chunking: { maxTokens } } : {}),
      gate: data.get("gate"),
    };
  };
  dialog(t("Change the embedding model"), (close) => {
    const submit = async (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      try {
        const change = changeFrom(/** @type {HTMLFormElement} */ (event.target));
        await api.post(`/knowledge-bases/${base.id}/embedder`, change);
        close();
        onbegun();
      } catch (error) {
        errorText.value = /** @type {Error} */ (error).message;
      }
    };
    const estimate = async (/** @type {Event} */ event) => {
      const { form } = /** @type {HTMLButtonElement} */ (event.currentTarget);
      const change = changeFrom(/** @type {HTMLFormElement} */ (form));
      estimateText.value = t("Estimating …");
      try {
        const found = await api.post(`/knowledge-bases/${base.id}/embedder`, { ...change, dryRun: true });
        estimateText.value = describeEstimate(found);
      } catch (error) {
        estimateText.value = "";
        errorText.value = /** @type {Error} */ (error).message;
      }
    };
    return html`
      <form @submit=${submit}>
        <div class="dialog-body">
          <label class="field">
            <span>${t("New model")}</span>
            <select name="embedder" required autofocus>${choices}</select>
            <span class="hint">
              ${t("All texts are embedded again, which may cost money. Searches go on with the old vectors.")}
            </span>
          </label>
          <label class="field">
            <span>${t("Maximum chunk size, in tokens")}</span>
            <input name="maxTokens" type="number" min="32" max="8192" placeholder="${base.chunking.maxTokens ?? 256}">
          </label>
          <label class="field">
            <span>${t("When the new vectors are complete")}</span>
            <select name="gate">
              <option value="auto">${t("Use them if they find no less")}</option>
              <option value="ask">${t("Compare, and ask me")}</option>
              <option value="off">${t("Use them without comparing")}</option>
            </select>
          </label>
          <p role="status">${() => estimateText.value}</p>
          ${() => (errorText.value ? html`<p class="error" role="alert">${errorText.value}</p>` : null)}
        </div>
        <footer>
          ${button(t("Cancel"), close, { kind: "quiet" })} ${button(t("What would it cost?"), estimate)}
          <button class="button primary">${t("Change")}</button>
        </footer>
      </form>
    `;
  });
}
