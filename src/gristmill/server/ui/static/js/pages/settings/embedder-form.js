// @ts-check
/** The dialog that stores an embedder, or changes one. A stored key is never shown: an empty field keeps it. */

import { api } from "../../api.js";
import { button } from "../../components/button.js";
import { dialog } from "../../components/dialog.js";
import { checkboxField, fieldErrors, noErrors, textField } from "../../components/form.js";
import { html, signal } from "../../core.js";
import { t } from "../../i18n.js";

/** @import { Errors } from "../../components/form.js" */
/**
 * @typedef {{name: string, origin: "builtin" | "settings" | "stored", model: string | null, url: string | null,
 *   hasKey: boolean, dimensions: number, maxTokens: number, chunkTokens: number, englishOnly: boolean,
 *   languages: string[] | null, pricePerMillionTokens: number | null, batchSize: number | null,
 *   sendDimensions: boolean | null, queryPrefix: string | null, documentPrefix: string | null,
 *   timeoutSeconds: number | null, requestsPerMinute: number | null, tokensPerMinute: number | null,
 *   concurrency: number | null, isDefault: boolean}} Embedder
 */

const NUMBERS = ["dimensions", "maxTokens", "batchSize", "timeoutSeconds", "concurrency"];
/** An empty field removes these. */
const REMOVABLE = ["requestsPerMinute", "tokensPerMinute", "pricePerMillionTokens"];
const FIELDS = ["name", "url", "model", "apiKey", "languages", ...NUMBERS, ...REMOVABLE];

/** @param {Embedder | undefined} existing @param {() => void} onsaved */
export function openEmbedderDialog(existing, onsaved) {
  const title = existing ? t("Edit {name}", { name: existing.name }) : t("New embedder");
  dialog(title, (close) =>
    embedderForm(existing, close, () => {
      close();
      onsaved();
    }), { wide: true });
}

/** @param {Embedder | undefined} existing @param {() => void} close @param {() => void} onsaved */
function embedderForm(existing, close, onsaved) {
  const errors = noErrors();
  const errorText = signal("");
  const isSaving = signal(false);
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const body = bodyOf(new FormData(/** @type {HTMLFormElement} */ (event.target)), existing);
    [errors.value, errorText.value, isSaving.value] = [{}, "", true];
    try {
      if (existing) await api.patch(`/embedders/${existing.name}`, body);
      else await api.post("/embedders", body);
      onsaved();
    } catch (error) {
      errors.value = fieldErrors(error);
      const isShown = Object.keys(errors.peek()).some((field) => FIELDS.includes(field));
      errorText.value = isShown ? "" : /** @type {Error} */ (error).message;
    } finally {
      isSaving.value = false;
    }
  };
  return html`
    <form @submit=${submit}>
      <div class="dialog-body">
        ${endpointFields(existing, errors)}
        ${modelFields(existing, errors)}
        ${limitFields(existing, errors)}
        ${() => (errorText.value ? html`<p class="error" role="alert">${errorText.value}</p>` : null)}
      </div>
      <footer>
        <span class="grow result" role="status">${() => (isSaving.value ? t("Checking …") : null)}</span>
        ${button(t("Cancel"), close, { kind: "quiet" })}
        <button type="submit" class="button primary" ?disabled=${() => isSaving.value}>
          ${existing ? t("Save") : t("Create")}
        </button>
      </footer>
    </form>
  `;
}

/** @param {FormData} data @param {Embedder | undefined} existing What to send; of an existing one, what changed. */
function bodyOf(data, existing) {
  const text = (/** @type {string} */ name) => String(data.get(name) ?? "");
  /** @type {Record<string, any>} */ const body = { url: text("url").trim(), model: text("model").trim() };
  if (!existing) body.name = text("name").trim();
  for (const name of NUMBERS) if (text(name)) body[name] = Number(text(name));
  for (const name of REMOVABLE) body[name] = text(name) ? Number(text(name)) : null;
  for (const name of ["queryPrefix", "documentPrefix"]) body[name] = text(name);
  body.languages = text("languages").split(/[\s,]+/).filter(Boolean);
  body.sendDimensions = data.has("sendDimensions");
  if (text("apiKey").trim()) body.apiKey = text("apiKey").trim();
  if (!existing) return body;
  const isChanged = (/** @type {[string, any]} */ [name, value]) =>
    JSON.stringify(value) !== JSON.stringify(/** @type {any} */ (existing)[name] ?? (name === "languages" ? [] : null));
  return Object.fromEntries(Object.entries(body).filter(isChanged));
}

/**
 * @param {Embedder | undefined} existing @param {Errors} errors @param {string} name @param {string} label
 * @param {{hint?: string, placeholder?: string, type?: string, step?: string, required?: boolean,
 *   focus?: boolean}} [options]
 */
const fieldOf = (existing, errors, name, label, options = {}) =>
  textField({
    label,
    name,
    value: String(/** @type {any} */ (existing)?.[name] ?? ""),
    error: () => errors.value[name],
    ...options,
  });

/** @param {Embedder | undefined} existing @param {Errors} errors */
function endpointFields(existing, errors) {
  const keepKey = t("Leave empty to keep the current value");
  const name = fieldOf(existing, errors, "name", t("Name"), { required: true, focus: true });
  return html`
    <div class="pair">
      ${existing ? null : name} ${fieldOf(existing, errors, "model", t("Model"), { required: true })}
    </div>
    <div class="pair">
      ${fieldOf(existing, errors, "url", t("URL"), {
        type: "url",
        required: true,
        placeholder: "https://api.example.com/v1",
        hint: t("An API of OpenAI's form: OpenAI, Ollama, vLLM, TEI and others."),
      })}
      ${textField({
        label: t("API key"),
        name: "apiKey",
        type: "password",
        placeholder: existing?.hasKey ? keepKey : undefined,
        hint: t("It is encrypted and never shown. Empty if the endpoint needs none."),
        error: () => errors.value.apiKey,
      })}
    </div>
  `;
}

/** @param {Embedder | undefined} existing @param {Errors} errors */
function modelFields(existing, errors) {
  const languages = (existing?.languages ?? []).join(", ");
  return html`
    <fieldset>
      <legend>${t("Model")}</legend>
      <div class="pair">
        ${fieldOf(existing, errors, "dimensions", t("Dimensions"), {
          type: "number",
          hint: t("Empty: the endpoint is asked."),
        })}
        ${fieldOf(existing, errors, "maxTokens", t("Longest text, in tokens"), { type: "number", placeholder: "512" })}
      </div>
      <div class="pair">
        ${fieldOf(existing, errors, "queryPrefix", t("Text before queries"), { placeholder: "query: " })}
        ${fieldOf(existing, errors, "documentPrefix", t("Text before documents"), { placeholder: "passage: " })}
      </div>
      <div class="pair">
        ${textField({
          label: t("Languages"),
          name: "languages",
          value: languages,
          placeholder: "en, zh",
          hint: t("Those that it knows. Empty means all."),
          error: () => errors.value.languages,
        })}
        ${fieldOf(existing, errors, "pricePerMillionTokens", t("Price of a million tokens"), {
          type: "number",
          step: "any",
          hint: t("In any currency, used for estimates."),
        })}
      </div>
      ${checkboxField({
        label: t("Send the dimensions with each request"),
        name: "sendDimensions",
        checked: existing?.sendDimensions ?? false,
      })}
    </fieldset>
  `;
}

/** @param {Embedder | undefined} existing @param {Errors} errors */
const limitFields = (existing, errors) =>
  html`
    <fieldset>
      <legend>${t("Limits")}</legend>
      <div class="pair">
        ${fieldOf(existing, errors, "requestsPerMinute", t("Requests per minute"), {
          type: "number",
          placeholder: t("no limit"),
        })}
        ${fieldOf(existing, errors, "tokensPerMinute", t("Tokens per minute"), {
          type: "number",
          placeholder: t("no limit"),
        })}
      </div>
      <div class="pair">
        ${fieldOf(existing, errors, "concurrency", t("Requests at the same time"), {
          type: "number",
          placeholder: "8",
        })}
        ${fieldOf(existing, errors, "batchSize", t("Texts in one request"), { type: "number", placeholder: "64" })}
        ${fieldOf(existing, errors, "timeoutSeconds", t("Timeout, in seconds"), {
          type: "number",
          step: "any",
          placeholder: "60",
        })}
      </div>
    </fieldset>
  `;
