// @ts-check
/** One item beside the tree: where it comes from, how it is, and its chunks, content, images and history. */

import { api } from "../../api.js";
import { computed, effect, html, signal } from "../../core.js";
import { bytes, full, t } from "../../i18n.js";
import { live } from "../../live.js";
import { button, iconButton } from "../../parts/button.js";
import { icon, iconOf } from "../../parts/icon.js";
import { bar, empty, holds, since, status, statusOf } from "../../parts/status.js";
import { tabs } from "../../parts/tabs.js";
import { go, setQuery } from "../../router.js";
import { warningsOf } from "../../tree/warnings.js";
import { chunksOf } from "./chunks.js";
import { assetsOf, contentOf, timelineOf } from "./inside.js";

/** @typedef {import("../../tree/model.js").Item} Item */

/**
 * @param {string} base @param {string} id @param {import("../../router.js").LiveRoute} route
 * @param {{reindex(ids: string[]): void, remove(ids: string[]): void}} acts
 */
export function itemPane(base, id, route, acts) {
  const item = signal(/** @type {Item | null} */ (null));
  const failed = signal("");
  const fetch = async () => {
    try {
      item.value = (await api.get(`/knowledge-bases/${base}/tree`, { ids: [id] })).items[0] ?? null;
      failed.value = item.peek() ? "" : t("It may have been deleted.");
    } catch (error) {
      failed.value = /** @type {Error} */ (error).message;
    }
  };
  effect(() => {
    fetch();
    return live.on({ base }, (changes) => {
      for (const change of changes) {
        if (change.type === "reload") fetch();
        else if (change.type === "item" && change.item.id === id) item.value = { ...item.peek(), ...change.item };
      }
    });
  });
  const back = () => {
    const query = new URLSearchParams(location.search);
    query.delete("chunk");
    query.delete("tab");
    go(`/b/${base}${query.size ? `?${query}` : ""}`);
  };
  const here = computed(() => Boolean(item.value));
  return html`<div class="item-pane"><div class="pane-head">${iconButton(t("Back to the search"), "back", back)}<h2 class="cut">${() => item.value?.title ?? "…"}</h2>${() =>
    here.value
      ? html`<span class="acts">${iconButton(t("Reindex"), "retry", () => acts.reindex([id]))}${iconButton(t("Delete"), "trash", () => acts.remove([id]))}</span>`
      : null}</div>
    ${() => (here.value ? body(/** @type {import("../../core.js").Signal<Item>} */ (item), base, id, route, acts) : failed.value ? empty("file", t("This item can't be shown"), failed.value) : null)}</div>`;
}

/**
 * @param {import("../../core.js").Signal<Item>} item @param {string} base @param {string} id
 * @param {import("../../router.js").LiveRoute} route @param {{reindex(ids: string[]): void}} acts
 */
function body(item, base, id, route, acts) {
  const shown = () => item.value;
  const tab = computed(() => route.value.query.get("tab") ?? "chunks");
  // what is inside belongs to a version: fetched anew when another one answers
  const version = computed(() => `${tab.value} ${item.value.version} ${item.value.status === "completed"}`);
  return html`<div class="scroll pane-body" tabindex="0" role="region" aria-label="${() => item.value.title}">${facts(item, base, id, acts)}
    <div class="pane-tabs">${tabs(
      t("Inside"),
      [
        { id: "chunks", label: t("Chunks"), count: () => (holds(shown().type) ? null : shown().chunkCount) },
        { id: "content", label: t("Content") },
        { id: "assets", label: t("Images and tables") },
        { id: "timeline", label: t("Timeline") },
      ],
      () => tab.value,
      (chosen) => setQuery({ tab: chosen === "chunks" ? null : chosen }),
    )}</div>
    ${() => {
      void version.value;
      const kind = tab.value;
      if (kind === "content") return contentOf(id);
      if (kind === "assets") return assetsOf(id);
      if (kind === "timeline") return timelineOf(id);
      return chunksOf(id, route);
    }}</div>`;
}

/** @param {import("../../core.js").Signal<Item>} item @param {string} base @param {string} id @param {{reindex(ids: string[]): void}} acts */
function facts(item, base, id, acts) {
  const row = (/** @type {string} */ name, /** @type {unknown} */ value) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
  const moving = computed(() => !["completed", "failed"].includes(item.value.status));
  return html`<div class="item-facts"><dl>
    ${row(t("Status"), html`<span class="fact-state">${status(() => statusOf(item.value))}${() => (moving.value ? html`<span class="done">${bar(() => item.value.progress)}<span>${() => `${item.value.progress}%`}</span></span>` : null)}</span>`)}
    ${row(t("Source"), () => source(item.value))}
    ${() => (item.value.path?.length ? row(t("In"), item.value.path.join(" / ")) : null)}
    ${row(t("Size"), () => [bytes(item.value.sizeBytes), holds(item.value.type) ? "" : t("{n} chunks", { n: item.value.chunkCount }), item.value.version ? t("version {v}", { v: item.value.version }) : ""].filter(Boolean).join(" · "))}
    ${row(t("Changed"), html`<span>${since(() => item.value.updatedAt)} <span class="dim">· ${t("added {when}", { when: full(item.peek().createdAt) })}</span></span>`)}
    </dl>${() =>
      item.value.status === "failed"
        ? html`<div class="banner bad">${icon("warn")}<p>${item.value.error?.message ?? ""} <code class="dim">${item.value.error?.code ?? ""}</code></p>${button(t("Try again"), () => acts.reindex([id]), { small: true })}</div>`
        : null}${() => (item.value.waitingFor ? html`<div class="banner">${icon("pause")}<p>${item.value.waitingFor}</p></div>` : null)}${() =>
      warningsOf(item.value).map((one) => html`<div class="banner">${icon("warn")}<p>${one}</p></div>`)}
    <div class="links">${() =>
      ["file", "note", "url"].includes(item.value.type) ? html`<a class="button line small" href="${`/api/knowledge-items/${id}/original`}" download>${icon("download")}<span>${t("Original")}</span></a>` : null}${() => {
      const question = new URLSearchParams(location.search).get("q");
      return question ? button(t("Why not a hit?"), async () => (await import("./why-not.js")).openWhyNot(base, question, new URLSearchParams(location.search).get("mode") ?? "hybrid", item.value), { small: true, kind: "quiet" }) : null;
    }}</div></div>`;
}

/** @param {Item} item */
function source(item) {
  const { url, path, name } = item.source ?? {};
  if (url) return html`<a class="link cut" href="${url}" target="_blank" rel="noreferrer">${iconOf("url")}<span class="cut">${url}</span></a>`;
  if (path) return html`<code class="cut" title="${path}">${path}</code>`;
  return name ? t("Uploaded as {name}", { name }) : item.type === "note" ? t("Written here") : "–";
}

