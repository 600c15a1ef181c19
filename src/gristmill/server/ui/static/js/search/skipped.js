// @ts-check
/** What could not be searched in a base, and why, in words. */

import { problemMessage, t } from "../i18n.js";

/** @import { SkippedSearch } from "./run.js" */

/** @param {SkippedSearch} skipped */
export function skippedSentence({ baseName, leg, error }) {
  const values = { name: baseName, reason: problemMessage(error) };
  return leg === "vector"
    ? t("“{name}” was searched by words only: {reason}", values)
    : t("“{name}” was not searched: {reason}", values);
}
