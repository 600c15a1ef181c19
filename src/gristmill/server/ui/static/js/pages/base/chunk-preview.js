// @ts-check
/** A dialog that shows how a document would be chunked, before the settings of its base are saved. */

import { api } from "../../api.js";
import { html, signal } from "../../core.js";
import { problemMessage, t } from "../../i18n.js";
import { button } from "../../components/button.js";
import { dialog } from "../../components/dialog.js";
import { selectField } from "../../components/form.js";
import { emptyState } from "../../components/status.js";
import { showError } from "../../components/toast.js";

const POLL_INTERVAL = 300;
const MAX_DOCUMENTS = 100; // to choose from

/**
 * @typedef {{chunks: {index: number, text: string, headings: string[], tokens: number}[], total: number,
 *   characters: number, isWhole: boolean, maxTokens: number, overlapTokens: number}} Preview
 */

/** @param {string} base @param {number | null} maxTokens null: the default */
export async function openChunkPreview(base, maxTokens) {
  /** @type {any[]} */ let documents;
  try {
    const query = { status: "completed", leaves: true, limit: MAX_DOCUMENTS };
    documents = (await api.get(`/knowledge-bases/${base}/tree`, query)).items;
  } catch (error) {
    return showError(error);
  }
  dialog(t("Preview of chunking"), (close) => {
    if (!documents.length) {
      return emptyState("file", t("Nothing here yet"), t("Add a document first, to see how it is chunked."));
    }
    return previewBody(documents, maxTokens, close);
  }, { wide: true });
}

/** @param {any[]} documents @param {number | null} maxTokens @param {() => void} close */
function previewBody(documents, maxTokens, close) {
  const preview = signal(/** @type {Preview | null} */ (null));
  const errorText = signal("");
  let latest = "";
  const load = async (/** @type {string} */ id) => {
    latest = id;
    preview.value = null;
    errorText.value = "";
    try {
      const result = await fetchPreview(id, maxTokens);
      if (latest === id) preview.value = result;
    } catch (error) {
      errorText.value = /** @type {Error} */ (error).message;
    }
  };
  const [first] = documents;
  load(first.id);
  const choices = documents.map((item) => /** @type {[string, string]} */ ([item.id, item.title]));
  const now = (/** @type {string} */ id) => documents.find((item) => item.id === id)?.chunkCount ?? 0;
  const figures = () => {
    if (errorText.value) return html`<p class="bad" role="alert">${errorText.value}</p>`;
    if (!preview.value) return html`<p class="dim" role="status">${t("Chunking …")}</p>`;
    const { total, maxTokens: size, isWhole, characters } = preview.value;
    const part = isWhole ? "" : t("Only its first {characters} characters were chunked.", { characters });
    const summary = t("{n} chunks of at most {size} tokens; now {now}.", { n: total, size, now: now(latest) });
    return html`<p role="status">${[summary, part].filter(Boolean).join(" ")}</p>`;
  };
  const rows = () =>
    (preview.value?.chunks ?? []).map((chunk) =>
      html`
        <li class="chunk">
          <div class="chunk-head">
            <b>#${chunk.index + 1}</b>
            <span class="cut">${chunk.headings.join(" › ")}</span>
            <span class="dim">${t("{n} tokens", { n: chunk.tokens })}</span>
          </div>
          <p>${chunk.text}</p>
        </li>
      `
    );
  return html`
    <div class="dialog-body">
      ${selectField({ label: t("Document"), name: "document", value: first.id, choices, onchange: load })}
      ${figures}
      <ol class="chunk-rows preview scroll" tabindex="0" aria-label="${t("Chunks")}">${rows}</ol>
    </div>
    <footer>${button(t("Close"), close, { kind: "primary" })}</footer>
  `;
}

/** @param {string} id @param {number | null} maxTokens @returns {Promise<Preview>} */
async function fetchPreview(id, maxTokens) {
  const { jobId } = await api.post(`/knowledge-items/${id}/chunks/preview`, { maxTokens });
  for (;;) {
    const job = await api.get(`/jobs/${jobId}`);
    if (job.state === "done") return job.result;
    if (["dead", "cancelled", "dismissed"].includes(job.state)) {
      throw new Error(problemMessage(job.errors?.at(-1)) || t("The document can't be chunked now."));
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL));
  }
}
