// @ts-check
/** How much room the installation takes: the database, uploads, and each base with its embedder; the version. */

import { api } from "../../api.js";
import { dot, emptyState, errorBanner } from "../../components/status.js";
import { html } from "../../core.js";
import { formatBytes, formatNumber, t } from "../../i18n.js";
import { resource } from "../../resource.js";

/** @import { Resource } from "../../resource.js" */
/**
 * @typedef {{id: string, name: string, status: string, embedder: string, dimensions: number, indexKind: string,
 *   items: number, chunks: number, chunkBytes: number, indexBytes: number, uploadBytes: number}} BaseStorage
 * @typedef {{version: string, databaseBytes: number, chunkBytes: number, indexBytes: number, contentBytes: number,
 *   uploads: number, uploadBytes: number, bases: BaseStorage[]}} Storage
 */

export function storageSection() {
  /** @type {Resource<Storage>} */
  const storage = resource(() => api.get("/storage"), { every: () => 10_000 });
  const figures = () => {
    const totals = storage.value.value;
    if (!totals) return null;
    const facts = [
      [t("Database"), formatBytes(totals.databaseBytes)],
      [t("Chunks and vectors"), formatBytes(totals.chunkBytes)],
      [t("Keyword index"), formatBytes(totals.indexBytes)],
      [t("Texts"), formatBytes(totals.contentBytes)],
      [t("Uploads"), formatBytes(totals.uploadBytes)],
      [t("Version"), totals.version],
    ];
    const cells = facts.map(([name, value]) =>
      html`
        <div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>
      `
    );
    return html`<dl class="figures">${cells}</dl>`;
  };
  const rows = () => (storage.value.value?.bases ?? []).map(baseRow);
  const empty = () =>
    storage.value.value?.bases.length === 0
      ? emptyState("base", t("Nothing here yet"), t("Bases appear here with the room they take."))
      : null;
  return html`
    ${() => errorBanner(storage.error.value)}${figures}
    <div class="rows first" role="list" aria-label="${t("Bases")}">${rows}</div>
    ${empty}
  `;
}

/** @param {BaseStorage} base */
function baseRow(base) {
  const index = base.indexKind === "embedded" ? t("embedded index") : t("search engine");
  const counts = `${t("{n} items", { n: base.items })} · ${t("{n} chunks", { n: base.chunks })}`;
  const model = `${base.embedder} (${formatNumber(base.dimensions)})`;
  return html`
    <div class="entry" role="listitem">
      ${dot(() => (base.status === "ready" ? "ok" : "failed"))}
      <span class="grow two-line">
        <a class="cut" href="/b/${base.id}"><b>${base.name}</b></a>
        <span class="dim cut">${[counts, model, index].join(" · ")}</span>
      </span>
      <span class="right">${formatBytes(base.chunkBytes + base.indexBytes + base.uploadBytes)}</span>
    </div>
  `;
}
