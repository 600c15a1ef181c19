// @ts-check
/** A part of a page whose module is loaded when it is first shown. */

import { html, signal } from "../core.js";
import { t } from "../i18n.js";

/** @template T @param {() => Promise<T>} load @param {(module: T) => Node} show */
export function lazy(load, show) {
  const loaded = signal(/** @type {{module: T} | null} */ (null));
  const hasFailed = signal(false);
  load().then((module) => (loaded.value = { module }), () => (hasFailed.value = true));
  const content = () => {
    if (hasFailed.value) {
      return html`<p class="empty-note plain" role="alert">${t("This could not be loaded. Reload the page.")}</p>`;
    }
    return loaded.value ? show(loaded.value.module) : null;
  };
  return html`<div class="lazy">${content}</div>`;
}
