// @ts-check
/** A part of a page whose module is loaded when it is first shown. */

import { html, signal } from "../core.js";

/** @template T @param {() => Promise<T>} load @param {(module: T) => Node} show */
export function lazy(load, show) {
  const loaded = signal(/** @type {{module: T} | null} */ (null));
  load().then((module) => {
    loaded.value = { module };
  });
  return html`<div class="lazy">${() => (loaded.value ? show(loaded.value.module) : null)}</div>`;
}
