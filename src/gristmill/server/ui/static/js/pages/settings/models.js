// @ts-check
/** The embedders that bases can use, with a button that tests each. Admins store, change and delete their own. */

import { api } from "../../api.js";
import { button } from "../../components/button.js";
import { confirm } from "../../components/dialog.js";
import { icon } from "../../components/icon.js";
import { kebab } from "../../components/menu.js";
import { dot, errorBanner } from "../../components/status.js";
import { showError } from "../../components/toast.js";
import { each, html, signal } from "../../core.js";
import { formatDuration, problemMessage, t } from "../../i18n.js";
import { resource } from "../../resource.js";
import { allows } from "../../session.js";
import { openEmbedderDialog } from "./embedder-form.js";

/** @import { Signal } from "../../core.js" */
/** @import { Resource } from "../../resource.js" */
/** @import { Embedder } from "./embedder-form.js" */

export function modelsSection() {
  /** @type {Resource<Embedder[]>} */
  const embedders = resource(async () => (await api.get("/embedders")).items);
  const rows = each(
    () => embedders.value.value ?? [],
    (embedder) => embedder.name,
    (embedder) => modelRow(embedder, embedders),
  );
  const openDialog = () => openEmbedderDialog(undefined, () => embedders.refresh());
  return html`
    ${() => errorBanner(embedders.error.value)}
    <div class="section">
      <h2>${t("Models")}</h2>
      ${() => (allows("admin") ? button(t("New embedder"), openDialog, { icon: "plus", small: true }) : null)}
    </div>
    <div class="rows first" role="list" aria-label="${t("Models")}">${rows}</div>
    <p class="foot dim small-text">
      ${t("Models turn texts into vectors. New bases use the default one, unless you choose another.")}
    </p>
  `;
}

/** @param {Signal<Embedder>} embedder @param {Resource<Embedder[]>} embedders */
function modelRow(embedder, embedders) {
  const testResult = signal(/** @type {any} */ (null));
  const { name } = embedder.peek();
  const test = async () => {
    testResult.value = "checking";
    try {
      testResult.value = await api.post(`/embedders/${encodeURIComponent(name)}/test`);
    } catch (error) {
      testResult.value = null;
      showError(error);
    }
  };
  const defaultChip = () => (embedder.value.isDefault ? html`<span class="chip">${t("Default")}</span>` : null);
  const isTesting = () => testResult.value === "checking";
  const actions = () => [
    button(t("Test"), test, { small: true, title: `${t("Test")}: ${name}`, disabled: isTesting }),
    kebab(t("More for {name}", { name }), () => menuEntries(embedder.peek(), embedders)),
  ];
  return html`
    <div class="entry" role="listitem">
      ${icon("base")}
      <span class="grow two-line">
        <b class="cut">${name} ${defaultChip}</b>
        <span class="dim cut">${() => describe(embedder.value)}</span>
      </span>
      <span class="result" role="status">${() => testResultView(testResult.value)}</span>
      ${() => (allows("admin") ? actions() : null)}
    </div>
  `;
}

/** @param {Embedder} embedder */
function describe(embedder) {
  const { dimensions, maxTokens: tokens, model, url, origin } = embedder;
  const origins = { builtin: t("Built in"), settings: t("Of the settings"), stored: url ?? "" };
  return [
    model,
    t("{dimensions} dimensions, up to {tokens} tokens", { dimensions, tokens }),
    embedder.englishOnly ? t("English only") : null,
    origins[origin],
  ].filter(Boolean).join(" · ");
}

/** @param {Embedder} embedder @param {Resource<Embedder[]>} embedders */
function menuEntries(embedder, embedders) {
  const remove = async () => {
    const isConfirmed = await confirm({
      title: t("Delete {name}?", { name: embedder.name }),
      text: t("Its key is deleted too. An embedder that a base uses can't be deleted."),
      action: t("Delete"),
    });
    if (!isConfirmed) return;
    const others = (embedders.value.peek() ?? []).filter((other) => other.name !== embedder.name);
    await embedders.update(others, () => api.delete(`/embedders/${encodeURIComponent(embedder.name)}`));
  };
  const makeDefault = async () => {
    const all = (embedders.value.peek() ?? []).map((other) => ({ ...other, isDefault: other.name === embedder.name }));
    await embedders.update(all, () => api.put(`/embedders/${encodeURIComponent(embedder.name)}/default`, {}));
  };
  const choose = { label: t("Use for new bases"), icon: "base", onselect: makeDefault };
  if (embedder.origin !== "stored") return [choose];
  return [
    choose,
    { label: t("Edit"), icon: "gear", onselect: () => openEmbedderDialog(embedder, () => embedders.refresh()) },
    { label: t("Delete"), icon: "trash", danger: true, onselect: remove },
  ];
}

/** @param {{ok: boolean, tookMs: number, error: {message: string}} | "checking" | null} result */
function testResultView(result) {
  if (!result) return null;
  if (result === "checking") return html`<span class="dim">${t("Checking …")}</span>`;
  const tone = result.ok ? "ok" : "failed";
  const text = result.ok
    ? t("Works: {time}", { time: formatDuration(result.tookMs / 1000) })
    : problemMessage(result.error);
  return html`<span class="status ${tone}">${dot(tone)}<span>${text}</span></span>`;
}
