// @ts-check
/** The chunks of an item in order. `?chunk=` names one by id or index: it is scrolled to and highlighted. */

import { api } from "../../api.js";
import { computed, effect, html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { live } from "../../live.js";
import { button } from "../../components/button.js";
import { emptyState } from "../../components/status.js";
import { setQuery } from "../../router.js";

/** @import { LiveRoute } from "../../router.js" */

const PAGE = 200;
const MAX_PAGES = 25; // loaded at most to find the chunk that the URL names

/**
 * @typedef {{id: string, itemId: string, index: number, text: string, start: number, end: number, page: number | null,
 *   headings: string[]}} Chunk
 */

/** @type {Record<string, number>} */
const STEPS = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 };

/** @param {string} id @param {LiveRoute} route */
export function chunksTab(id, route) {
  const chunks = signal(/** @type {Chunk[]} */ ([]));
  const cursor = signal(/** @type {string | null} */ (null));
  const errorText = signal("");
  const wanted = computed(() => route.value.query.get("chunk") ?? "");
  const isCurrent = (/** @type {Chunk} */ chunk) => chunk.id === wanted.value || String(chunk.index) === wanted.value;
  const loadMore = async () => {
    const page = await api.get(`/knowledge-items/${id}/chunks`, { limit: PAGE, cursor: cursor.peek() });
    chunks.value = [...chunks.peek(), ...page.items];
    cursor.value = page.nextCursor;
  };
  const load = async () => {
    try {
      await loadMore();
      errorText.value = "";
      for (let n = 1; wanted.peek() && cursor.peek() && n < MAX_PAGES && !chunks.peek().some(isCurrent); n++) {
        await loadMore();
      }
    } catch (error) {
      errorText.value = /** @type {Error} */ (error).message;
    }
  };
  effect(() => {
    load();
    return live.on({}, (changes) => {
      if (errorText.peek() && changes.some((change) => change.type === "reload")) load(); // after an outage
    });
  });
  /** @type {Map<string, HTMLElement>} */ const elements = new Map();
  effect(
    () => [wanted.value, chunks.value.length],
    () => {
      const current = chunks.peek().find(isCurrent);
      if (current) requestAnimationFrame(() => elements.get(current.id)?.scrollIntoView({ block: "start" }));
    },
  );
  const move = (/** @type {KeyboardEvent} */ event) => {
    const step = STEPS[event.key];
    const next = step ? chunks.peek()[chunks.peek().findIndex(isCurrent) + step] : undefined;
    if (!next || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    setQuery({ chunk: next.id });
  };
  const row = (/** @type {Chunk} */ chunk) =>
    chunkRow(chunk, () => isCurrent(chunk), (element) => elements.set(chunk.id, element));
  const content = () => {
    if (errorText.value) return emptyState("file", t("No chunks to show"), errorText.value);
    return html`<ol class="chunk-rows">${chunks.value.map(row)}</ol>`;
  };
  const footer = () => {
    if (!cursor.value) return null;
    const label = t("Load more ({n} shown)", { n: chunks.value.length });
    return html`<div class="list-footer">${button(label, loadMore, { small: true })}</div>`;
  };
  return html`<div class="chunks-list" @keydown=${move}>${content}${footer}</div>`;
}

/** @param {Chunk} chunk @param {() => boolean} isCurrent @param {(element: HTMLElement) => void} ref */
function chunkRow(chunk, isCurrent, ref) {
  const choose = () => setQuery({ chunk: chunk.id });
  const page = chunk.page === null ? "" : t("page {page}", { page: chunk.page });
  const size = t("{n} characters", { n: chunk.end - chunk.start });
  return html`
    <li class="chunk ${() => (isCurrent() ? "current" : "")}" ref=${ref}>
      <button type="button" class="chunk-head" aria-pressed="${() => String(isCurrent())}" @click=${choose}>
        <b>#${chunk.index + 1}</b>
        <span class="cut">${chunk.headings.join(" › ")}</span>
        <span class="dim">${[page, size].filter(Boolean).join(" · ")}</span>
      </button>
      <p>${chunk.text}</p>
    </li>
  `;
}
