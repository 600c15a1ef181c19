// @ts-check
/**
 * The dialog that creates a base. It asks for the languages of its documents and proposes the embedding model for them,
 * since a base keeps its model; and it shows what can be added.
 */

import "../find-locale.js";
import { api } from "../api.js";
import { putBase } from "../bases.js";
import { capabilities, loadCapabilities } from "../capabilities.js";
import { button } from "../components/button.js";
import { dialog } from "../components/dialog.js";
import { showError } from "../components/toast.js";
import { computed, html, signal } from "../core.js";
import { formatBytes, formatNumber, language, languageName, t } from "../i18n.js";
import { go } from "../router.js";
import { countKnown, proposeEmbedder } from "./propose-embedder.js";

/** @import { Computed, Signal } from "../core.js" */
/** @import { Embedder } from "./propose-embedder.js" */

const COMMON = ["en", "zh", "es", "fr", "de", "ja"];
/** @type {Record<string, string>} */
const FAMILIES = {
  documents: "Documents",
  office: "Office files",
  text: "Text and code",
  web: "Web files",
  mail: "Mail",
  images: "Images, by OCR",
  subtitles: "Subtitles",
  archives: "Archives",
  recordings: "Sound and video",
};

/** @param {Embedder} embedder What choosing it means, in a sentence or two. */
function describe(embedder) {
  const { origin, languages, pricePerMillionTokens: price, model, url } = embedder;
  if (origin === "builtin") {
    const scope = embedder.englishOnly
      ? t("Built in, for English texts: the better choice where everything is English.")
      : t("Built in, for {n} languages: a question in one finds documents in another.", { n: languages?.length ?? 0 });
    return `${scope} ${t("Runs on this server and costs nothing.")}`;
  }
  const place = url ? t("Texts are sent to {url}.", { url }) : t("Texts are sent to an endpoint of the operator.");
  const cost = price === null ? "" : t("Costs {price} per million tokens.", { price: formatNumber(price) });
  return [t("Model {model}.", { model: model ?? embedder.name }), place, cost].filter(Boolean).join(" ");
}

/** Opens the dialog. */
export function openNewBase() {
  loadCapabilities();
  const embedders = signal(/** @type {Embedder[]} */ ([]));
  api.get("/embedders").then((page) => (embedders.value = page.items), showError);
  const codes = signal(language === "zh" ? ["zh", "en"] : ["en"]);
  const choice = signal("");
  const names = computed(() => {
    const known = capabilities.value?.languages ?? [];
    return known.filter(({ code }) => codes.value.includes(code)).map(({ name }) => name);
  });
  const proposed = computed(() => proposeEmbedder(embedders.value, names.value)?.name ?? "");
  const chosen = computed(() => choice.value || proposed.value);
  const errorText = signal("");
  dialog(t("New base"), (close) => {
    const submit = async (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      const form = /** @type {HTMLFormElement} */ (event.target);
      const name = /** @type {HTMLInputElement} */ (form.elements.namedItem("name"));
      try {
        const body = { name: name.value, languages: codes.peek(), embedder: chosen.peek() || undefined };
        const base = await api.post("/knowledge-bases", body);
        putBase(base);
        close();
        go(`/b/${base.id}`);
      } catch (error) {
        errorText.value = /** @type {Error} */ (error).message;
        name.setAttribute("aria-invalid", "true");
        name.focus();
      }
    };
    return html`
      <form @submit=${submit}>
        <div class="dialog-body">
          <label class="field">
            <span>${t("Name")}</span>
            <input name="name" required maxlength="200" autocomplete="off" autofocus aria-describedby="new-base-error">
            <span class="error" id="new-base-error" role="alert">${() => errorText.value}</span>
          </label>
          ${languageField(codes)}${embedderField(embedders, names, proposed, chosen, choice)}${acceptedTypes()}
        </div>
        <footer>
          ${button(t("Cancel"), close, { kind: "quiet" })}
          <button class="button primary">${t("Create")}</button>
        </footer>
      </form>
    `;
  }, { wide: true });
}

/** @param {Signal<string[]>} codes */
function languageField(codes) {
  const toggle = (/** @type {string} */ code) => {
    const list = codes.peek();
    codes.value = list.includes(code) ? list.filter((other) => other !== code) : [...list, code];
  };
  const chip = (/** @type {string} */ code) => {
    const isPressed = () => String(codes.value.includes(code));
    const onclick = () => toggle(code);
    return html`
      <button type="button" class="chip-toggle" aria-pressed="${isPressed}" @click=${onclick}>
        ${languageName(code)}
      </button>
    `;
  };
  const shown = () => [...COMMON, ...codes.value.filter((code) => !COMMON.includes(code))];
  const others = () =>
    (capabilities.value?.languages ?? [])
      .filter(({ code }) => !shown().includes(code))
      .map(({ code }) => html`<option value="${code}">${languageName(code)}</option>`);
  const onchange = (/** @type {Event} */ event) => {
    const select = /** @type {HTMLSelectElement} */ (event.target);
    if (select.value) toggle(select.value);
    select.value = "";
  };
  return html`
    <fieldset class="field">
      <legend>${t("Languages of its documents")}</legend>
      <div class="chips">
        ${() => shown().map(chip)}
        <select class="input" aria-label="${t("Another language")}" @change=${onchange}>
          <option value="">${t("Another language")} …</option>${others}
        </select>
      </div>
    </fieldset>
  `;
}

/**
 * @param {Signal<Embedder[]>} embedders @param {Computed<string[]>} names @param {Computed<string>} proposed
 * @param {Computed<string>} chosen @param {Signal<string>} choice
 */
function embedderField(embedders, names, proposed, chosen, choice) {
  const row = (/** @type {Embedder} */ embedder) => {
    const { name } = embedder;
    const badge = () => proposed.value === name ? html`<span class="chip">${t("proposed")}</span>` : null;
    const onchange = () => {
      choice.value = name;
    };
    const missing = () => names.value.length - countKnown(embedder, names.value);
    const warning = () =>
      missing() > 0 && chosen.value === name
        ? html`<span class="warning">${
          t("It doesn't know all of these languages: there, search finds words only.")
        }</span>`
        : null;
    return html`
      <label class="option">
        <input type="radio" name="embedder" value="${name}" .checked=${() => chosen.value === name} @change=${onchange}>
        <span><b>${name}</b> ${badge}<small>${describe(embedder)}</small>${warning}</span>
      </label>
    `;
  };
  return html`
    <fieldset class="field">
      <legend>${t("Embedding model")}</legend>
      <p class="hint">
        ${t("It decides what search by meaning understands. Changing it later embeds everything again.")}
      </p>
      ${() => embedders.value.map(row)}
    </fieldset>
  `;
}

/** What can be added, and how large it may be. */
function acceptedTypes() {
  const families = () =>
    (capabilities.value?.formats ?? []).map(({ family, extensions }) =>
      html`
        <div>
          <dt>${t(FAMILIES[family] ?? family)}</dt>
          <dd>${extensions.join(", ")}</dd>
        </div>
      `
    );
  const limits = () => {
    const sizes = capabilities.value?.limits;
    if (!sizes) return "";
    const values = { document: formatBytes(sizes.documentBytes), upload: formatBytes(sizes.uploadBytes) };
    return t("A document may have {document}, all files of one upload {upload}.", values);
  };
  return html`
    <details class="accepted">
      <summary>${t("What can be added?")}</summary>
      <p>${t("Files, folders, web pages, sitemaps, notes and connectors.")} ${limits}</p>
      <dl>${families}</dl>
    </details>
  `;
}

/** Creates the sample base, and goes to it. */
export async function openSampleBase() {
  try {
    const base = await api.post("/sample-base");
    putBase(base);
    go(`/b/${base.id}`);
  } catch (error) {
    showError(error);
  }
}
