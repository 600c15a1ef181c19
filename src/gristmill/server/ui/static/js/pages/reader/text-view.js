// @ts-check
/**
 * The text of a document, as the server renders it: windows around the passage, and more of it while people scroll.
 * Code has line numbers; what is on a page, a slide or a sheet begins with its number.
 */

import { api } from "../../api.js";
import { effect, html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { emptyState } from "../../components/status.js";
import { markWords, safeNodes } from "./safe-html.js";

/** @import { Computed, Signal } from "../../core.js" */
/** @import { Passage } from "./passage.js" */
/** @typedef {{start: number, end: number, page: number | null, line: number | null, html: string}} Block */
/** @typedef {{level: number, title: string, start: number, page: number | null}} Heading */

const MARGIN = 900; // pixels before an end, where more is loaded
const SLIDES = /\.(pptx?|odp|key)$/i;
const SHEETS = /\.(xlsx?|xlsb|ods|numbers)$/i;

/** @param {string} title @param {number} page */
function partName(title, page) {
  if (SLIDES.test(title)) return t("Slide {page}", { page });
  return SHEETS.test(title) ? t("Sheet {page}", { page }) : t("Page {page}", { page });
}

/**
 * @param {string} item @param {() => string} title @param {Computed<Passage | null>} passage
 * @param {Signal<Heading[]>} headings those that are loaded
 * @param {Signal<number>} wanted the character to go to; -1: none
 */
export function textView(item, title, passage, headings, wanted) {
  const body = /** @type {HTMLElement} */ (html`<div class="reader-document"></div>`);
  const errorText = signal("");
  const problem = () => (errorText.value ? emptyState("file", t("No content to show"), errorText.value) : null);
  const box = /** @type {HTMLElement} */ (html`
    <div class="reader-text scroll" tabindex="0" role="region" aria-label="${t("Text")}">${body}${problem}</div>
  `);
  /** @type {{previous: number | null, next: number | null}} */ let edges = { previous: null, next: null };
  let [first, last] = [0, 0]; // the characters that are shown
  let isLoading = false;
  let lastReplace = 0; // responses can arrive in another order than their requests
  const abort = new AbortController();
  const fetchAt = (/** @type {number} */ at) =>
    api.get(`/knowledge-items/${item}/rendered`, { at: String(Math.max(0, at)) }, abort.signal);
  const elements = (/** @type {Block[]} */ blocks, /** @type {number | null} */ before) => {
    /** @type {Node[]} */ const nodes = [];
    let page = before;
    for (const block of blocks) {
      if (block.page !== page && block.page !== null) {
        nodes.push(html`<p class="part-name" role="presentation">${partName(title(), block.page)}</p>`);
      }
      page = block.page;
      nodes.push(blockElement(block));
    }
    return nodes;
  };
  const replace = async (/** @type {number} */ at) => {
    const number = ++lastReplace;
    try {
      const window = await fetchAt(at);
      if (number !== lastReplace) return;
      body.replaceChildren(...elements(window.blocks, null));
      [first, last] = [window.blocks[0]?.start ?? 0, window.blocks.at(-1)?.end ?? 0];
      edges = window;
      headings.value = window.headings;
      errorText.value = "";
      mark();
      scrollTo(at);
    } catch (error) {
      if (!abort.signal.aborted) errorText.value = /** @type {Error} */ (error).message;
    }
  };
  const grow = async () => {
    const isEnd = box.scrollTop + box.clientHeight > box.scrollHeight - MARGIN;
    const at = isEnd && edges.next !== null ? edges.next : box.scrollTop < MARGIN ? edges.previous : null;
    if (isLoading || at === null) return;
    isLoading = true;
    try {
      const window = await fetchAt(at);
      if (at === edges.next) {
        const blocks = window.blocks.filter((/** @type {Block} */ block) => block.start >= last);
        body.append(...elements(blocks, pageOf(body.lastElementChild)));
        last = Math.max(last, window.blocks.at(-1)?.end ?? last);
        edges.next = window.next;
      } else {
        const blocks = window.blocks.filter((/** @type {Block} */ block) => block.end <= first);
        const height = box.scrollHeight;
        body.prepend(...elements(blocks, null));
        box.scrollTop += box.scrollHeight - height;
        first = Math.min(first, window.blocks[0]?.start ?? first);
        edges.previous = window.previous;
      }
      const known = new Map([...headings.peek(), ...window.headings].map((heading) => [heading.start, heading]));
      headings.value = [...known.values()].sort((a, b) => a.start - b.start);
      mark();
    } catch {
      // the next scroll tries again
    } finally {
      isLoading = false;
    }
  };
  const mark = () => {
    const current = passage.peek();
    for (const element of /** @type {Iterable<HTMLElement>} */ (body.children)) {
      const isIn = current !== null && rangeOf(element)[0] < current.end && rangeOf(element)[1] > current.start;
      if (isIn && !element.classList.contains("passage")) markWords(element, current.words);
      element.classList.toggle("passage", isIn && !element.classList.contains("part-name"));
      for (const line of /** @type {Iterable<HTMLElement>} */ (element.querySelectorAll(".code-line"))) {
        const [from, to] = rangeOf(line);
        line.classList.toggle("passage", current !== null && from < current.end && to > current.start);
      }
    }
  };
  const scrollTo = (/** @type {number} */ at) => {
    const all = /** @type {HTMLElement[]} */ ([...body.querySelectorAll(".text-block, .code-line")]);
    const target = all.findLast((element) => rangeOf(element)[0] <= at) ?? all[0];
    if (target) box.scrollTop += target.getBoundingClientRect().top - box.getBoundingClientRect().top - 72;
  };
  const showAt = (/** @type {number} */ at) => {
    if (at >= first && at < last) {
      mark();
      scrollTo(at);
    } else replace(at);
  };
  effect(() => {
    box.addEventListener("scroll", grow, { passive: true });
    return () => abort.abort();
  });
  effect(
    () => passage.value,
    (current) => showAt(current?.matches[0]?.[0] ?? current?.start ?? Math.max(0, wanted.peek())),
  );
  effect(() => wanted.value, (at) => at >= 0 && showAt(at));
  return box;
}

/** @param {Element | null} element */
const pageOf = (element) => Number(/** @type {HTMLElement} */ (element)?.dataset?.page) || null;

/** @param {HTMLElement} element @returns {[number, number]} */
const rangeOf = (element) => [Number(element.dataset.start ?? -1), Number(element.dataset.end ?? -1)];

/** @param {Block} block */
function blockElement(block) {
  const element = document.createElement("div");
  element.className = "text-block";
  element.dataset.start = String(block.start);
  element.dataset.end = String(block.end);
  if (block.page !== null) element.dataset.page = String(block.page);
  element.append(safeNodes(block.html));
  const code = block.line === null ? null : element.querySelector("pre");
  if (code) code.replaceWith(codeLines(code.textContent ?? "", block));
  return element;
}

/** @param {string} text @param {Block} block */
function codeLines(text, block) {
  const lines = text.replace(/\n$/, "").split("\n");
  const list = document.createElement("pre");
  list.className = "code-lines";
  list.tabIndex = 0;
  // what is more than the text are the lines that open and close the code
  const opening = block.line === 1 ? Math.max(0, block.end - block.start - text.length - 4) : 0;
  let at = block.start + opening;
  for (const [i, line] of lines.entries()) {
    const row = document.createElement("span");
    row.className = "code-line";
    row.dataset.line = String((block.line ?? 1) + i);
    row.dataset.start = String(at);
    at += line.length + 1;
    row.dataset.end = String(at);
    row.textContent = `${line}\n`;
    list.append(row);
  }
  return list;
}
