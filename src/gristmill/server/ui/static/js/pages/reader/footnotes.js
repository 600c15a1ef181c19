// @ts-check
/** Footnotes in a text: from a reference to its note, and back to where one came from. Both may have to be loaded. */

/** @typedef {{label: string, start: number, reference: number | null}} Footnote where its note and reference are */

const LINK = /^#fn(ref)?-(.+)$/;

/** @param {HTMLElement} link @returns {{isBack: boolean, label: string} | null} */
function targetOf(link) {
  const match = LINK.exec(link.getAttribute("href") ?? "");
  try {
    return match && { isBack: Boolean(match[1]), label: decodeURIComponent(match[2]) };
  } catch {
    return null; // an address that the document made up
  }
}

/** @param {HTMLElement} link The characters of the block or row that has it. @returns {number[]} */
function rangeAround(link) {
  const { start, end } = /** @type {HTMLElement | null} */ (link.closest("[data-start]"))?.dataset ?? {};
  return [Number(start), Number(end)];
}

/**
 * @param {HTMLElement} body the text @param {Map<string, Footnote>} footnotes those that are loaded, by label
 * @param {(at: number) => Promise<void>} showAt
 */
export function followFootnotes(body, footnotes, showAt) {
  /** @type {Map<string, number>} */ const origins = new Map(); // where references were followed from
  body.addEventListener("click", async (event) => {
    const link = /** @type {Element} */ (event.target).closest("a");
    const target = link && targetOf(link);
    const footnote = footnotes.get(target?.label ?? "");
    if (!link || !target || !footnote) return;
    event.preventDefault();
    const { isBack, label } = target;
    if (!isBack) origins.set(label, rangeAround(link)[0]);
    const at = isBack ? origins.get(label) ?? footnote.reference : footnote.start;
    if (at === null) return;
    await showAt(at);
    for (const other of body.querySelectorAll("a")) {
      const opposite = targetOf(other);
      if (opposite?.label !== label || opposite.isBack === isBack || rangeAround(other)[1] <= at) continue;
      other.focus({ preventScroll: true });
      break;
    }
  });
}
