// @ts-check
/** Why a hit is where it is, in sentences: its words, its meaning, its document, and how well it fits altogether. */

import { language, t } from "../i18n.js";

/** @import { Hit } from "../pages/base/hits.js" */

const MAX_WORDS = 4;
const DOCUMENT_SHARE = 0.1; // of the keyword score, from which the rest of the document is worth a sentence
const listFormat = new Intl.ListFormat(language === "zh" ? "zh-CN" : "en", { type: "conjunction" });

/** @param {Hit} hit @returns {string[]} the words of the query that its text has, as they are written there */
export function matchedWords(hit) {
  const letters = [...hit.text]; // the server counts code points
  const words = hit.highlights.map(([start, end]) => letters.slice(start, end).join("").toLowerCase());
  return [...new Set(words)];
}

/** @param {Hit} hit @param {boolean} isInTitle whether only the title has a word of the query */
function wordsSentence(hit, isInTitle) {
  const words = matchedWords(hit);
  if (!words.length) {
    return isInTitle
      ? t("Its title has words of your query; its text has none.")
      : t("It has none of your words, and was found by its meaning.");
  }
  const quoted = words.slice(0, MAX_WORDS).map((word) => `“${word}”`);
  const list = listFormat.format(words.length > MAX_WORDS ? [...quoted, t("more")] : quoted);
  const { coverage, hasEveryWord } = hit.explain ?? { coverage: null, hasEveryWord: null };
  if (coverage === null) return t("It has {words}.", { words: list });
  if (hasEveryWord) return t("It has {words}: all that you asked for.", { words: list });
  if (coverage > 0.6) return t("It has {words}: most of what you asked for.", { words: list });
  if (coverage > 0.3) return t("It has {words}: about half of what you asked for.", { words: list });
  return t("It has {words}: a small part of what you asked for.", { words: list });
}

/** @param {Hit} hit */
function meaningSentence(hit) {
  const rank = hit.ranks.vector;
  if (rank === null) return t("Its meaning is not among the closest.");
  if (rank === 1) return t("No other text of its base is closer in meaning.");
  if (rank <= 10) return t("By meaning it is number {rank} of its base.", { rank });
  return t("By meaning it is further away: number {rank} of its base.", { rank });
}

/** @param {Hit} hit Whether the other texts of its document have these words too. */
function isLiftedByDocument(hit) {
  const score = hit.explain?.textScore ?? 0;
  const own = (hit.explain?.terms ?? []).reduce((sum, term) => sum + term.score, 0);
  return score > 0 && (score - own) / score > DOCUMENT_SHARE;
}

/** @param {Hit} hit */
function fitSentence(hit) {
  const score = hit.score.toFixed(2);
  if (hit.score >= 0.75) return t("Altogether it fits very well (score {score} of 1).", { score });
  if (hit.fits) return t("Altogether it fits (score {score} of 1).", { score });
  return t("Altogether it hardly fits (score {score} of 1).", { score });
}

/**
 * @param {Hit} hit @param {string} mode @param {boolean} isInTitle whether only the title has a word of the query
 * @returns {string} some sentences
 */
export function explainInWords(hit, mode, isInTitle) {
  const sentences = [
    mode === "vector" ? "" : wordsSentence(hit, isInTitle),
    mode === "text" ? "" : meaningSentence(hit),
    mode !== "vector" && isLiftedByDocument(hit) ? t("The rest of its document has these words too.") : "",
    hit.explain?.rerankScore === null ? "" : t("A reranker has compared it with your query."),
    fitSentence(hit),
  ];
  return sentences.filter(Boolean).join(language === "zh" ? "" : " ");
}
