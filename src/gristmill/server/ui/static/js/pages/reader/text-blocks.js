// @ts-check
/** The elements of a document's text: its blocks, its code with line numbers, its images, its slides and sheets. */

import { html } from "../../core.js";
import { t } from "../../i18n.js";
import { safeNodes } from "./safe-html.js";

/**
 * @typedef {{start: number, end: number, page: number | null, line: number | null, rows: number[],
 *   html: string}} Block
 */
/** @typedef {{hash: string, start: number, page: number | null, text: string}} TextImage */
/** @typedef {"page" | "slide" | "sheet"} PageKind */

/** @param {PageKind} kind @param {number} page */
export function partName(kind, page) {
  if (kind === "slide") return t("Slide {page}", { page });
  return kind === "sheet" ? t("Sheet {page}", { page }) : t("Page {page}", { page });
}

/** @param {PageKind} kind @param {number | null} page */
export function sectionElement(kind, page) {
  const section = document.createElement("section");
  section.className = page === null || kind === "page" ? "text-part" : `text-part paper ${kind}`;
  if (page !== null) {
    const name = partName(kind, page);
    section.dataset.page = String(page);
    section.setAttribute("aria-label", name);
    section.append(/** @type {Node} */ (html`<p class="part-name" aria-hidden="true">${name}</p>`));
  }
  return section;
}

/** @param {HTMLElement} element @returns {[number, number]} the characters that it shows */
export const rangeOf = (element) => [Number(element.dataset.start ?? -1), Number(element.dataset.end ?? -1)];

/**
 * An image of the document. It has a fixed height until it is loaded, so that the text can be kept in its place.
 * @param {string} item @param {TextImage} image @param {(figure: HTMLElement, show: () => void) => void} onload
 */
export function imageElement(item, image, onload) {
  const figure = document.createElement("figure");
  figure.className = "text-image loading";
  figure.dataset.start = String(image.start);
  figure.dataset.end = String(image.start + 1);
  const picture = document.createElement("img");
  picture.alt = image.text || t("Image");
  picture.loading = "lazy";
  picture.onload = () => onload(figure, () => figure.classList.remove("loading"));
  picture.onerror = () => onload(figure, () => figure.replaceChildren(failedImage(picture.alt)));
  picture.src = `/api/knowledge-items/${item}/assets/${image.hash}`;
  figure.append(picture);
  return figure;
}

/** @param {string} text */
function failedImage(text) {
  const note = document.createElement("p");
  note.className = "dim small-text";
  note.textContent = t("This image can't be shown: {text}", { text });
  return note;
}

/** @param {Block} block */
export function blockElement(block) {
  const element = document.createElement("div");
  element.className = "text-block rendered";
  element.dataset.start = String(block.start);
  element.dataset.end = String(block.end);
  if (block.page !== null) element.dataset.page = String(block.page);
  element.append(safeNodes(block.html));
  // Texts from right to left; code is from left to right, and columns of a table are in the order of the document.
  if (block.line === null && !element.querySelector("table")) element.dir = "auto";
  for (const link of element.querySelectorAll('a[href^="#fnref-"]')) link.ariaLabel = t("Back to the text");
  for (const [i, row] of element.querySelectorAll("tr").entries()) {
    if (block.rows[i] === undefined) break;
    row.dataset.start = String(block.rows[i]);
    row.dataset.end = String(block.rows[i + 1] ?? block.end);
  }
  const code = block.line === null ? null : element.querySelector("pre");
  if (code) code.replaceWith(codeLines(code.textContent ?? "", block));
  return element;
}

/** @param {string} text @returns {number} its length as the server counts it, in code points */
const lengthOf = (text) => [...text].length;

/** @param {string} text @param {Block} block */
function codeLines(text, block) {
  const lines = text.replace(/\n$/, "").split("\n");
  const list = document.createElement("pre");
  list.className = "code-lines";
  list.tabIndex = 0;
  // what is more than the text are the lines that open and close the code
  const opening = block.line === 1 ? Math.max(0, block.end - block.start - lengthOf(text) - 4) : 0;
  let at = block.start + opening;
  for (const [i, line] of lines.entries()) {
    const row = document.createElement("span");
    row.className = "code-line";
    row.dataset.line = String((block.line ?? 1) + i);
    row.dataset.start = String(at);
    at += lengthOf(line) + 1;
    row.dataset.end = String(at);
    row.textContent = `${line}\n`;
    list.append(row);
  }
  return list;
}
