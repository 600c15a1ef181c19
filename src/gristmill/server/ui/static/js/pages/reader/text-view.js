// @ts-check
/**
 * The text of a document, as the server renders it: windows around the passage, and more of it while people scroll.
 * Slides and sheets are pages of their own; what is on a page of another document begins with its number.
 */

import { api } from "../../api.js";
import { effect, html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { live } from "../../live.js";
import { emptyState } from "../../components/status.js";
import { followFootnotes } from "./footnotes.js";
import { markWords } from "./safe-html.js";
import { blockElement, imageElement, rangeOf, sectionElement } from "./text-blocks.js";

/** @import { Computed, Signal } from "../../core.js" */
/** @import { Footnote } from "./footnotes.js" */
/** @import { Passage } from "./passage.js" */
/** @import { Block, PageKind, TextImage } from "./text-blocks.js" */
/** @typedef {{level: number, title: string, start: number, page: number | null}} Heading */
/** @typedef {{kind: PageKind, pages: {page: number, start: number, title: string}[]}} TextPages */
/**
 * @typedef {{revision: string, previous: number | null, next: number | null, pageKind: PageKind,
 *   pages: TextPages["pages"], blocks: Block[], headings: Heading[], footnotes: Footnote[],
 *   images: TextImage[]}} TextWindow
 */
/**
 * @typedef {{headings: Signal<Heading[]>, textPages: Signal<TextPages | null>, pageStarts: Signal<TextPages["pages"]>,
 *   currentPage: Signal<number>, wantedAt: Signal<number>, place: {find: () => number},
 *   onchange: () => void}} TextState `headings` are those that are known, `textPages` the slides or sheets,
 *   `pageStarts` the pages of another document, `currentPage` is the number of the page at the top, `wantedAt` the
 *   character to go to; -1: none. `place.find` finds the character at the top; -1 while the passage is in view.
 *   `onchange` is called when the document has another text than it had
 */

const MARGIN = 900; // pixels before an end, where more is loaded
const LINES = ".code-line, tr[data-start]"; // of code and of tables
const TOP = 72; // pixels above the place that is shown
const LONG = 300; // pixels: the words of a higher paragraph are looked for

/** @param {string} item @param {Computed<Passage | null>} passage @param {TextState} state */
export function textView(item, passage, state) {
  const { headings, textPages, pageStarts, currentPage, wantedAt, place } = state;
  const body = /** @type {HTMLElement} */ (html`<div class="reader-document"></div>`);
  const errorText = signal("");
  const problem = () => (errorText.value ? emptyState("file", t("No content to show"), errorText.value) : null);
  const box = /** @type {HTMLElement} */ (html`
    <div class="reader-text scroll ${() => (textPages.value ? "papers" : "")}" tabindex="0" role="region"
      aria-label="${t("Text")}">${body}${problem}</div>
  `);
  /** @type {{previous: number | null, next: number | null}} */ let edges = { previous: null, next: null };
  let [first, last] = [0, 0]; // the characters that are shown
  let revision = ""; // of the text that is shown
  let isLoading = false;
  let arePagesListed = textPages.peek() !== null || pageStarts.peek().length > 0;
  let lastReplace = 0; // responses can arrive in another order than their requests
  /** @type {Map<string, Footnote>} */ const footnotes = new Map();
  const abort = new AbortController();
  /** @param {Record<string, string>} place @returns {Promise<TextWindow>} */
  const fetchWindow = (place) => api.get(`/knowledge-items/${item}/rendered`, place, abort.signal);

  /** An image that is loaded above the place that people read does not move it. */
  const keepPlace = (/** @type {HTMLElement} */ figure, /** @type {() => void} */ show) => {
    const [height, isAbove] = [figure.offsetHeight, figure.getBoundingClientRect().top < topOf(box) + TOP];
    show();
    if (isAbove) box.scrollTop += figure.offsetHeight - height;
  };
  /** Appends a window to a node, each page in a section of its own. */
  const append = (/** @type {Element} */ target, /** @type {TextWindow} */ window) => {
    const images = [...window.images];
    let section = /** @type {HTMLElement | null} */ (target.lastElementChild);
    const sectionOf = (/** @type {number | null} */ page) => {
      if (section && section.dataset.page === (page === null ? undefined : String(page))) return section;
      target.append(section = sectionElement(window.pageKind, page));
      return section;
    };
    const addImages = (/** @type {number} */ before) => {
      while (images.length && images[0].start < before) {
        const image = /** @type {TextImage} */ (images.shift());
        (section ?? sectionOf(image.page)).append(imageElement(item, image, keepPlace));
      }
    };
    for (const [i, block] of window.blocks.entries()) {
      sectionOf(block.page).append(blockElement(block));
      addImages(window.blocks[i + 1]?.start ?? Infinity);
    }
    addImages(Infinity);
    for (const footnote of window.footnotes) footnotes.set(footnote.label, footnote);
  };
  /** Puts a window before what is shown; a page that both have stays one section. */
  const prepend = (/** @type {TextWindow} */ window) => {
    const holder = document.createElement("div");
    append(holder, window);
    const [before, after] = /** @type {HTMLElement[]} */ ([holder.lastElementChild, body.firstElementChild]);
    if (before && after && before.dataset.page === after.dataset.page) {
      after.querySelector(".part-name")?.remove();
      before.append(...after.childNodes);
      after.remove();
    }
    body.prepend(...holder.childNodes);
  };
  const noteHeadings = (/** @type {TextWindow} */ window) => {
    const known = new Map([...headings.peek(), ...window.headings].map((heading) => [heading.start, heading]));
    headings.value = [...known.values()].sort((a, b) => a.start - b.start);
  };
  const notePages = (/** @type {TextWindow} */ { pageKind, pages }) => {
    if (!arePagesListed && pageKind === "page") pageStarts.value = pages;
    else if (pages.length) textPages.value = { kind: pageKind, pages };
    body.classList.toggle("single", (pageStarts.peek().length || textPages.peek()?.pages.length) === 1);
    arePagesListed = true;
  };
  const noteText = () => {
    const hasMore = body.childElementCount > 0 || edges.next !== null;
    errorText.value = hasMore ? "" : t("This document has no text.");
  };
  const replace = async (/** @type {number} */ at) => {
    const number = ++lastReplace;
    try {
      const pages = String(!arePagesListed);
      const window = await fetchWindow({ at: String(Math.max(0, at)), pages });
      if (number !== lastReplace) return;
      if (revision && window.revision !== revision) return startAgain(at);
      revision = window.revision;
      body.replaceChildren();
      append(body, window);
      [first, last] = [window.blocks[0]?.start ?? 0, window.blocks.at(-1)?.end ?? 0];
      edges = window;
      noteHeadings(window);
      notePages(window);
      noteText();
      mark();
      scrollTo(at);
      notePage();
      grow();
    } catch (error) {
      if (number === lastReplace && !abort.signal.aborted) errorText.value = /** @type {Error} */ (error).message;
    }
  };
  /** Another version was published: its text can be at other characters, and have other headings. */
  const startAgain = (/** @type {number} */ at) => {
    [revision, arePagesListed, edges] = ["", false, { previous: null, next: null }];
    [headings.value, textPages.value, pageStarts.value] = [[], null, []];
    footnotes.clear();
    state.onchange();
    replace(at);
  };
  /** Adds a window after what is shown, or before it. */
  const extend = (/** @type {TextWindow} */ window, /** @type {boolean} */ isAfter) => {
    if (isAfter) {
      append(body, window);
      last = window.blocks.at(-1)?.end ?? last;
      edges.next = window.next;
    } else {
      const height = box.scrollHeight;
      prepend(window);
      box.scrollTop += box.scrollHeight - height;
      first = window.blocks[0]?.start ?? first;
      edges.previous = window.previous;
    }
    noteHeadings(window);
    noteText();
    mark();
  };
  /** Loads more until it can be scrolled: a window of few long lines may be lower than the box. */
  const grow = async () => {
    const isEnd = box.scrollTop + box.clientHeight > box.scrollHeight - MARGIN;
    const [after, before] = [isEnd ? edges.next : null, box.scrollTop < MARGIN ? edges.previous : null];
    if (isLoading || !box.clientHeight || (after ?? before) === null) return;
    isLoading = true;
    const number = lastReplace;
    try {
      const window = await fetchWindow(after === null ? { before: String(before) } : { after: String(after) });
      // Else another place is shown meanwhile, or another text.
      if (number === lastReplace && window.revision === revision) extend(window, after !== null);
      else if (number === lastReplace) startAgain(Math.max(place.find(), 0));
    } catch {
      return; // the next scroll tries again
    } finally {
      isLoading = false;
    }
    grow();
  };
  const blocks = () => /** @type {NodeListOf<HTMLElement>} */ (body.querySelectorAll(".text-block, .text-image"));
  const mark = () => {
    const current = passage.peek();
    // The passage of an image's description has no characters of its own.
    const end = current ? Math.max(current.end, current.start + 1) : 0;
    const isIn = (/** @type {HTMLElement} */ element) =>
      current !== null && rangeOf(element)[0] < end && rangeOf(element)[1] > current.start;
    const show = (/** @type {HTMLElement} */ element) => {
      if (isIn(element) && !element.classList.contains("passage")) markWords(element, current?.words ?? []);
      element.classList.toggle("passage", isIn(element));
    };
    for (const element of blocks()) {
      const lines = /** @type {NodeListOf<HTMLElement>} */ (element.querySelectorAll(LINES));
      if (!lines.length) show(element);
      for (const line of lines) show(line);
    }
  };
  const parts = () => /** @type {HTMLElement[]} */ ([
    ...body.querySelectorAll(`.text-block, .text-image, ${LINES}`),
  ]);
  place.find = () => {
    const { top, bottom } = box.getBoundingClientRect();
    const visible = parts().filter((part) => part.getBoundingClientRect().bottom > top && topOf(part) < bottom);
    if (visible.some((part) => part.classList.contains("passage"))) return -1;
    const first = visible.find((part) => topOf(part) >= top);
    const [start, end] = rangeOf(first ?? visible.at(-1) ?? box);
    const last = first ? undefined : visible.at(-1); // a long paragraph, which begins above and ends below
    return last ? start + Math.round((end - start) * (top - topOf(last)) / last.offsetHeight) : start;
  };
  const scrollTo = (/** @type {number} */ at) => {
    const all = parts();
    const target = all.findLast((element) => rangeOf(element)[0] <= at) ?? all[0];
    if (target) box.scrollTop += topOf(target) + depthOf(target, at) - topOf(box) - TOP;
  };
  const notePage = () => {
    const sections = /** @type {HTMLElement[]} */ ([...body.children]);
    const line = topOf(box) + Math.min(2 * TOP, box.clientHeight / 3);
    const current = sections.findLast((section) => topOf(section) <= line) ?? sections[0];
    currentPage.value = Number(current?.dataset.page ?? 1);
  };
  const showAt = async (/** @type {number} */ at) => {
    if (at >= first && at < last) {
      mark();
      scrollTo(at);
      notePage();
    } else await replace(at);
  };
  followFootnotes(body, footnotes, showAt);
  effect(() => {
    const onscroll = () => {
      notePage();
      grow();
    };
    box.addEventListener("scroll", onscroll, { passive: true });
    return () => abort.abort();
  });
  effect(
    () => passage.value,
    (current) => {
      if (current) showAt(current.place);
      else if (wantedAt.peek() < 0) showAt(0);
    },
  );
  effect(() => wantedAt.value, (at) => at >= 0 && showAt(at));
  effect(
    () => live.state.value === "reconnecting",
    (isAway) => isAway || (errorText.peek() ? replace(passage.peek()?.place ?? wantedAt.peek()) : grow()),
  );
  return box;
}

/**
 * How far below the top of a long paragraph a character is: at its word, or about where it must be.
 * @param {HTMLElement} element @param {number} at
 */
function depthOf(element, at) {
  const height = element.offsetHeight;
  if (height < LONG) return 0;
  const [start, end] = rangeOf(element);
  const depth = height * Math.min(1, Math.max(0, (at - start) / Math.max(1, end - start)));
  const marks = [...element.querySelectorAll("mark")].map((mark) => topOf(mark) - topOf(element));
  const nearest = marks.sort((a, b) => Math.abs(a - depth) - Math.abs(b - depth))[0] ?? Infinity;
  return Math.abs(nearest - depth) < LONG ? nearest : depth;
}

/** @param {Element} element */
const topOf = (element) => element.getBoundingClientRect().top;
