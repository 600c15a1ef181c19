// @ts-check
/**
 * The pages of a document as pictures. Only those near the viewport are in the page: a document of 1,000 pages costs as
 * much as one of ten. The passage is marked by rectangles.
 */

import { effect, html } from "../../core.js";
import { t } from "../../i18n.js";
import { live } from "../../live.js";

/** @import { Computed, Signal } from "../../core.js" */
/** @import { Box, Passage } from "./passage.js" */
/**
 * @typedef {{itemId: string, revision: string, count: number,
 *   pages: {width: number, height: number, label: string | null}[],
 *   outline: {level: number, title: string, page: number}[]}} PageList
 */

const GAP = 16;
const MAX_WIDTH = 920;
const WIDTH_STEP = 200; // as the server draws them
const MAX_RATIO = 2; // pixels of a picture for each pixel of the page

/** @param {PageList["pages"][number]} page @param {number} index */
export const pageName = (page, index) => page.label ?? String(index + 1);

/**
 * @param {PageList} list @param {Computed<Passage | null>} passage
 * @param {Signal<number>} current the page that is read; where there is one already, the view begins there
 * @param {Signal<number>} wanted the page to go to; 0: none
 */
export function pageView(list, passage, current, wanted) {
  const body = /** @type {HTMLElement} */ (html`<div class="page-stack"></div>`);
  const box = /** @type {HTMLElement} */ (html`
    <div class="reader-pages scroll" tabindex="0" role="region" aria-label="${t("Pages")}">${body}</div>
  `);
  /** @type {Map<number, HTMLElement>} */ const shown = new Map();
  /** @type {number[]} */ let tops = [];
  let width = 0;
  let target = { top: -1, page: 0 }; // the page that was gone to, until the next scroll
  const heightOf = (/** @type {number} */ i) => width * list.pages[i].height / list.pages[i].width;
  const measure = () => {
    const next = Math.floor(Math.min(MAX_WIDTH, box.clientWidth - 2 * GAP));
    if (next <= 0 || next === width) return false;
    width = next;
    let top = GAP;
    tops = list.pages.map((_, i) => (top += i ? heightOf(i - 1) + GAP : 0));
    body.style.height = `${top + heightOf(list.count - 1) + GAP}px`;
    for (const element of shown.values()) element.remove();
    shown.clear();
    return true;
  };
  /** The index of the page at a height. @param {number} y */
  const indexAt = (y) => {
    let [low, high] = [0, list.count - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  /** The page that is read: near an end of the document, others can be at a third of the window. */
  const pageInView = () => {
    const { scrollTop, clientHeight, scrollHeight } = box;
    if (scrollTop === target.top) return target.page;
    if (scrollTop <= GAP) return 1;
    return scrollTop + clientHeight >= scrollHeight - 1 ? list.count : indexAt(scrollTop + clientHeight / 3) + 1;
  };
  const draw = () => {
    if (!width) return;
    const { scrollTop, clientHeight } = box;
    const [first, last] = [indexAt(scrollTop - clientHeight / 2), indexAt(scrollTop + 1.5 * clientHeight)];
    for (const [index, element] of shown) {
      if (index >= first && index <= last) continue;
      element.querySelector("img")?.removeAttribute("src"); // ends a request that is no longer needed
      element.remove();
      shown.delete(index);
    }
    for (let index = first; index <= last; index++) {
      if (shown.has(index)) continue;
      const element = pageElement(list, index, width, heightOf(index), passage.peek());
      element.style.top = `${tops[index]}px`;
      shown.set(index, element);
      const pages = /** @type {HTMLElement[]} */ ([...body.children]);
      body.insertBefore(element, pages.find((page) => Number(page.dataset.page) > index + 1) ?? null);
    }
    current.value = pageInView();
  };
  const show = (/** @type {number} */ page, share = 0) => {
    if (!width || page < 1 || page > list.count) return;
    box.scrollTop = tops[page - 1] + share * heightOf(page - 1) - (share ? box.clientHeight / 3 : GAP / 2);
    target = { top: box.scrollTop, page };
    draw();
  };
  const showPassage = () => {
    for (const [index, element] of shown) markPage(element, index, passage.peek());
    const first = firstBox(passage.peek());
    if (first) show(first.page, first.y0);
    else if (passage.peek()?.page) show(passage.peek()?.page ?? 0);
  };
  effect(() => {
    let frame = 0;
    const onscroll = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(draw);
    };
    const observer = new ResizeObserver(() => {
      const page = current.peek();
      if (!measure()) return draw();
      if (page && page !== firstBox(passage.peek())?.page) show(page);
      else showPassage();
      if (!page && wanted.peek() && !passage.peek()?.boxes.length) show(wanted.peek());
      draw();
    });
    observer.observe(box);
    box.addEventListener("scroll", onscroll, { passive: true });
    return () => {
      observer.disconnect();
      cancelAnimationFrame(frame);
      for (const element of shown.values()) element.querySelector("img")?.removeAttribute("src");
    };
  });
  effect(() => live.state.value === "reconnecting", (isAway) => {
    for (const [index, element] of isAway ? [] : shown) {
      if (!element.classList.contains("failed")) continue;
      element.remove(); // it failed while the server was away
      shown.delete(index);
    }
    draw();
  });
  effect(() => passage.value, showPassage);
  effect(() => wanted.value, (page) => page && show(page));
  return box;
}

/**
 * @param {PageList} list @param {number} index @param {number} width @param {number} height
 * @param {Passage | null} passage
 */
function pageElement(list, index, width, height, passage) {
  const name = t("Page {page}", { page: pageName(list.pages[index], index) });
  const pixels = Math.ceil(width * Math.min(MAX_RATIO, devicePixelRatio || 1) / WIDTH_STEP) * WIDTH_STEP;
  const url = `/api/knowledge-items/${list.itemId}/pages/${index + 1}?width=${pixels}&revision=${list.revision}`;
  const onerror = (/** @type {Event} */ event) => {
    const image = /** @type {HTMLElement} */ (event.target);
    if (image.getAttribute("src")) image.closest(".page-image")?.classList.add("failed");
  };
  const element = /** @type {HTMLElement} */ (html`
    <figure class="page-image" data-page="${index + 1}">
      <img alt="${name}" src="${url}" decoding="async" @error=${onerror}>
      <p class="page-error">${t("This page can't be drawn. Read its text instead.")}</p>
    </figure>
  `);
  element.style.width = `${width}px`;
  element.style.height = `${height}px`;
  markPage(element, index, passage);
  return element;
}

/** The line at which a passage is opened. @param {Passage | null} passage */
export function firstBox(passage) {
  if (!passage) return undefined;
  const { boxes, matches, place } = passage;
  const best = matches.length ? boxes.find((box) => box.start <= place && place < box.end) : undefined;
  return best ?? boxes.find((box) => isMatch(box, passage)) ?? boxes[0];
}

/** Whether a line has a word of the query. @param {Box} box @param {Passage | null} passage */
const isMatch = (box, passage) => passage?.matches.some(([start, end]) => start < box.end && end > box.start) ?? false;

/** @param {HTMLElement} element @param {number} index @param {Passage | null} passage */
function markPage(element, index, passage) {
  for (const mark of [...element.querySelectorAll(".page-mark-box")]) mark.remove();
  for (const box of passage?.boxes ?? []) {
    if (box.page !== index + 1) continue;
    const mark = document.createElement("i");
    mark.className = `page-mark-box ${isMatch(box, passage) ? "match" : ""}`;
    mark.style.left = `${100 * box.x0}%`;
    mark.style.top = `${100 * box.y0}%`;
    mark.style.width = `${100 * (box.x1 - box.x0)}%`;
    mark.style.height = `${100 * (box.y1 - box.y0)}%`;
    element.append(mark);
  }
}
