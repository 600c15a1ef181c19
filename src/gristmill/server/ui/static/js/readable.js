// @ts-check
/**
 * Chunks are markdown with HTML tags in between; a hit shows them as plain text. Marks, tags, link targets and numbers
 * of footnotes are left out, cells and rows of tables are separated by · and /, code keeps its characters, and the
 * ranges to highlight follow their words. Pure functions.
 */

/** @typedef {[number, number]} Range */
/** @typedef {{text: string, from: number | null}} Piece `from` is where it is in the source; null for a replacement. */

const TAGS = "a|abbr|article|b|blockquote|br|caption|center|cite|code|col|colgroup|dd|del|details|div|dl|dt|em|" +
  "figcaption|figure|font|footer|h[1-6]|header|hr|i|iframe|img|input|ins|kbd|label|li|main|mark|nav|ol|p|picture|pre|" +
  "q|s|samp|script|section|small|source|span|strong|style|sub|summary|sup|svg|table|tbody|td|tfoot|th|thead|time|tr|" +
  "u|ul|var|video";
/** @type {Record<string, string>} */
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " ", "#39": "'" };
// Each alternative is left out, except for its named group. Names that contain `__` and products such as `x**2` stay.
const MARKUP = new RegExp(
  [
    /^ {0,3}(?:```|~~~)[^\n]*\n(?<fenced>[\s\S]*?)(?:^ {0,3}(?:```|~~~)[ \t]*$|(?![\s\S]))/,
    /(?<ticks>`+)(?<code>[^`\n](?:[^\n]*?[^`\n])?)\k<ticks>(?!`)/,
    /<!--[\s\S]*?-->/,
    new RegExp(`(?<tag></?(?:${TAGS})(?:\\s[^<>]*)?/?>)`),
    /&(?<entity>amp|lt|gt|quot|apos|nbsp|#39);/,
    /!?\[(?<label>[^\]\n]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+"[^"\n]*")?\)/,
    /\[\^\d+\]:?|^\[\^[^\s\]]+\]:/,
    /(?<![\w*])\*\*(?=\S)(?<bold>[^\n]+?)(?<=\S)\*\*(?![\w*])/,
    /(?<![\w*])\*(?=[^\s*])(?<italic>[^*\n]+?)(?<=[^\s*])\*(?![\w*])/,
    /(?<!\w)__(?=\S)(?<strong>[^_\n]*\s[^_\n]*)__(?!\w)/,
    /~~(?=\S)(?<struck>[^~\n]+)~~/,
    /^[ \t]*\|?[ \t]*:?-{3,}:?[ \t]*(?:\|[ \t]*:?-{3,}:?[ \t]*)*\|?[ \t]*$/,
    /^[ \t]*\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*$/,
    /^[ \t]*(?:>[ \t]?)*(?:#{1,6}[ \t]+|[-*+][ \t]+(?:\[[ xX]\][ \t]+)?|>[ \t]?|\|[ \t]*)/,
    /\\(?=\|)/,
    /(?<=^[ \t]*\|[^\n]*)[ \t]*(?<!\\)\|[ \t]*(?:(?<row>$(?=\n[ \t]*\|))|$|(?<cell>))/,
    /[ \t]*\|[ \t]*$/,
  ].map((part) => part.source).join("|"),
  "dgim",
);
const VERBATIM = new Set(["fenced", "code"]);
const NESTED = ["fenced", "code", "label", "bold", "italic", "strong", "struck"];

/** @param {string} text @param {number} [offset] @returns {Piece[]} */
function split(text, offset = 0) {
  /** @type {Piece[]} */ const pieces = [];
  let position = 0;
  for (const match of text.matchAll(MARKUP)) {
    const groups = match.groups ?? {};
    pieces.push({ text: text.slice(position, match.index), from: offset + position });
    position = match.index + match[0].length;
    const name = NESTED.find((group) => groups[group] !== undefined);
    if (name) {
      const from = offset + (match.indices?.groups?.[name]?.[0] ?? match.index);
      pieces.push(...(VERBATIM.has(name) ? [{ text: groups[name], from }] : split(groups[name], from)));
    } else if (groups.row !== undefined) pieces.push({ text: " /", from: null });
    else if (groups.cell !== undefined) pieces.push({ text: " · ", from: null });
    else if (groups.entity) pieces.push({ text: ENTITIES[groups.entity.toLowerCase()], from: null });
    else if (/^<\/?(br|p|div|li|td|th|tr|h\d|hr)\b/i.test(groups.tag ?? "")) pieces.push({ text: " ", from: null });
  }
  pieces.push({ text: text.slice(position), from: offset + position });
  return pieces;
}

/**
 * The text without markup, and the ranges in it. Ranges are counted in code points, as the server counts; the result is
 * counted in UTF-16 units, as JavaScript counts.
 * @param {string} text @param {Range[]} ranges @returns {{text: string, ranges: Range[]}}
 */
export function readable(text, ranges) {
  const sourceRanges = toUnits(text, ranges);
  let plain = "";
  /** @type {Range[]} */ const plainRanges = [];
  for (const piece of split(text)) {
    for (const [start, end] of piece.from === null ? [] : sourceRanges) {
      const from = Math.max(start - /** @type {number} */ (piece.from), 0);
      const to = Math.min(end - /** @type {number} */ (piece.from), piece.text.length);
      if (from < to) plainRanges.push([plain.length + from, plain.length + to]);
    }
    plain += piece.text;
  }
  return { text: plain, ranges: plainRanges };
}

/** @param {string} text @param {Range[]} ranges @returns {Range[]} */
function toUnits(text, ranges) {
  if (!/[\ud800-\udfff]/.test(text)) return ranges;
  const units = [0];
  for (const letter of text) units.push(/** @type {number} */ (units.at(-1)) + letter.length);
  const unit = (/** @type {number} */ point) => units[Math.min(point, units.length - 1)];
  return ranges.map(([start, end]) => [unit(start), unit(end)]);
}
