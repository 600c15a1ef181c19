// @ts-check
/** The list of bases with their status, size, progress and last change; and the dialog that creates one. */

import { api } from "../api.js";
import { activeCount, bases, basesError, leafCount, putBase, toneOf } from "../bases.js";
import { each, html, signal } from "../core.js";
import { formatNumber, t } from "../i18n.js";
import { button } from "../components/button.js";
import { dialog } from "../components/dialog.js";
import { bar, dot, emptyState, relativeTime, setPageTitle } from "../components/status.js";
import { go } from "../router.js";
import { allows } from "../session.js";

/** @import { Base } from "../bases.js" */
/** @import { Signal } from "../core.js" */

export function page() {
  setPageTitle(() => t("Bases"));
  const content = () => {
    if (bases.value?.length) return baseList();
    if (bases.value) return noBases();
    return basesError.value ? emptyState("warn", t("Can't load the bases"), basesError.value.message) : null;
  };
  return html`
    <div class="page">
      <div class="top">
        <h1>${t("Bases")}</h1>
        <div class="actions">${() => (allows("editor") ? newBaseButton() : null)}</div>
      </div>
      <div class="scroll">${content}</div>
    </div>
  `;
}

const newBaseButton = () => button(t("New base"), openNewBase, { icon: "plus", kind: "primary" });

function noBases() {
  if (!allows("editor")) {
    return emptyState("base", t("No bases yet"), t("Bases appear here when someone gives you access to them."));
  }
  const text = t("A base holds documents that are searched together. Create one and drop files into it.");
  return emptyState("base", t("No bases yet"), text, newBaseButton());
}

function baseList() {
  return html`
    <div class="base-list">
      <div class="base-head" aria-hidden="true">
        <span>${t("Name")}</span>
        <span>${t("Items")}</span>
        <span>${t("Chunks")}</span>
        <span>${t("Progress")}</span>
        <span>${t("Last changed")}</span>
      </div>
      <ul class="rows">${each(() => bases.value ?? [], (base) => base.id, baseRow)}</ul>
    </div>
  `;
}

/** @param {Signal<Base>} base */
function baseRow(base) {
  const progress = () => (activeCount(base.value) ? bar(() => base.value.progress) : null);
  const percent = () => (leafCount(base.value) ? `${formatNumber(base.value.progress)}%` : "–");
  return html`
    <li>
      <a class="base-row" href="${() => `/b/${base.value.id}`}">
        <span class="base-name">
          ${dot(() => toneOf(base.value))}
          <span>
            <b class="cut">${() => base.value.name}</b>
            <small class="cut ${() => (base.value.error ? "bad" : "")}">${() => describeState(base.value)}</small>
          </span>
        </span>
        <span class="n"><span class="hide-desk">${t("Items")}</span>${() => formatNumber(leafCount(base.value))}</span>
        <span class="n"><span class="hide-desk">${t("Chunks")}</span>${() => formatNumber(base.value.chunkCount)}</span>
        <span class="done">${progress}<span>${percent}</span></span>
        <span class="n dim">${relativeTime(() => base.value.changedAt)}</span>
      </a>
    </li>
  `;
}

/** @param {Base} base */
function describeState(base) {
  if (base.error) return base.error.message;
  if (activeCount(base)) return t("{n} in progress", { n: activeCount(base) });
  if (base.leafCounts.failed) return t("{n} failed", { n: base.leafCounts.failed });
  return base.embedder;
}

/** Lets people choose among the embedders, once they are loaded; without a choice the server chooses. */
function embedderField() {
  const embedders = signal(/** @type {{name: string, isDefault: boolean}[]} */ ([]));
  api.get("/embedders").then((page) => (embedders.value = page.items), () => {});
  const choices = () =>
    embedders.value.filter((embedder) => !embedder.isDefault).map(({ name }) =>
      html`<option value="${name}">${name}</option>`
    );
  const defaultName = () => embedders.value.find((embedder) => embedder.isDefault)?.name ?? t("Default");
  return html`
    <label class="field">
      <span>${t("Embedding model")}</span>
      <select name="embedder"><option value="">${defaultName}</option>${choices}</select>
    </label>
  `;
}

export function openNewBase() {
  dialog(t("New base"), (close) => {
    const submit = async (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      const form = /** @type {HTMLFormElement} */ (event.target);
      const name = /** @type {HTMLInputElement} */ (form.elements.namedItem("name"));
      try {
        const embedder = /** @type {HTMLSelectElement} */ (form.elements.namedItem("embedder")).value || undefined;
        const base = await api.post("/knowledge-bases", { name: name.value, embedder });
        putBase(base);
        close();
        go(`/b/${base.id}`);
      } catch (error) {
        const errorLine = /** @type {HTMLElement} */ (form.querySelector(".error"));
        errorLine.textContent = /** @type {Error} */ (error).message;
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
            <span class="error" id="new-base-error" role="alert"></span>
          </label>
          ${embedderField()}
        </div>
        <footer>
          ${button(t("Cancel"), close, { kind: "quiet" })}
          <button class="button primary">${t("Create")}</button>
        </footer>
      </form>
    `;
  });
}
