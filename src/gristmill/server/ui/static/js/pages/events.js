// @ts-check
/** The timeline of events by day, newest first, with filters by base and kind. */

import "../admin-locale.js";
import { api } from "../api.js";
import { baseName, bases } from "../bases.js";
import { computed, each, html, signal } from "../core.js";
import { resource } from "../resource.js";
import { formatDay, formatTime, problemMessage, t } from "../i18n.js";
import { button } from "../components/button.js";
import { dot, emptyState, errorBanner, setPageTitle } from "../components/status.js";
import { segments, tabs } from "../components/tabs.js";
import { showError } from "../components/toast.js";
import { go, setQuery } from "../router.js";

/** @import { Tone } from "../components/status.js" */
/** @import { Resource } from "../resource.js" */
/** @import { LiveRoute } from "../router.js" */

/**
 * @typedef {{id: string, type: string, baseId: string | null, subject: string | null, data: Record<string, any>,
 *   at: string}} Event
 */
/** @typedef {{items: Event[], nextCursor: string | null, titles: Record<string, string>}} Page */

const LATEST = "9223372036854775807";
/** @type {Record<string, string[]>} */
const KINDS = {
  documents: [
    "DocumentUploadCompleted",
    "DocumentIngestionCompleted",
    "ItemFailed",
    "ContainerAdded",
    "ContainerExpanded",
    "ItemsDeleted",
    "ItemsRemoved",
    "ReindexAccepted",
  ],
  bases: [
    "BaseCreated",
    "BaseChanged",
    "BaseFailed",
    "BaseRestored",
    "BaseEmbedderSuggested",
    "BaseEmbedderCompared",
    "BaseEmbedderSwitched",
    "BaseDeleted",
    "BaseRemoved",
    "KnowledgeSpaceAllDocumentsIngested",
  ],
  problems: ["ItemFailed", "BaseFailed", "Reconciled"],
};

/** @type {Record<string, string>} the text of each event; `{…}` is filled in from its data */
const DESCRIPTIONS = {
  DocumentUploadCompleted: "was added",
  EmbeddedDocumentsExtracted: "contains {documents} documents",
  DocumentContentExtracted: "was read: {characters} characters",
  DocumentChunkingCompleted: "was split into {chunks} chunks",
  DocumentIndexingCompleted: "is searchable with {chunks} chunks",
  AllAssetsAnalyzed: "has descriptions for {assets} images and tables",
  DocumentIngestionCompleted: "was indexed as version {version}",
  ItemFailed: "failed",
  ContainerAdded: "was added; its contents follow",
  ContainerExpanded: "was scanned",
  ItemsDeleted: "{items} items were deleted",
  ItemsRemoved: "removed items: {items}, chunks: {chunks}",
  ReindexAccepted: "is being reindexed",
  KnowledgeSpaceAllDocumentsIngested: "Everything is indexed: {completed} completed, {failed} failed",
  BaseCreated: "was created",
  BaseChanged: "was changed",
  BaseFailed: "failed",
  BaseRestored: "was restored",
  BaseEmbedderSuggested: "has texts that another embedder knows better",
  BaseEmbedderCompared: "compared its embedders",
  BaseEmbedderSwitched: "has another embedder",
  BaseDeleted: "was deleted",
  BaseRemoved: "was removed with {items} items",
  Reconciled: "The reconciler fixed an inconsistency",
};

/** @param {Event} event @returns {Tone} */
function toneOf(event) {
  if (event.type === "ItemFailed" || event.type === "BaseFailed") return "failed";
  if (event.type === "Reconciled") return "warn";
  if (/IngestionCompleted|AllDocumentsIngested|BaseRestored|BaseCreated/.test(event.type)) return "ok";
  return "off";
}

/** @param {"timeline" | "webhooks"} current */
export const viewSwitch = (current) =>
  segments(
    t("Events"),
    [{ id: "timeline", label: t("Timeline") }, { id: "webhooks", label: t("Webhooks") }],
    () => current,
    (id) => go(id === "webhooks" ? "/events/webhooks" : "/events"),
  );

/** @param {LiveRoute} route */
export function page(route) {
  setPageTitle(() => t("Events"));
  const base = () => route.value.query.get("base") ?? "";
  const kind = () => route.value.query.get("kind") ?? "all";
  const queryFor = (/** @type {string} */ before) => ({
    before,
    limit: 100,
    baseId: base(),
    types: KINDS[kind()]?.join(","),
  });
  const older = signal(/** @type {Page[]} */ ([]));
  /** @type {Resource<Page>} */
  const newest = resource(() => api.get("/events", queryFor(LATEST)), {
    live: { topic: "event" },
    rest: 1000,
    every: () => 30_000,
  });
  const applyFilter = (/** @type {Record<string, string | null>} */ filter) => {
    setQuery(filter);
    older.value = [];
    newest.value.value = null;
    newest.refresh();
  };
  const timeline = computed(() => {
    const pages = [newest.value.value, ...older.value].filter((page) => page !== null);
    const events = new Map(pages.flatMap((page) => page.items).map((event) => [event.id, event]));
    return {
      events: [...events.values()],
      titles: Object.assign({}, ...pages.map((page) => page.titles)),
      next: pages.at(-1)?.nextCursor ?? null,
    };
  });
  const loadOlder = async () => {
    try {
      older.value = [...older.peek(), await api.get("/events", queryFor(/** @type {string} */ (timeline.peek().next)))];
    } catch (error) {
      showError(error);
    }
  };
  const rows = each(
    () => groupByDay(timeline.value.events),
    (entry) => entry.key,
    (entry) => {
      const { day, event } = entry.peek();
      return event ? eventRow(event, () => timeline.value.titles) : dayRow(day ?? "");
    },
  );
  return html`
    <div class="page">
      <div class="top">
        <h1>${t("Events")}</h1>
        <div class="actions">${viewSwitch("timeline")}</div>
      </div>
      <div class="filters">${kindTabs(kind, applyFilter)}${baseSelect(base, applyFilter)}</div>
      <div class="scroll">
        ${() => errorBanner(newest.error.value)}
        <div class="timeline" role="list" aria-label="${t("Events")}">${rows}</div>
        ${() => (timeline.value.next ? olderButton(loadOlder) : null)}
        ${() => (newest.value.value && !timeline.value.events.length ? noEvents() : null)}
      </div>
    </div>
  `;
}

/** @param {() => void} loadOlder */
const olderButton = (loadOlder) => html`<div class="foot">${button(t("Show older events"), loadOlder)}</div>`;

const noEvents = () =>
  emptyState("pulse", t("No events yet"), t("Everything that is added, indexed, deleted or fails is listed here."));

/** @param {() => string} kind @param {(filter: Record<string, string | null>) => void} applyFilter */
function kindTabs(kind, applyFilter) {
  const choices = [
    { id: "all", label: t("All") },
    { id: "documents", label: t("Documents") },
    { id: "bases", label: t("Bases") },
    { id: "problems", label: t("Problems") },
  ];
  return tabs(t("Kind"), choices, kind, (id) => applyFilter({ kind: id === "all" ? null : id }));
}

/** @param {() => string} base @param {(filter: Record<string, string | null>) => void} applyFilter */
function baseSelect(base, applyFilter) {
  const onchange = (/** @type {any} */ event) => applyFilter({ base: event.target.value || null });
  const options = () =>
    (bases.value ?? []).map(({ id, name }) => html`<option value="${id}" ?selected=${id === base()}>${name}</option>`);
  return html`
    <select class="input" aria-label="${t("Base")}" @change=${onchange}>
      <option value="">${t("All bases")}</option>
      ${options}
    </select>
  `;
}

/** @param {string} day */
const dayRow = (day) =>
  html`
    <div role="listitem" class="day">
      <h2>${day}</h2>
    </div>
  `;

/** @param {Event[]} events @returns {{key: string, day?: string, event?: Event}[]} */
function groupByDay(events) {
  /** @type {{key: string, day?: string, event?: Event}[]} */ const rows = [];
  let last = "";
  for (const event of events) {
    const day = formatDay(event.at);
    if (day !== last) rows.push({ key: day, day });
    last = day;
    rows.push({ key: event.id, event });
  }
  return rows;
}

/** @param {Event} event @returns {string} */
function describe(event) {
  const { documents, assets, items, chunks, characters } = event.data;
  const n = [documents, assets, items, chunks, characters].find((value) => typeof value === "number");
  return t(DESCRIPTIONS[event.type] ?? event.type, { ...event.data, n });
}

/** @param {Event} event @param {() => Record<string, string>} titles */
function eventRow(event, titles) {
  const { data, baseId, subject } = event;
  const title = () => (subject ? titles()[subject] ?? data.title ?? t("Deleted item") : data.name ?? null);
  const url = () => {
    if (subject && titles()[subject]) return `/b/${baseId}/i/${subject}`;
    return baseId && data.name ? `/b/${baseId}` : null;
  };
  const heading = () => {
    if (!title()) return null;
    return url() ? html`<a href="${url()}">${title()}</a>` : html`<b>${title()}</b>`;
  };
  return html`
    <div class="event" role="listitem">
      <time class="dim" datetime="${event.at}">${formatTime(event.at)}</time>
      ${dot(() => toneOf(event))}
      <div class="grow">
        <div class="cut">${heading}<span class="${title() ? "dim" : ""}">${describe(event)}</span></div>
        ${data.message ? html`<p class="error">${problemMessage(data)}</p>` : null}
      </div>
      <span class="dim small-text cut hide-phone">${() => (baseId ? baseName(baseId) : "")}</span>
    </div>
  `;
}
