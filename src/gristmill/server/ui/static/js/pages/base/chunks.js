// @ts-check
/** The chunks of an item in order, each between its neighbours. `?chunk=` names one, by id or place: it is shown and marked. */

import { api } from "../../api.js";
import { computed, effect, html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { button } from "../../parts/button.js";
import { empty } from "../../parts/status.js";
import { setQuery } from "../../router.js";

const PAGE = 200;
const MOST_PAGES = 25; // that are gone through to find a chunk which the address names

/** @typedef {{id: string, itemId: string, index: number, text: string, start: number, end: number, page: number | null, headings: string[]}} Chunk */

/** @param {string} id @param {import("../../router.js").LiveRoute} route */
export function chunksOf(id, route) {
  const chunks = signal(/** @type {Chunk[]} */ ([]));
  const cursor = signal(/** @type {string | null} */ (null));
  const failed = signal("");
  const wanted = computed(() => route.value.query.get("chunk") ?? "");
  const isIt = (/** @type {Chunk} */ chunk) => chunk.id === wanted.value || String(chunk.index) === wanted.value;
  const more = async () => {
    const page = await api.get(`/knowledge-items/${id}/chunks`, { limit: PAGE, cursor: cursor.peek() });
    chunks.value = [...chunks.peek(), ...page.items];
    cursor.value = page.nextCursor;
  };
  const load = async () => {
    try {
      await more();
      for (let n = 1; wanted.peek() && cursor.peek() && n < MOST_PAGES && !chunks.peek().some(isIt); n++) await more();
    } catch (error) {
      failed.value = /** @type {Error} */ (error).message;
    }
  };
  effect(
    () => null,
    () => void load(),
  );
  /** @type {Map<string, HTMLElement>} */ const shown = new Map();
  effect(
    () => [wanted.value, chunks.value.length],
    () => {
      const one = chunks.peek().find(isIt);
      if (one) requestAnimationFrame(() => shown.get(one.id)?.scrollIntoView({ block: "start" }));
    },
  );
  return html`<div class="chunks-list" @keydown=${(/** @type {KeyboardEvent} */ event) => {
    const at = chunks.peek().findIndex(isIt);
    const to = event.key === "ArrowDown" || event.key === "j" ? at + 1 : event.key === "ArrowUp" || event.key === "k" ? at - 1 : -1;
    const next = chunks.peek()[to];
    if (!next || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    setQuery({ chunk: next.id });
  }}>${() => {
    if (failed.value) return empty("file", t("No chunks to show"), failed.value);
    return html`<ol class="chunk-rows">${chunks.value.map(
      (chunk) => html`<li class="chunk ${() => (isIt(chunk) ? "current" : "")}" ref=${(/** @type {HTMLElement} */ element) => shown.set(chunk.id, element)}>
        <button type="button" class="chunk-head" aria-pressed="${() => String(isIt(chunk))}" @click=${() => setQuery({ chunk: chunk.id })}><b>#${chunk.index + 1}</b><span class="cut">${chunk.headings.join(" › ")}</span><span class="dim">${[
          chunk.page === null ? "" : t("page {page}", { page: chunk.page }),
          t("{n} characters", { n: chunk.end - chunk.start }),
        ]
          .filter(Boolean)
          .join(" · ")}</span></button><p>${chunk.text}</p></li>`,
    )}</ol>`;
  }}${() => (cursor.value ? html`<div class="after">${button(t("More, {n} so far", { n: chunks.value.length }), more, { small: true })}</div>` : null)}</div>`;
}

