// @ts-check
/** The embedders that the server knows, with a button that tests each. */

import { api } from "../../api.js";
import { button } from "../../components/button.js";
import { icon } from "../../components/icon.js";
import { dot, errorBanner } from "../../components/status.js";
import { showError } from "../../components/toast.js";
import { each, html, signal } from "../../core.js";
import { formatDuration, t } from "../../i18n.js";
import { resource } from "../../resource.js";
import { allows } from "../../session.js";

/** @import { Resource } from "../../resource.js" */
/**
 * @typedef {{name: string, dimensions: number, maxTokens: number, englishOnly: boolean, isDefault: boolean}} Embedder
 */

export function modelsSection() {
  /** @type {Resource<Embedder[]>} */
  const embedders = resource(async () => (await api.get("/embedders")).items);
  const rows = each(
    () => embedders.value.value ?? [],
    (embedder) => embedder.name,
    (embedder) => modelRow(embedder.peek()),
  );
  return html`
    ${() => errorBanner(embedders.error.value)}
    <div class="rows first" role="list" aria-label="${t("Models")}">${rows}</div>
    <p class="foot dim small-text">
      ${t("The settings embedders and embedder define these models. A base keeps the model it was created with.")}
    </p>
  `;
}

/** @param {Embedder} embedder */
function modelRow(embedder) {
  const testResult = signal(/** @type {any} */ (null));
  const test = async () => {
    testResult.value = "checking";
    try {
      testResult.value = await api.post("/embedders/test", { name: embedder.name });
    } catch (error) {
      testResult.value = null;
      showError(error);
    }
  };
  const { name, dimensions, maxTokens: tokens } = embedder;
  const defaultChip = embedder.isDefault ? html`<span class="chip">${t("Default")}</span>` : null;
  const limits = t("{dimensions} dimensions, up to {tokens} tokens", { dimensions, tokens });
  const language = embedder.englishOnly ? ` · ${t("English only")}` : "";
  const isTesting = () => testResult.value === "checking";
  const testButton = () =>
    button(t("Test"), test, { small: true, title: `${t("Test")}: ${name}`, disabled: isTesting });
  return html`
    <div class="entry" role="listitem">
      ${icon("base")}
      <span class="grow two-line">
        <b class="cut">${name} ${defaultChip}</b>
        <span class="dim cut">${limits}${language}</span>
      </span>
      <span class="result" role="status">${() => testResultView(testResult.value)}</span>
      ${() => (allows("admin") ? testButton() : null)}
    </div>
  `;
}

/** @param {{ok: boolean, tookMs: number, error: {message: string}} | "checking" | null} result */
function testResultView(result) {
  if (!result) return null;
  if (result === "checking") return html`<span class="dim">${t("Checking …")}</span>`;
  const tone = result.ok ? "ok" : "failed";
  const text = result.ok ? t("Works: {time}", { time: formatDuration(result.tookMs / 1000) }) : result.error.message;
  return html`<span class="status ${tone}">${dot(tone)}<span>${text}</span></span>`;
}
