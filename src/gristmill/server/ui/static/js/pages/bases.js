// @ts-check
/** All bases: how each is, how much is in it, how far it is, when something last changed; and a new one. */

import { api } from "../api.js";
import { active, bases, basesError, putBase, toneOf, total } from "../bases.js";
import { each, html } from "../core.js";
import { number, t } from "../i18n.js";
import { button } from "../parts/button.js";
import { dialog } from "../parts/dialog.js";
import { bar, dot, empty, since, titled } from "../parts/status.js";
import { go } from "../router.js";

export function page() {
  titled(() => t("Bases"));
  const create = () => button(t("New base"), openNewBase, { icon: "plus", kind: "primary" });
  return html`<div class="page">
    <div class="top"><h1>${t("Bases")}</h1><div class="actions">${create()}</div></div>
    <div class="scroll">${() => {
      if (bases.value?.length) return list();
      if (bases.value) return empty("base", t("No base yet"), t("A base holds documents that are searched together. Make one, and drop files into it."), create());
      return basesError.value ? empty("warn", t("The bases can't be shown"), basesError.value.message) : null;
    }}</div>
  </div>`;
}

function list() {
  return html`<div class="base-list"><div class="base-head" aria-hidden="true"><span>${t("Name")}</span><span>${t("Items")}</span><span>${t("Chunks")}</span><span>${t("Progress")}</span><span>${t("Last change")}</span></div>
  <ul class="rows">${each(
    () => bases.value ?? [],
    (base) => base.id,
    (base) => html`<li><a class="base-row" href="${() => `/b/${base.value.id}`}">
      <span class="base-name">${dot(() => toneOf(base.value))}<span><b class="cut">${() => base.value.name}</b><small class="cut ${() => (base.value.error ? "bad" : "")}">${() => said(base.value)}</small></span></span>
      <span class="n"><span class="hide-desk">${t("Items")}</span>${() => number(total(base.value))}</span>
      <span class="n"><span class="hide-desk">${t("Chunks")}</span>${() => number(base.value.chunkCount)}</span>
      <span class="done">${() => (active(base.value) ? bar(() => base.value.progress) : null)}<span>${() => (total(base.value) ? `${number(base.value.progress)}%` : "–")}</span></span>
      <span class="n dim">${since(() => base.value.changedAt)}</span>
    </a></li>`,
  )}</ul></div>`;
}

/** @param {import("../bases.js").Base} base */
function said(base) {
  if (base.error) return base.error.message;
  if (active(base)) return t("{n} in work", { n: active(base) });
  if (base.leafCounts.failed) return t("{n} failed", { n: base.leafCounts.failed });
  return base.embedder;
}

export function openNewBase() {
  dialog(t("New base"), (close) => {
    const form = /** @type {HTMLFormElement} */ (
      html`<form @submit=${async (/** @type {SubmitEvent} */ event) => {
        event.preventDefault();
        const name = /** @type {HTMLInputElement} */ (form.elements.namedItem("name"));
        const told = /** @type {HTMLElement} */ (form.querySelector(".error"));
        try {
          const base = await api.post("/knowledge-bases", { name: name.value });
          putBase(base);
          close();
          go(`/b/${base.id}`);
        } catch (error) {
          told.textContent = /** @type {Error} */ (error).message;
          name.setAttribute("aria-invalid", "true");
          name.focus();
        }
      }}>
        <div class="dialog-body"><label class="field"><span>${t("Name")}</span><input name="name" required maxlength="200" autocomplete="off" autofocus aria-describedby="new-base-error">
          <span class="error" id="new-base-error" role="alert"></span></label></div>
        <footer>${button(t("Cancel"), close, { kind: "quiet" })}<button class="button primary">${t("Create")}</button></footer>
      </form>`
    );
    return form;
  });
}
