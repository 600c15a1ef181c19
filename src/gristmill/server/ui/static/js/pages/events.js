// @ts-check
/** The timeline of events by day, newest first, filtered by base and kind. Routine is grouped; failures stand out. */

import "../admin-locale.js";
import { api } from "../api.js";
import { bases } from "../bases.js";
import { computed, each, html, signal } from "../core.js";
import { resource } from "../resource.js";
import { formatDay, t } from "../i18n.js";
import { button } from "../components/button.js";
import { emptyState, errorBanner, setPageTitle } from "../components/status.js";
import { segments, tabs } from "../components/tabs.js";
import { showError } from "../components/toast.js";
import { go, setQuery } from "../router.js";
import { groupEvents, PROBLEMS } from "./events/group.js";
import { entryRow } from "./events/event-rows.js";

/** @import { Resource } from "../resource.js" */
/** @import { LiveRoute } from "../router.js" */

/** @import { Event, ProblemPage } from "./events/group.js" */
/** @typedef {{items: Event[], nextCursor: string | null, titles: Record<string, string>}} Page */

const MAX_PROBLEMS = 500; // that are counted by day
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
    "ItemsChanged",
    "ItemsMoved",
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
  problems: [...PROBLEMS],
};

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
  const problemTypes = () => [...PROBLEMS].filter((type) => KINDS[kind()]?.includes(type) ?? true).join(",");
  /** @type {Resource<ProblemPage>} */
  const problems = resource(
    () => api.get("/events", { ...queryFor(LATEST), limit: MAX_PROBLEMS, types: problemTypes() }),
    { live: { topic: "event" }, rest: 5000, every: () => 30_000 },
  );
  const applyFilter = (/** @type {Record<string, string | null>} */ filter) => {
    setQuery(filter);
    older.value = [];
    newest.value.value = null;
    problems.value.value = null;
    newest.refresh();
    problems.refresh();
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
    () => groupEvents(timeline.value.events, formatDay, problems.value.value),
    (entry) => entry.key,
    (entry) => entryRow(entry, () => timeline.value.titles, () => applyFilter({ kind: "problems" })),
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
