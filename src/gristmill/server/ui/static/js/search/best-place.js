// @ts-check
/**
 * Where in a text most of the query stands. A passage can have common words of it in many places, and the rare one in a
 * single place: there a hit is shown and opened. Pure functions.
 */

/** @typedef {[number, number]} Range */

const LENGTH = 300; // characters that are read at once
const SLACK = 1e-9; // of sums of fractions

/**
 * @param {Range[]} ranges the words of the query, in order @param {string[]} words what stands there
 * @param {number} [length] of the window that is shown
 * @returns {number} the index of the range at which the best window begins; 0 if there is none
 */
export function bestRange(ranges, words, length = LENGTH) {
  const names = words.map((word) => word.toLowerCase());
  /** @type {Map<string, number>} */ const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  const weightFrom = (/** @type {number} */ first, /** @type {number} */ limit) => {
    const seen = new Set();
    for (let i = first; i < ranges.length && ranges[i][1] <= limit; i++) seen.add(names[i]);
    return [...seen].reduce((sum, name) => sum + 1 / (counts.get(name) ?? 1), 0);
  };
  let [best, bestWeight] = [0, 0];
  for (const [first, [start]] of ranges.entries()) {
    const weight = weightFrom(first, start + length);
    if (weight > bestWeight + SLACK) [best, bestWeight] = [first, weight];
  }
  // What adds nothing at its beginning belongs to what stands before it.
  const end = (ranges[best]?.[0] ?? 0) + length;
  while (ranges[best + 1]?.[0] < end && weightFrom(best + 1, end) > bestWeight - SLACK) best++;
  return best;
}

/**
 * Where a hit is opened: the character in its document, and the page.
 * @param {{text: string, highlights: Range[], source: {page: number | null, start: number},
 *   boxes?: {page: number, start: number, end: number}[]}} hit
 */
export function bestPlace({ text, highlights, source, boxes }) {
  const letters = [...text]; // the server counts code points
  const words = highlights.map(([from, to]) => letters.slice(from, to).join(""));
  const at = source.start + (highlights[bestRange(highlights, words)]?.[0] ?? 0);
  const box = highlights.length ? boxes?.find((candidate) => candidate.start <= at && at < candidate.end) : undefined;
  return { at, page: box?.page ?? source.page };
}
