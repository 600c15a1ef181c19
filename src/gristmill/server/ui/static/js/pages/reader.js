// @ts-check
/**
 * The reader: a document at the passage that a search found. Pages of PDF and image files are shown as pictures with
 * the passage marked; every document as text, slides and sheets as pages of it. The URL has the passage and the
 * search, so that it can be shared.
 */

import "../reader-locale.js";
import { api } from "../api.js";
import { computed, effect, html, signal } from "../core.js";
import { formatNumber, problemMessage, t } from "../i18n.js";
import { button, iconButton } from "../components/button.js";
import { icon, itemIcon } from "../components/icon.js";
import { emptyState, setPageTitle } from "../components/status.js";
import { segments } from "../components/tabs.js";
import { copyText } from "../components/copy.js";
import { readerUrl } from "../reader-link.js";
import { go, setQuery } from "../router.js";
import { findChunk, findHits, isFromSearchPage, passageOf } from "./reader/passage.js";
import { firstBox, pageName, pageView } from "./reader/page-view.js";
import { partName } from "./reader/text-blocks.js";
import { textView } from "./reader/text-view.js";

/** @import { Computed, Signal } from "../core.js" */
/** @import { LiveRoute } from "../router.js" */
/** @import { Hit, Passage } from "./reader/passage.js" */
/** @import { PageList } from "./reader/page-view.js" */
/** @import { PageKind } from "./reader/text-blocks.js" */
/** @import { Heading, TextPages } from "./reader/text-view.js" */
/** @typedef {{names: string[], index: number, open: (index: number) => void}} PagePosition where people read */

/** Reasons that are worth a word; other documents just have no pages. */
const NOTED = new Set(["original_changed", "original_gone", "page_not_drawn"]);

const HAVE_ORIGINAL = new Set(["file", "note", "url"]); // documents of connectors have none

/** @param {LiveRoute} route */
export function page(route) {
  const { base, item: id } = route.peek().params;
  const param = (/** @type {string} */ name) => route.value.query.get(name) ?? "";
  const item = signal(/** @type {any} */ (null));
  const errorText = signal("");
  const hits = signal(/** @type {Hit[]} */ ([]));
  const other = signal(/** @type {Passage | null} */ (null)); // a chunk that is not among the hits
  const pages = signal(/** @type {PageList | null | undefined} */ (undefined)); // undefined: not known yet
  const note = signal("");
  const isOutlineShown = signal(false);
  const current = signal(0); // the page that is read as a picture; 0: none yet
  const leftPage = signal(0); // the page at which people went on to the text
  const wantedPage = signal(Number(route.peek().query.get("page") ?? 0));
  const wantedAt = signal(Number(route.peek().query.get("at") ?? -1));
  const textPlace = { find: () => -1 }; // by the view of the text, while it is shown
  const headings = signal(/** @type {Heading[]} */ ([]));
  const textPages = signal(/** @type {TextPages | null} */ (null)); // slides or sheets
  const pageStarts = signal(/** @type {TextPages["pages"]} */ ([])); // in the text of a document of pages
  const currentPage = signal(1);
  const chunk = computed(() => param("chunk"));
  const place = computed(() => hits.value.findIndex((hit) => hit.chunkId === chunk.value));
  const passage = computed(() => place.value >= 0 ? passageOf(hits.value[place.value]) : other.value);
  const search = computed(() => withoutPlace(route.value.query).toString());
  const view = computed(() => (pages.value ? param("view") || "pages" : "text"));

  // Not required: browsers log a refusal as an error, and most documents have no pages.
  const loadPages = () =>
    api.get(`/knowledge-items/${id}/pages`, { required: false }).then(
      (list) => {
        if (NOTED.has(list.error?.code)) note.value = problemMessage(list.error);
        pages.value = list.count ? list : null;
      },
      () => (pages.value = null),
    );
  setPageTitle(() => item.value?.title ?? "…");
  effect(() => {
    api.get(`/knowledge-items/${id}`).then(
      (value) => (item.value = value),
      (error) => (errorText.value = error.message),
    );
    loadPages();
  });
  const lookUp = async () => {
    const name = chunk.peek();
    if (!name || hits.peek().some((hit) => hit.chunkId === name)) return;
    const found = await findChunk(id, name).catch(() => undefined);
    other.value = found ?? null;
    if (found !== null || name !== chunk.peek()) return;
    // The document has changed since the link was copied: what the search finds in it now, or a word about it.
    const own = hits.peek().find((hit) => hit.itemId === id);
    if (own) go(readerUrl({ ...own, page: own.source.page }, new URLSearchParams(location.search)), { replace: true });
    else note.value ||= t("The document has changed since this link was copied: its passage is no longer there.");
  };
  const loadHits = async () => {
    hits.value = await findHits(base, route.peek().query).catch(() => []);
    await lookUp();
  };
  effect(() => search.value, loadHits);
  const onchange = () => {
    note.value ||= t("The document has changed meanwhile. This is its new text.");
    loadPages();
    loadHits();
  };
  effect(() => chunk.value, () => void (hits.peek().length && lookUp()));

  const back = () => go(searchUrl(base));
  const step = (/** @type {number} */ by) => {
    const hit = hits.peek()[place.peek() + by];
    if (place.peek() < 0 || !hit) return;
    const passage = { ...hit, page: hit.source.page };
    go(readerUrl(passage, new URLSearchParams(location.search)), { replace: hit.itemId === id });
  };
  const choices = [
    { id: "pages", label: t("Pages") },
    { id: "text", label: t("Text") },
    { id: "both", label: t("Side by side") },
  ];
  const choose = (/** @type {string} */ chosen) => {
    if (view.peek() !== "text") leftPage.value = current.peek();
    else if (pageStarts.peek().length) current.value = currentPage.peek();
    setQuery({ view: chosen === "pages" ? null : chosen });
  };
  const content = () => {
    if (errorText.value) return emptyState("file", t("No content to show"), errorText.value);
    if (pages.value === undefined) return html`<div class="reader-pages scroll" aria-busy="true"></div>`;
    const kind = view.value;
    const list = pages.value;
    return [
      list && kind !== "text" ? pageView(list, passage, current, wantedPage) : null,
      kind !== "pages"
        ? textView(id, passage, { headings, textPages, pageStarts, currentPage, wantedAt, place: textPlace, onchange })
        : null,
    ];
  };
  const shownPlace = () => view.peek() === "text" ? { at: textPlace.find() } : { page: current.peek() };
  const wanted = { wantedPage, wantedAt };
  const entries = computed(() =>
    outlineEntries(pages.value ?? null, textPages.value, view.value, headings.value, wanted)
  );
  const hasOutline = computed(() => entries.value.length > 0);
  const closeOutline = () => (isOutlineShown.value = false);
  const outline = () => (hasOutline.value ? outlineView(() => entries.value, closeOutline) : null);
  const toggleOutline = () => (isOutlineShown.value = !isOutlineShown.peek());
  const outlineButton = () => {
    const element = iconButton(t("Outline"), "queue", toggleOutline, "hide-desk");
    effect(() => element.setAttribute("aria-expanded", String(isOutlineShown.value)));
    return element;
  };
  const position = computed(/** @returns {PagePosition | null} */ () => {
    const list = pages.value;
    if (list && view.value !== "text") {
      const names = list.pages.map(pageName);
      return { names, index: Math.max(0, current.value - 1), open: (index) => jump(wantedPage, index + 1, 0) };
    }
    const parts = list ? null : textPages.value;
    if (!parts) return null;
    const names = parts.pages.map(({ page }) => String(page));
    const index = Math.max(0, parts.pages.findIndex(({ page }) => page === currentPage.value));
    return { names, index, open: (index) => jump(wantedAt, parts.pages[index].start, -1) };
  });
  // Side by side, the text follows the pictures; by itself, it begins at the page that was read. If the passage is on
  // that page, it is shown.
  const followed = computed(() => ({ both: current.value, text: leftPage.value })[view.value] ?? 0);
  effect(
    () => /** @type {const} */ ([followed.value, pageStarts.value]),
    ([page, starts]) => {
      const index = page ? starts.findIndex((start) => start.page >= page) : -1;
      if (index < 0) return;
      const [start, end] = [starts[index].start, starts[index + 1]?.start ?? Infinity];
      const found = passage.peek()?.place ?? -1;
      jump(wantedAt, found >= start && found < end ? found : start, -1);
    },
  );
  const hasPages = computed(() => position.value !== null);
  const isHit = computed(() => place.value >= 0);
  const turn = (/** @type {number} */ by) => {
    const { names, index, open } = position.peek() ?? { names: [], index: 0, open: () => {} };
    if (names[index + by] !== undefined) open(index + by);
  };
  onKeys({
    ...{ j: () => step(1), k: () => step(-1), Escape: () => (isOutlineShown.peek() ? closeOutline() : back()) },
    ...{ ArrowRight: () => turn(1), ArrowLeft: () => turn(-1) },
  });
  const notice =
    () => (note.value ? html`<div class="banner reader-note">${icon("warn")}<p>${note.value}</p></div>` : null);
  return html`
    <div class="reader ${() => (isOutlineShown.value ? "show-outline" : "")}">
      <header class="top">
        ${iconButton(t("Back to search"), "back", back)}
        <h1>${() => itemIcon(item.value?.type ?? "file")}<span class="cut" dir="auto">${() =>
          item.value?.title ?? "…"}</span></h1>
        <div class="actions">
          ${() => (hasPages.value ? pageSteps(position, () => textPages.value?.kind ?? "page", turn) : null)}
          ${() => (isHit.value ? hitSteps(hits, place, step) : null)}
          ${() => (pages.value ? segments(t("View"), choices, () => view.value, choose) : null)}
          ${() => (hasOutline.value ? outlineButton() : null)}
          ${iconButton(t("Copy link to this place"), "copy", () => copyLink(shownPlace(), passage.peek()))}
          ${button(t("Details"), () => go(detailsUrl(base, id)), { small: true, kind: "quiet" })}
          ${() => (HAVE_ORIGINAL.has(item.value?.type) ? originalLink(id) : null)}
        </div>
      </header>
      ${notice}
      <div class="reader-body">${outline}<div class="reader-views ${() => view.value}">${content}</div></div>
    </div>
  `;
}

/** @param {string} id */
const originalLink = (id) =>
  html`
    <a class="icon-button" href="/api/knowledge-items/${id}/original" download aria-label="${t("Original")}"
      title="${t("Original")}">${icon("download")}</a>
  `;

/** @param {URLSearchParams} query The search without the place that is read. */
function withoutPlace(query) {
  const search = new URLSearchParams(query);
  for (const name of ["chunk", "page", "at", "view"]) search.delete(name);
  return search;
}

/** @param {string} base The address of the search that the reader was opened from. */
function searchUrl(base) {
  const query = withoutPlace(new URLSearchParams(location.search));
  const path = isFromSearchPage(query) ? "/search" : `/b/${base}`;
  query.delete("from");
  return `${path}${query.size ? `?${query}` : ""}`;
}

/** @param {string} base @param {string} id The address of the item's page, with the search and the passage. */
function detailsUrl(base, id) {
  const query = new URLSearchParams(location.search);
  for (const name of ["page", "at", "view"]) query.delete(name);
  return `/b/${base}/i/${id}${query.size ? `?${query}` : ""}`;
}

/**
 * Copies a link to what is in view: to the passage if it is there, else to the page or the text at the top.
 * @param {{page?: number, at?: number}} place `page` is shown as a picture, `at` is a character; -1: the passage
 * @param {Passage | null} passage
 */
function copyLink({ page, at = -1 }, passage) {
  const link = new URL(location.href);
  link.searchParams.delete("at");
  if (page) link.searchParams.set("page", String(page));
  if (at > 0) link.searchParams.set("at", String(at));
  if (at >= 0) link.searchParams.delete("page");
  // The passage would be opened instead of another place.
  const isElsewhere = page && passage && page !== (firstBox(passage)?.page ?? passage.page);
  if (at >= 0 || isElsewhere) link.searchParams.delete("chunk");
  return copyText(link.href);
}

/**
 * Its buttons stay the same elements while pages are turned, so that they keep the focus.
 * @param {Computed<PagePosition | null>} position @param {() => PageKind} kind @param {(by: number) => void} turn
 */
function pageSteps(position, kind, turn) {
  const previous = iconButton(t("Previous page"), "chevron", () => turn(-1), "turn-left");
  const next = iconButton(t("Next page"), "chevron", () => turn(1));
  const text = () => {
    const { names, index } = position.value ?? { names: [], index: 0 };
    const values = { page: names[index], n: names.length };
    if (kind() === "slide") return t("slide {page} of {n}", values);
    return kind() === "sheet" ? t("sheet {page} of {n}", values) : t("page {page} of {n}", values);
  };
  effect(() => position.value, (current) => {
    previous.disabled = !current || current.index === 0;
    next.disabled = !current || current.index === current.names.length - 1;
  });
  // Of a long document, phones have no room for the words.
  const short = () =>
    `${position.value?.names[position.value.index]} / ${formatNumber(position.value?.names.length ?? 0)}`;
  const isLong = () => ((position.value?.names.length ?? 0) > 99 ? "long" : "");
  return html`
    <span class="page-steps ${isLong}">${previous}<span class="small-text dim words">${text}</span><span
      class="small-text dim digits">${short}</span>${next}</span>
  `;
}

/**
 * Its buttons stay the same elements, too.
 * @param {Signal<Hit[]>} hits @param {Computed<number>} place @param {(by: number) => void} step
 */
function hitSteps(hits, place, step) {
  const previous = iconButton(t("Previous hit"), "chevron", () => step(-1), "turn-up");
  const next = iconButton(t("Next hit"), "chevron", () => step(1), "turn-down");
  effect(() => {
    previous.disabled = place.value <= 0;
    next.disabled = place.value >= hits.value.length - 1;
  });
  const position = () => t("hit {i} of {n}", { i: place.value + 1, n: hits.value.length });
  return html`
    <span class="hit-steps">${previous}<span class="small-text dim" role="status">${position}</span>${next}</span>
  `;
}

/**
 * @param {PageList | null} list @param {TextPages | null} textPages @param {string} view @param {Heading[]} headings
 * @param {{wantedPage: Signal<number>, wantedAt: Signal<number>}} wanted
 */
function outlineEntries(list, textPages, view, headings, { wantedPage, wantedAt }) {
  const toText = (/** @type {number} */ start) => () => jump(wantedAt, start, -1);
  return list && view !== "text"
    ? list.outline.map(({ level, title, page }) => ({ level, title, open: () => jump(wantedPage, page, 0) }))
    : textPages && !list
    ? textPages.pages.map(({ page, start, title }) => ({
      ...{ level: 1, open: toText(start) },
      title: title ? `${page}  ${title}` : partName(textPages.kind, page),
    }))
    : headings.map(({ level, title, start }) => ({ level, title, open: toText(start) }));
}

/** @typedef {{level: number, title: string, open: () => void}} OutlineEntry */

/** @param {() => OutlineEntry[]} entries @param {() => void} close On phones, it covers the text. */
function outlineView(entries, close) {
  const entry = (/** @type {OutlineEntry} */ { level, title, open }) => {
    const onclick = () => {
      close();
      open();
    };
    return html`
      <li style.--level=${level - 1}>
        <button type="button" class="cut" title="${title}" @click=${onclick}>${title}</button>
      </li>
    `;
  };
  return html`
    <nav class="reader-outline scroll" aria-label="${t("Outline")}">
      <ol>${() => entries().map(entry)}</ol>
    </nav>
  `;
}

/**
 * Goes to a place, also if it was the last one.
 * @param {Signal<number>} wanted @param {number} value @param {number} none
 */
function jump(wanted, value, none) {
  wanted.value = none;
  queueMicrotask(() => queueMicrotask(() => (wanted.value = value)));
}

/** @param {Record<string, () => void>} actions by key */
function onKeys(actions) {
  effect(() => {
    const onkeydown = (/** @type {KeyboardEvent} */ event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      const action = actions[event.key];
      if (!action || event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return;
      if (target.closest?.("input, textarea, select")) return;
      if (event.key.startsWith("Arrow") && target.closest?.("table, pre")) return; // they can be scrolled
      if (document.querySelector("dialog[open], [popover]:popover-open")) return;
      event.preventDefault();
      action();
    };
    document.addEventListener("keydown", onkeydown);
    return () => document.removeEventListener("keydown", onkeydown);
  });
}
