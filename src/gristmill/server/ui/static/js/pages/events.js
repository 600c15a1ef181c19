// @ts-check
/** What happened, day by day, newest first; by base and by kind. */

import "../machine-words.js";
import { api } from "../api.js";
import { bases } from "../bases.js";
import { computed, each, html, signal } from "../core.js";
import { fetched } from "../fetched.js";
import { dayOf, number, t, timeOf } from "../i18n.js";
import { baseName } from "../names.js";
import { button } from "../parts/button.js";
import { dot, empty, titled } from "../parts/status.js";
import { segments, tabs } from "../parts/tabs.js";
import { refused } from "../parts/toast.js";
import { go, setQuery } from "../router.js";
import { problem } from "./queue.js";

/** @typedef {{id: string, type: string, baseId: string | null, subject: string | null, data: Record<string, any>, at: string}} Event */
/** @typedef {{items: Event[], nextCursor: string | null, titles: Record<string, string>}} Page */

const LATEST = "9223372036854775807";
/** @type {Record<string, string[]>} */
const KINDS = {
  documents: ["DocumentUploadCompleted", "DocumentIngestionCompleted", "ItemFailed", "ContainerAdded", "ContainerExpanded", "ItemsDeleted", "ItemsRemoved", "ReindexAccepted"],
  bases: ["BaseCreated", "BaseChanged", "BaseFailed", "BaseRestored", "BaseDeleted", "BaseRemoved", "KnowledgeSpaceAllDocumentsIngested"],
  problems: ["ItemFailed", "BaseFailed", "Reconciled"],
};

/** @type {Record<string, string>} what each event says; `{…}` is of its data */
const SAYS = {
  DocumentUploadCompleted: "was added",
  EmbeddedDocumentsExtracted: "holds {documents} documents",
  DocumentContentExtracted: "was read: {characters} characters",
  DocumentChunkingCompleted: "was cut into {chunks} chunks",
  DocumentIndexingCompleted: "answers searches, with {chunks} chunks",
  AllAssetsAnalyzed: "had {assets} images and tables described",
  DocumentIngestionCompleted: "is done, as version {version}",
  ItemFailed: "failed",
  ContainerAdded: "was added; what it holds follows",
  ContainerExpanded: "is listed",
  ItemsDeleted: "{items} items were deleted",
  ItemsRemoved: "{items} items and {chunks} chunks are gone",
  ReindexAccepted: "is being read anew",
  KnowledgeSpaceAllDocumentsIngested: "Everything is indexed: {completed} completed, {failed} failed",
  BaseCreated: "was made",
  BaseChanged: "was changed",
  BaseFailed: "failed",
  BaseRestored: "works again",
  BaseDeleted: "was deleted",
  BaseRemoved: "is gone, with {items} items",
  Reconciled: "The reconciler put something right",
};

/** @param {Event} event @returns {import("../parts/status.js").Tone} */
function toneOf(event) {
  if (event.type === "ItemFailed" || event.type === "BaseFailed") return "failed";
  if (event.type === "Reconciled") return "warn";
  if (/IngestionCompleted|AllDocumentsIngested|BaseRestored|BaseCreated/.test(event.type)) return "ok";
  return "off";
}

/** @param {"timeline" | "webhooks"} here */
export const views = (here) =>
  segments(t("Events"), [{ id: "timeline", label: t("Timeline") }, { id: "webhooks", label: t("Webhooks") }], () => here, (id) => go(id === "webhooks" ? "/events/webhooks" : "/events"));

/** @param {import("../router.js").LiveRoute} route */
export function page(route) {
  titled(() => t("Events"));
  const base = () => route.value.query.get("base") ?? "";
  const kind = () => route.value.query.get("kind") ?? "all";
  const asked = (/** @type {string} */ before) => ({ before, limit: 100, baseId: base(), types: KINDS[kind()]?.join(",") });
  const older = signal(/** @type {Page[]} */ ([]));
  /** @type {import("../fetched.js").Fetched<Page>} */
  const newest = fetched(() => api.get("/events", asked(LATEST)), { live: { topic: "event" }, rest: 1000, every: () => 30_000 });
  const choose = (/** @type {Record<string, string | null>} */ what) => {
    setQuery(what);
    older.value = [];
    newest.value.value = null;
    newest.renew();
  };
  const found = computed(() => {
    const pages = [newest.value.value, ...older.value].filter((page) => page !== null);
    const events = new Map(pages.flatMap((page) => page.items).map((event) => [event.id, event]));
    return { events: [...events.values()], titles: Object.assign({}, ...pages.map((page) => page.titles)), next: pages.at(-1)?.nextCursor ?? null };
  });
  const more = async () => {
    try {
      older.value = [...older.peek(), await api.get("/events", asked(/** @type {string} */ (found.peek().next)))];
    } catch (error) {
      refused(error);
    }
  };
  return html`<div class="page"><div class="top"><h1>${t("Events")}</h1><div class="actions">${views("timeline")}</div></div>
    <div class="filters">${tabs(
      t("Kind"),
      [{ id: "all", label: t("All") }, { id: "documents", label: t("Documents") }, { id: "bases", label: t("Bases") }, { id: "problems", label: t("Problems") }],
      kind,
      (id) => choose({ kind: id === "all" ? null : id }),
    )}<select class="input" aria-label="${t("Base")}" @change=${(/** @type {any} */ event) => choose({ base: event.target.value || null })}><option value="">${t("All bases")}</option>${() =>
      (bases.value ?? []).map((one) => html`<option value="${one.id}" ?selected=${one.id === base()}>${one.name}</option>`)}</select></div>
    <div class="scroll">${() => problem(newest.error.value)}<div class="timeline" role="list" aria-label="${t("Events")}">${each(
      () => withDays(found.value.events),
      (one) => one.key,
      (one) => (one.peek().day ? html`<div role="listitem" class="day"><h2>${one.peek().day}</h2></div>` : row(/** @type {Event} */ (one.peek().event), () => found.value.titles)),
    )}</div>${() => (found.value.next ? html`<div class="foot">${button(t("Show older ones"), more)}</div>` : null)}
    ${() => (newest.value.value && !found.value.events.length ? empty("pulse", t("Nothing happened yet"), t("What is added, indexed, deleted or goes wrong is written down here.")) : null)}</div></div>`;
}

/** @param {Event[]} events @returns {{key: string, day?: string, event?: Event}[]} */
function withDays(events) {
  /** @type {{key: string, day?: string, event?: Event}[]} */ const rows = [];
  let last = "";
  for (const event of events) {
    const day = dayOf(event.at);
    if (day !== last) rows.push({ key: day, day });
    last = day;
    rows.push({ key: event.id, event });
  }
  return rows;
}

/** @param {Event} event @param {() => Record<string, string>} titles */
function row(event, titles) {
  const { data, baseId, subject } = event;
  const title = () => (subject ? (titles()[subject] ?? data.title ?? t("Something that is gone")) : (data.name ?? null));
  const link = () => (subject && titles()[subject] ? `/b/${baseId}/i/${subject}` : baseId && data.name ? `/b/${baseId}` : null);
  const shown = Object.fromEntries(Object.entries(data).map(([name, value]) => [name, typeof value === "number" ? number(value) : value]));
  const n = [data.documents, data.assets, data.items, data.chunks, data.characters].find((one) => typeof one === "number");
  const said = t(SAYS[event.type] ?? event.type, { ...shown, n });
  return html`<div class="event" role="listitem"><time class="dim" datetime="${event.at}">${timeOf(event.at)}</time>${dot(() => toneOf(event))}
    <div class="grow"><div class="cut">${() => (title() ? (link() ? html`<a href="${link()}">${title()}</a> ` : html`<b>${title()} </b>`) : null)}<span class="${title() ? "dim" : ""}">${said}</span></div>${data.message ? html`<p class="error">${data.message}</p>` : null}</div>
    <span class="dim small-text cut hide-phone">${() => (baseId ? baseName(baseId) : "")}</span></div>`;
}
