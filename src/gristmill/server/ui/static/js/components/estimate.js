// @ts-check
/** What a dry run found, in words. */

import { formatCost, formatNumber, t } from "../i18n.js";

/**
 * @typedef {{documents: number, texts: number, tokens: number, cost: number | null, exact: boolean,
 *   uncertainty: number, notes: string[]}} Estimate
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
    : t("Cost: {cost}.", { cost: formatCost(estimate.cost) });
  const percent = Math.round(estimate.uncertainty * 100);
  const range = percent ? ` ${t("It may be {percent} % more or less.", { percent })}` : "";
  return `${amount} ${cost}${range}`;
}
