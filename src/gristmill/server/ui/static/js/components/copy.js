// @ts-check
/**
 * Copies a text, and says so. Browsers have a clipboard only for pages that came by HTTPS or from this machine;
 * elsewhere the text is selected in a field for a moment, and copied from there.
 */

import { t } from "../i18n.js";
import { showError, toast } from "./toast.js";

/** @param {string} text */
export async function copyText(text) {
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else copyFromField(text);
    toast(t("Copied"));
  } catch (error) {
    showError(error);
  }
}

/** @param {string} text */
function copyFromField(text) {
  const focused = document.activeElement;
  const field = document.createElement("textarea");
  field.className = "sr";
  field.value = text;
  (focused?.closest("dialog") ?? document.body).append(field); // an open dialog lets nothing outside be selected
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  if (!isCopied) throw new Error(t("This browser can't copy here. Select the text, and copy it by its menu."));
}
