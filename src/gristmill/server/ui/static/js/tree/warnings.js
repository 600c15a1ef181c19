// @ts-check
/** Texts for the warning codes of an item. An unknown code is shown as it is. */

import { t } from "../i18n.js";

/** @type {Record<string, (value: string) => string>} */
const DESCRIPTIONS = {
  empty: () => t("Its source is empty."),
  no_text: () => t("It contains no text."),
  partial: (value) => t("Only part of it was read: {part} pages.", { part: value.replace("/", t(" of ")) }),
  ocr_used: (value) => t("The text of {n} pages was recognised by OCR.", { n: Number(value) }),
  ocr_skipped: (value) => t("{n} pages contain no text, and OCR was not run on them.", { n: Number(value) }),
  ocr_doubtful: (value) => t("The text that OCR recognised on {n} pages is probably wrong.", { n: Number(value) }),
  unreadable_text: () =>
    t("The letters of some pages can't be read: their fonts don't say what they show. Turn on OCR."),
  embedded_left_out: (value) => t("{n} embedded documents were skipped.", { n: Number(value) }),
  damaged: () => t("The file is damaged. Only the readable part was indexed."),
  partial_text: () => t("Part of its text could not be read."),
  mails_in_text: (value) => t("{n} of its messages are part of its own text.", { n: Number(value) }),
  encoding_guessed: () => t("Its text encoding was guessed."),
  large: (value) => t("It is very large: {n} MiB.", { n: Number(value) }),
  encrypted: () => t("It is encrypted."),
  some_failed: () => t("Some of its items failed."),
  left_out: () => t("Not everything in its source was imported."),
};

/** @param {{warnings: string[], leftOut?: Record<string, number>}} item @returns {string[]} */
export function warningsOf(item) {
  return item.warnings.map((warning) => {
    const [code, value = ""] = warning.split(":");
    return DESCRIPTIONS[code]?.(value) ?? warning.replaceAll("_", " ");
  });
}
