// @ts-check
/** The list of bases with their status, size, progress and last change. */

import { activeCount, bases, basesError, failedCount, leafCount, toneOf } from "../bases.js";
import { each, html } from "../core.js";
import { formatNumber, problemMessage, t } from "../i18n.js";
import { button } from "../components/button.js";
import { bar, dot, emptyState, relativeTime, setPageTitle } from "../components/status.js";
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
        <div class="actions">
          ${() => (allows("admin") ? button(t("Import"), openImport) : null)}
          ${() => (allows("editor") ? newBaseButton() : null)}
        </div>
      </div>
      <div class="scroll">${content}</div>
    </div>
  `;
}

const openNewBase = async () => (await import("./new-base.js")).openNewBase();
const openSampleBase = async () => (await import("./new-base.js")).openSampleBase();
const openImport = async () => (await import("./base/portable.js")).importBase();
const newBaseButton = () => button(t("New base"), openNewBase, { icon: "plus", kind: "primary" });

function noBases() {
  if (!allows("editor")) {
    return emptyState("base", t("No bases yet"), t("Bases appear here when someone gives you access to them."));
  }
  const text = t("A base holds documents that are searched together. Create one and drop files into it.");
  const sampleText = t(
    "Or look around in a sample base: eight documents in English and Chinese, which you can delete again.",
  );
  return html`
    <div class="welcome">
      ${emptyState("base", t("No bases yet"), text, newBaseButton())}
      <div class="sample">
        <p class="dim">${sampleText}</p>
        ${button(t("Try the sample base"), openSampleBase, { icon: "play" })}
      </div>
    </div>
  `;
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
  if (base.error) return problemMessage(base.error);
  if (activeCount(base)) return t("{n} in progress", { n: activeCount(base) });
  if (failedCount(base)) return t("{n} failed", { n: failedCount(base) });
  return base.embedder;
}
