// @ts-check
/** What an item's reader had to say, in words. A code that is not known here is shown as it is. */

import { t } from "../i18n.js";

/** @type {Record<string, (value: string) => string>} */
const SAYS = {
  empty: () => t("Its source is empty."),
  partial: (value) => t("Only a part was read: {part} pages.", { part: value.replace("/", t(" of ")) }),
  ocr_used: (value) => t("Text of {n} pages was recognised from their looks (OCR).", { n: Number(value) }),
  ocr_skipped: (value) => t("{n} pages have no text of their own, and no OCR was made.", { n: Number(value) }),
  embedded_left_out: (value) => t("{n} documents inside it were left out.", { n: Number(value) }),
  damaged: () => t("The file is damaged; what could be read is here."),
  partial_text: () => t("A part of its text could not be read."),
  encoding_guessed: () => t("Its encoding was guessed."),
  encrypted: () => t("It is encrypted."),
  some_failed: () => t("Some of its items failed."),
  left_out: () => t("Its source has more than was taken in."),
};

/** @param {{warnings: string[], leftOut?: Record<string, number>}} item @returns {string[]} */
export function warningsOf(item) {
  return item.warnings.map((warning) => {
    const [code, value = ""] = warning.split(":");
    return SAYS[code]?.(value) ?? warning.replaceAll("_", " ");
  });
}
