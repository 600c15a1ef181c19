// @ts-check
/** The rows of the timeline: a day with the number of its problems, an event, and a group of events that opens. */

import { baseName } from "../../bases.js";
import { html, signal } from "../../core.js";
import { formatTime, problemMessage, t } from "../../i18n.js";
import { icon } from "../../components/icon.js";
import { dot } from "../../components/status.js";
import { GROUP_DESCRIPTIONS, isProblem } from "./group.js";

/** @import { Signal } from "../../core.js" */
/** @import { Tone } from "../../components/status.js" */
/** @import { DayEntry, Event, EventEntry } from "./group.js" */
/** @typedef {() => Record<string, string>} Titles of items, by id */

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
  ItemsChanged: "{n} items were changed: {what}",
  ItemsMoved: "{n} items were moved from {from} to {to}",
  ReindexAccepted: "{n} items are being reindexed",
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

/** What people changed of items. @type {Record<string, string>} */
const CHANGES = {
  title: "title",
  tags: "tags",
  metadata: "metadata",
  acl: "access",
  parent: "place",
  chunks: "marks of chunks",
};

/** @param {Event} event @returns {Tone} */
function toneOf(event) {
  if (event.type === "ItemFailed" || event.type === "BaseFailed") return "failed";
  if (event.type === "Reconciled") return "warn";
  if (/IngestionCompleted|AllDocumentsIngested|BaseRestored|BaseCreated/.test(event.type)) return "ok";
  return "off";
}

/**
 * @param {Signal<DayEntry | EventEntry>} entry @param {Titles} titles @param {() => void} showProblems
 * @returns {Node}
 */
export function entryRow(entry, titles, showProblems) {
  const first = entry.peek();
  if (first.events === undefined) return dayRow(/** @type {Signal<DayEntry>} */ (entry), showProblems);
  if (first.events.length === 1) return eventRow(first.events[0], titles);
  return groupRow(/** @type {Signal<EventEntry>} */ (entry), titles);
}

/** @param {Signal<DayEntry>} entry @param {() => void} showProblems */
function dayRow(entry, showProblems) {
  const count = () => {
    const { problems: n, isMore } = entry.value;
    if (!n) return null;
    const text = isMore ? t("{n} problems or more", { n }) : t("{n} problems", { n });
    return html`<button type="button" class="problem-count" @click=${showProblems}>${text}</button>`;
  };
  return html`
    <div role="listitem" class="day">
      <h2>${() => entry.value.day}</h2>
      ${count}
    </div>
  `;
}

/** @param {Signal<EventEntry>} entry Events of one kind; a click lists them. @param {Titles} titles */
function groupRow(entry, titles) {
  const isOpen = signal(false);
  const [first] = entry.peek().events;
  const newest = () => entry.value.events[0];
  const description = () => t(GROUP_DESCRIPTIONS[first.type], { n: entry.value.events.length });
  const rows = () => (isOpen.value ? entry.value.events.map((event) => eventRow(event, titles, "div")) : null);
  const toggle = () => (isOpen.value = !isOpen.peek());
  return html`
    <div role="listitem" class="event-group ${isProblem(first) ? "problem" : ""}">
      <div class="event">
        <time class="dim" datetime="${() => newest().at}">${() => formatTime(newest().at)}</time>
        ${dot(() => toneOf(first))}
        <div class="grow">
          <button type="button" class="group-toggle" aria-expanded="${() => String(isOpen.value)}" @click=${toggle}>
            ${() => icon("chevron", isOpen.value ? "open" : "")}<span>${description}</span>
          </button>
          ${first.data.message ? html`<p class="error">${problemMessage(first.data)}</p>` : null}
        </div>
        ${baseLabel(first)}
      </div>
      <div class="group-events">${rows}</div>
    </div>
  `;
}

/** @param {Event} event */
const baseLabel = ({ baseId }) =>
  html`<span class="dim small-text cut hide-phone">${() => (baseId ? baseName(baseId) : "")}</span>`;

/** @param {string | undefined} id */
const nameOf = (id) => (id && baseName(id)) || t("deleted base");

/** @param {Event} event @returns {string} */
function describe(event) {
  const { documents, assets, items, chunks, characters, itemIds, rootIds } = event.data;
  const counts = [documents, assets, items, chunks, characters, itemIds?.length, rootIds?.length];
  const n = counts.find((value) => typeof value === "number");
  const { changes = [], fromBaseId, toBaseId } = event.data;
  const what = changes.map((/** @type {string} */ change) => t(CHANGES[change] ?? change)).join(", ");
  const names = { from: nameOf(fromBaseId), to: nameOf(toBaseId) };
  return t(DESCRIPTIONS[event.type] ?? event.type, { ...event.data, n, what, ...names });
}

/** @param {Event} event @param {Titles} titles @param {"listitem" | "div"} [role] `div`: part of a group */
function eventRow(event, titles, role = "listitem") {
  const { data, baseId, subject } = event;
  const name = () => (baseId ? baseName(baseId) : ""); // empty if it was deleted
  const title = () => {
    if (subject) return titles()[subject] ?? data.title ?? t("Deleted item");
    return data.name ?? (/^Base/.test(event.type) && name() || null);
  };
  const url = () => {
    if (subject) return titles()[subject] ? `/b/${baseId}/i/${subject}` : null;
    return name() ? `/b/${baseId}` : null;
  };
  const heading = () => {
    if (!title()) return null;
    return url() ? html`<a href="${url()}">${title()}</a>` : html`<b>${title()}</b>`;
  };
  return html`
    <div class="event ${isProblem(event) ? "problem" : ""}" role=${role === "div" ? null : role}>
      <time class="dim" datetime="${event.at}">${formatTime(event.at)}</time>
      ${dot(() => toneOf(event))}
      <div class="grow">
        <div class="cut">${heading}<span class="${title() ? "dim" : ""}">${describe(event)}</span></div>
        ${data.message ? html`<p class="error">${problemMessage(data)}</p>` : null}
      </div>
      ${baseLabel(event)}
    </div>
  `;
}
