// @ts-check
/**
 * Nodes of HTML that the server has sanitised. They are made in an inert document, and what the server never sends is
 * left out once more: one mistake on either side is not enough to show it.
 */

/** @import { Word } from "./passage.js" */

const ELEMENTS = new Set(
  ("A ABBR B BLOCKQUOTE BR CAPTION CODE DD DEL DIV DL DT EM H1 H2 H3 H4 H5 H6 HR I INS KBD LI MARK OL P PRE Q S " +
    "SMALL SPAN STRONG SUB SUP TABLE TBODY TD TFOOT TH THEAD TR U UL").split(" "),
);
const ATTRIBUTES = new Set(["href", "rel", "target", "start", "colspan", "rowspan"]);
const LINK = /^(?:https?:\/\/|mailto:|#fn)/i;

/** @param {string} markup @returns {DocumentFragment} */
export function safeNodes(markup) {
  const inert = new DOMParser().parseFromString(markup, "text/html");
  for (const element of [...inert.body.querySelectorAll("*")]) {
    if (!ELEMENTS.has(element.tagName)) {
      element.remove();
      continue;
    }
    for (const { name, value } of [...element.attributes]) {
      if (!ATTRIBUTES.has(name) || (name === "href" && !LINK.test(value))) element.removeAttribute(name);
    }
    if (element.getAttribute("href")?.startsWith("#")) element.removeAttribute("target"); // a footnote
    if (element instanceof HTMLTableElement) element.tabIndex = 0; // it may be scrolled
  }
  const fragment = document.createDocumentFragment();
  for (const node of [...inert.body.childNodes]) fragment.append(document.adoptNode(node));
  return fragment;
}

/** @param {Word} word @returns {string} "art" is not a part of "party" */
function patternOf({ text, isWhole }) {
  const escaped = text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return isWhole ? `(?<![\\p{L}\\p{N}\\p{M}])${escaped}(?![\\p{L}\\p{N}\\p{M}])` : escaped;
}

/** Marks words in the texts below a node. @param {Node} node @param {Word[]} words */
export function markWords(node, words) {
  const patterns = words.filter(({ text }) => text).map(patternOf);
  if (!patterns.length) return;
  const pattern = new RegExp(`(${patterns.join("|")})`, "giu");
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  /** @type {Text[]} */ const texts = [];
  while (walker.nextNode()) texts.push(/** @type {Text} */ (walker.currentNode));
  for (const text of texts) {
    const parts = text.data.split(pattern);
    if (parts.length < 2) continue;
    text.replaceWith(...parts.map((part, i) => {
      if (i % 2 === 0) return part;
      const mark = document.createElement("mark");
      mark.textContent = part;
      return mark;
    }));
  }
}
