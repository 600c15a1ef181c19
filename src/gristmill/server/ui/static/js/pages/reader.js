// @ts-check
/**
 * The reader: a document at the passage that a search found. Pages of PDF and image files are shown as pictures with
 * the passage marked; every document as text. The URL has the passage and the search, so that it can be shared.
 */

import { api } from "../api.js";
import { computed, effect, html, signal } from "../core.js";
import { t } from "../i18n.js";
import { button, iconButton } from "../components/button.js";
import { icon, itemIcon } from "../components/icon.js";
import { segments } from "../components/tabs.js";
import { readerUrl } from "../reader-link.js";
import { go, setQuery } from "../router.js";
import { findChunk, findHits, passageOf } from "./reader/passage.js";
import { pageName, pageView } from "./reader/page-view.js";
import { textView } from "./reader/text-view.js";

/** @import { ApiError } from "../api.js" */
/** @import { Signal } from "../core.js" */
/** @import { LiveRoute } from "../router.js" */
/** @import { Hit, Passage } from "./reader/passage.js" */
/** @import { PageList } from "./reader/page-view.js" */
/** @import { Heading } from "./reader/text-view.js" */

/** Reasons that are worth a word; other documents just have no pages. */
const NOTED = new Set(["original_changed", "original_gone", "page_not_drawn"]);

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
  const current = signal(1);
  const wantedPage = signal(Number(route.peek().query.get("page") ?? 0));
  const wantedAt = signal(-1);
  const headings = signal(/** @type {Heading[]} */ ([]));
  const chunk = computed(() => param("chunk"));
  const place = computed(() => hits.value.findIndex((hit) => hit.chunkId === chunk.value));
  const passage = computed(() => place.value >= 0 ? passageOf(hits.value[place.value]) : other.value);
  const search = computed(() => `${param("q")}\n${param("mode")}\n${param("types")}\n${param("limit")}`);
  const view = computed(() => (pages.value ? param("view") || "pages" : "text"));

  effect(() => {
    api.get(`/knowledge-items/${id}`).then(
      (value) => (item.value = value),
      (error) => (errorText.value = error.message),
    );
    api.get(`/knowledge-items/${id}/pages`).then(
      (list) => (pages.value = list),
      (/** @type {ApiError} */ error) => {
        if (NOTED.has(error.code)) note.value = error.message;
        pages.value = null;
      },
    );
  });
  const lookUp = async () => {
    const name = chunk.peek();
    if (!name || hits.peek().some((hit) => hit.chunkId === name)) return;
    other.value = await findChunk(id, name).catch(() => null);
  };
  effect(() => search.value, async () => {
    hits.value = await findHits(base, route.peek().query).catch(() => []);
    await lookUp();
  });
  effect(() => chunk.value, () => void (hits.peek().length && lookUp()));

  const back = () => go(pathWithout(`/b/${base}`));
  const step = (/** @type {number} */ by) => {
    const hit = hits.peek()[place.peek() + by];
    if (place.peek() < 0 || !hit) return;
    const passage = { ...hit, page: hit.source.page };
    go(readerUrl(passage, new URLSearchParams(location.search)), { replace: hit.itemId === id });
  };
  onKeys({ j: () => step(1), k: () => step(-1), Escape: back });

  const choices = [
    { id: "pages", label: t("Pages") },
    { id: "text", label: t("Text") },
    { id: "both", label: t("Side by side") },
  ];
  const choose = (/** @type {string} */ chosen) => setQuery({ view: chosen === "pages" ? null : chosen });
  const content = () => {
    if (errorText.value) return html`<p class="empty-note plain">${errorText.value}</p>`;
    if (pages.value === undefined) return html`<div class="reader-pages scroll" aria-busy="true"></div>`;
    const kind = view.value;
    const list = pages.value;
    return [
      list && kind !== "text" ? pageView(list, passage, current, wantedPage) : null,
      kind !== "pages" ? textView(id, () => item.peek()?.title ?? "", passage, headings, wantedAt) : null,
    ];
  };
  const outline = () => outlineView(pages.value ?? null, view.value, headings.value, { wantedPage, wantedAt });
  const toggleOutline = () => (isOutlineShown.value = !isOutlineShown.peek());
  const position = () => {
    const list = pages.value;
    if (!list || view.value === "text") return null;
    const name = pageName(list.pages[current.value - 1], current.value - 1);
    return html`<span class="dim small-text reader-position">${
      t("page {page} of {n}", { page: name, n: list.count })
    }</span>`;
  };
  const notice =
    () => (note.value ? html`<div class="banner reader-note">${icon("warn")}<p>${note.value}</p></div>` : null);
  return html`
    <div class="reader ${() => (isOutlineShown.value ? "show-outline" : "")}">
      <header class="top">
        ${iconButton(t("Back to search"), "back", back)}
        <h1>${() => itemIcon(item.value?.type ?? "file")}<span class="cut" dir="auto">${() =>
          item.value?.title ?? "…"}</span></h1>
        ${position}
        <div class="actions">
          ${() => hitSteps(hits.value.length, place.value, step)}
          ${() => (pages.value ? segments(t("View"), choices, () => view.value, choose) : null)}
          ${iconButton(t("Outline"), "queue", toggleOutline, "hide-desk")}
          ${button(t("Details"), () => go(pathWithout(`/b/${base}/i/${id}`, true)), { small: true, kind: "quiet" })}
          <a class="icon-button hide-phone" href="/api/knowledge-items/${id}/original" download aria-label="${t(
            "Original",
          )}"
            title="${t("Original")}">${icon("download")}</a>
        </div>
      </header>
      ${notice}
      <div class="reader-body">${outline}<div class="reader-views ${() => view.value}">${content}</div></div>
    </div>
  `;
}

/** The address of another page, with the search of this one. @param {string} path @param {boolean} [withChunk] */
function pathWithout(path, withChunk = false) {
  const query = new URLSearchParams(location.search);
  for (const name of ["page", "view", ...(withChunk ? [] : ["chunk"])]) query.delete(name);
  return `${path}${query.size ? `?${query}` : ""}`;
}

/** @param {number} n @param {number} place @param {(by: number) => void} step */
function hitSteps(n, place, step) {
  if (n < 1 || place < 0) return null;
  const previous = iconButton(t("Previous hit"), "chevron", () => step(-1), "turn-up");
  const next = iconButton(t("Next hit"), "chevron", () => step(1), "turn-down");
  previous.disabled = place === 0;
  next.disabled = place === n - 1;
  const position = t("hit {i} of {n}", { i: place + 1, n });
  return html`
    <span class="hit-steps">${previous}<span class="small-text dim" role="status">${position}</span>${next}</span>
  `;
}

/**
 * @param {PageList | null} list @param {string} view @param {Heading[]} headings
 * @param {{wantedPage: Signal<number>, wantedAt: Signal<number>}} wanted
 */
function outlineView(list, view, headings, { wantedPage, wantedAt }) {
  const entries = list && view !== "text"
    ? list.outline.map(({ level, title, page }) => ({ level, title, open: () => jump(wantedPage, page, 0) }))
    : headings.map(({ level, title, start }) => ({ level, title, open: () => jump(wantedAt, start, -1) }));
  if (!entries.length) return null;
  const entry = (/** @type {(typeof entries)[number]} */ { level, title, open }) =>
    html`
      <li
        style.--level=${level -
          1}><button type="button" class="cut" title="${title}" @click=${open}>${title}</button></li>
    `;
  return html`
    <nav class="reader-outline scroll" aria-label="${t("Outline")}">
      <ol>${entries.map(entry)}</ol>
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
      if (
        target.closest?.("input, textarea, select") || document.querySelector("dialog[open], [popover]:popover-open")
      ) {
        return;
      }
      event.preventDefault();
      action();
    };
    document.addEventListener("keydown", onkeydown);
    return () => document.removeEventListener("keydown", onkeydown);
  });
}
