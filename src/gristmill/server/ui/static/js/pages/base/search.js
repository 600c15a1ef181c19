// @ts-check
/**
 * The search pane: a question, its mode and filters in the address, hits with the words that were found. Typing asks after
 * a short pause; an answer that is no longer wanted is dropped.
 */

import { api } from "../../api.js";
import { computed, effect, html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { button } from "../../parts/button.js";
import { icon } from "../../parts/icon.js";
import { openMenu } from "../../parts/menu.js";
import { empty } from "../../parts/status.js";
import { segments } from "../../parts/tabs.js";
import { setQuery } from "../../router.js";
import { hitOf, tally } from "./hits.js";

const PAUSE = 280;
const TYPES = { file: "Files", url: "Web pages", note: "Notes", record: "Records" };

/** @param {string} base @param {import("../../router.js").LiveRoute} route */
export function searchPane(base, route) {
  const ask = (/** @type {string} */ name) => route.value.query.get(name) ?? "";
  const mode = () => ask("mode") || "hybrid";
  const answer = signal(/** @type {{hits: import("./hits.js").Hit[], tookMs: number} | null} */ (null));
  const failed = signal(/** @type {Error | null} */ (null));
  const busy = signal(false);
  const asked = computed(() => JSON.stringify({ query: ask("q"), mode: mode(), types: ask("types"), limit: Number(ask("limit") || 10) }));
  effect(
    () => asked.value,
    (text) => {
      const { query, mode, types, limit } = JSON.parse(text);
      failed.value = null;
      if (!query.trim()) {
        answer.value = null;
        return;
      }
      const stop = new AbortController();
      busy.value = true;
      const filters = types ? { types: types.split(",") } : undefined;
      api
        .post(`/knowledge-bases/${base}/search`, { query, mode, limit, filters, explain: true }, { signal: stop.signal })
        .then(
          (found) => (answer.value = found),
          (error) => stop.signal.aborted || (failed.value = error),
        )
        .finally(() => stop.signal.aborted || (busy.value = false));
      return () => stop.abort();
    },
  );
  const explain = () => ask("explain") === "1";
  return html`<div class="search-pane"><div class="search-head">${box(route)}
    <div class="search-options">${segments(
      t("Mode"),
      [
        { id: "hybrid", label: t("Hybrid") },
        { id: "vector", label: t("Semantic") },
        { id: "text", label: t("Keyword") },
      ],
      mode,
      (id) => setQuery({ mode: id === "hybrid" ? null : id }),
    )}<span class="legend"><span class="by-words">${t("Keyword")}</span><span class="by-meaning">${t("Semantic")}</span></span></div></div>
    <div class="scroll hits" tabindex="0" aria-label="${t("Hits")}" role="region" aria-busy="${() => String(busy.value)}">${() => results(answer.value, failed.value, base, ask, explain)}</div></div>`;
}

/** @param {import("../../router.js").LiveRoute} route */
function box(route) {
  /** @type {ReturnType<typeof setTimeout>} */ let timer;
  const now = (/** @type {Event} */ event) => {
    clearTimeout(timer);
    setQuery({ q: /** @type {HTMLInputElement} */ (event.target).value, limit: null });
  };
  return html`<form class="search-box" role="search" @submit=${(/** @type {Event} */ event) => {
    event.preventDefault();
    const field = /** @type {HTMLFormElement} */ (event.currentTarget).querySelector("input");
    clearTimeout(timer);
    setQuery({ q: field?.value ?? "", limit: null }, { push: true });
  }}>${icon("search")}<input type="search" data-key="/" aria-label="${t("Search this base")}" placeholder="${t("Search this base")}" .value=${() => route.value.query.get("q") ?? ""} @input=${(
    /** @type {Event} */ event,
  ) => {
    clearTimeout(timer);
    timer = setTimeout(() => now(event), PAUSE);
  }}><kbd aria-hidden="true">${icon("enter")}</kbd></form>`;
}

/**
 * @param {{hits: import("./hits.js").Hit[], tookMs: number} | null} answer @param {Error | null} failed @param {string} base
 * @param {(name: string) => string} ask @param {() => boolean} explain
 */
function results(answer, failed, base, ask, explain) {
  if (failed) return empty("warn", t("The search was refused"), failed.message);
  if (!answer) return empty("search", t("Ask this base"), t('Words or a whole question. "two words" stand together, -word is left out.'));
  const best = Math.max(0, ...answer.hits.map((hit) => hit.explain?.textScore ?? 0));
  const question = ask("q");
  const to = (/** @type {import("./hits.js").Hit} */ hit) => {
    const query = new URLSearchParams(location.search);
    query.set("chunk", hit.chunkId);
    return `/b/${base}/i/${hit.itemId}?${query}`;
  };
  const more = Number(ask("limit") || 10);
  return html`<div class="results"><div class="tally"><span class="dim small-text">${tally(answer.tookMs, answer.hits.length)}</span>${filterButton(ask)}${button(
    t("Explain"),
    () => setQuery({ explain: explain() ? null : "1" }),
    { small: true, kind: "quiet" },
  )}</div>
    ${answer.hits.length ? html`<ol>${answer.hits.map((hit) => hitOf(hit, best, { explain, to }))}</ol>` : empty("search", t("Nothing was found"), t("Try other words, or another mode."))}
    <div class="after">${answer.hits.length >= more && more < 100 ? button(t("More"), () => setQuery({ limit: String(Math.min(100, more + 20)) }), { small: true }) : null}${button(
      t("Why is a document not here?"),
      async () => (await import("./why-not.js")).openWhyNot(base, question, ask("mode") || "hybrid"),
      { small: true, kind: "quiet" },
    )}</div></div>`;
}

/** @param {(name: string) => string} ask */
function filterButton(ask) {
  const types = ask("types").split(",").filter(Boolean);
  const label = types.length ? types.map((one) => t(TYPES[/** @type {keyof typeof TYPES} */ (one)] ?? one)).join(", ") : t("All types");
  const it = button(
    label,
    () =>
      openMenu(it, [
        { label: t("All types"), icon: types.length ? undefined : "check", act: () => setQuery({ types: null }) },
        ...Object.entries(TYPES).map(([id, word]) => ({
          label: t(word),
          icon: types.includes(id) ? "check" : undefined,
          act: () => setQuery({ types: (types.includes(id) ? types.filter((one) => one !== id) : [...types, id]).join(",") }),
        })),
      ]),
    { small: true, kind: "quiet" },
  );
  it.setAttribute("aria-haspopup", "menu");
  return it;
}
