// @ts-check
/** The chunks of an item in order. `?chunk=` names one by id or index: it is scrolled to and highlighted. */

import { api } from "../../api.js";
import { computed, each, effect, html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { live } from "../../live.js";
import { button } from "../../components/button.js";
import { kebab } from "../../components/menu.js";
import { emptyState } from "../../components/status.js";
import { showError } from "../../components/toast.js";
import { setQuery } from "../../router.js";

/** @import { Signal } from "../../core.js" */
/** @import { LiveRoute } from "../../router.js" */

const PAGE = 200;
const MAX_PAGES = 25; // loaded at most to find the chunk that the URL names

/**
 * @typedef {{id: string, itemId: string, index: number, text: string, start: number, end: number, page: number | null,
 *   headings: string[], mark: "disabled" | "pinned" | null}} Chunk
 */

/** @type {Record<string, number>} */
const STEPS = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 };

/** @param {string} id @param {LiveRoute} route @param {boolean} [canChange] */
export function chunksTab(id, route, canChange = false) {
  const chunks = signal(/** @type {Chunk[]} */ ([]));
  const cursor = signal(/** @type {string | null} */ (null));
  const errorText = signal("");
  const isLoaded = signal(false);
  const wanted = computed(() => route.value.query.get("chunk") ?? "");
  const isCurrent = (/** @type {Chunk} */ chunk) => chunk.id === wanted.value || String(chunk.index) === wanted.value;
  const loadMore = async () => {
    const page = await api.get(`/knowledge-items/${id}/chunks`, { limit: PAGE, cursor: cursor.peek() });
    chunks.value = [...chunks.peek(), ...page.items];
    cursor.value = page.nextCursor;
    isLoaded.value = true;
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
  const row = (/** @type {Signal<Chunk>} */ chunk) =>
    chunkRow(
      chunk,
      () => isCurrent(chunk.value),
      (element) => elements.set(chunk.peek().id, element),
      canChange ? (mark) => setMark(chunk.peek(), mark) : null,
    );
  const setMark = async (/** @type {Chunk} */ chunk, /** @type {Chunk["mark"]} */ mark) => {
    try {
      const { text } = await api.patch(`/knowledge-items/${chunk.itemId}/chunks/${chunk.id}`, { mark });
      chunks.value = chunks.peek().map((other) =>
        other.itemId === chunk.itemId && other.text === text ? { ...other, mark } : other
      );
    } catch (error) {
      showError(error);
    }
  };
  const isEmpty = computed(() => isLoaded.value && !chunks.value.length);
  const content = () => {
    if (errorText.value) return emptyState("file", t("No chunks to show"), errorText.value);
    if (isEmpty.value) return emptyState("file", t("No chunks to show"), "");
    return list;
  };
  const list = html`<ol class="chunk-rows">${each(() => chunks.value, (chunk) => chunk.id, row)}</ol>`;
  const footer = () => {
    if (!cursor.value) return null;
    const label = t("Load more ({n} shown)", { n: chunks.value.length });
    return html`<div class="list-footer">${button(label, () => loadMore().catch(showError), { small: true })}</div>`;
  };
  return html`<div class="chunks-list" @keydown=${move}>${content}${footer}</div>`;
}

/** @param {Signal<Chunk>} chunk @param {(mark: Chunk["mark"]) => void} setMark */
function markMenu(chunk, setMark) {
  return kebab(t("More"), () => [
    chunk.peek().mark === "pinned"
      ? { label: t("Unpin"), icon: "pin", onselect: () => setMark(null) }
      : { label: t("Pin: first where it fits"), icon: "pin", onselect: () => setMark("pinned") },
    chunk.peek().mark === "disabled"
      ? { label: t("Enable"), icon: "check", onselect: () => setMark(null) }
      : { label: t("Disable: never answers"), icon: "close", onselect: () => setMark("disabled") },
  ]);
}

/**
 * @param {Signal<Chunk>} row only its mark changes @param {() => boolean} isCurrent
 * @param {(element: HTMLElement) => void} ref @param {((mark: Chunk["mark"]) => void) | null} setMark
 */
function chunkRow(row, isCurrent, ref, setMark) {
  const chunk = row.peek();
  const marks = { disabled: t("Disabled"), pinned: t("Pinned") };
  const mark = () => (row.value.mark ? html`<span class="tag">${marks[row.value.mark]}</span>` : null);
  const choose = () => setQuery({ chunk: chunk.id });
  const page = chunk.page === null ? "" : t("page {page}", { page: chunk.page });
  const size = t("{n} characters", { n: chunk.end - chunk.start });
  return html`
    <li class="chunk ${() => row.value.mark ?? ""} ${() => (isCurrent() ? "current" : "")}" ref=${ref}>
      <button type="button" class="chunk-head" aria-pressed="${() => String(isCurrent())}" @click=${choose}>
        <b>#${chunk.index + 1}</b>
        <span class="cut">${chunk.headings.join(" › ")}</span>
        ${mark}
        <span class="dim">${[page, size].filter(Boolean).join(" · ")}</span>
      </button>
      ${setMark ? markMenu(row, setMark) : null}
      <p>${chunk.text}</p>
    </li>
  `;
}
