// @ts-check
/** What a dry run found, in words. */

import { formatNumber, t } from "../i18n.js";

/**
 * @typedef {{documents: number, texts: number, tokens: number, cost: number | null, exact: boolean,
 *   notes: string[]}} Estimate
 */

/** @param {Estimate} estimate */
export function describeEstimate(estimate) {
  const values = {
    documents: formatNumber(estimate.documents),
    texts: formatNumber(estimate.texts),
    tokens: formatNumber(estimate.tokens),
  };
  const amount = estimate.exact
    ? t("Documents: {documents}; texts to embed: {texts}; tokens: {tokens}.", values)
    : t("Documents: {documents}; texts to embed, estimated: {texts}; tokens: {tokens}.", values);
  const cost = estimate.cost === null
    ? t("No price is known for this model.")
    : t("Cost: {cost}.", { cost: formatNumber(estimate.cost) });
  return `${amount} ${cost}`;
}
