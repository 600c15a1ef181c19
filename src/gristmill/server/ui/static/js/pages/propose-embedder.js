// @ts-check
/** Which embedding model fits the languages of a new base. Pure: the server chooses in the same way. */

/**
 * @typedef {{name: string, origin: "builtin" | "settings" | "stored", model: string | null, url: string | null,
 *   languages: string[] | null, englishOnly: boolean, isDefault: boolean,
 *   pricePerMillionTokens: number | null}} Embedder
 */

/** @param {Embedder} embedder @param {string[]} names How many of the languages it knows; an endpoint doesn't say. */
export const countKnown = (embedder, names) =>
  embedder.languages ? names.filter((name) => embedder.languages?.includes(name)).length : names.length;

/**
 * The model for these languages, as the server would choose it: the default one, unless a built-in one knows more.
 * @param {Embedder[]} embedders @param {string[]} names
 */
export function proposeEmbedder(embedders, names) {
  const candidates = embedders.filter((embedder) => embedder.isDefault || embedder.origin === "builtin");
  const best = Math.max(0, ...candidates.map((embedder) => countKnown(embedder, names)));
  const matching = candidates.filter((embedder) => countKnown(embedder, names) === best);
  return matching.find((embedder) => embedder.isDefault) ?? matching[0] ?? null;
}
