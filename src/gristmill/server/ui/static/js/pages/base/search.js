// @ts-check
/**
 * The search pane: the query, its mode and its filters are in the URL; hits show the matched words. Typing searches
 * after a short delay; outdated responses are dropped. A search that failed because the server or its embedder can't be
 * reached is repeated until it succeeds.
 */

import { api } from "../../api.js";
import { live } from "../../live.js";
import { computed, effect, html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { button } from "../../components/button.js";
import { icon } from "../../components/icon.js";
import { openMenu } from "../../components/menu.js";
import { emptyState } from "../../components/status.js";
import { segments } from "../../components/tabs.js";
import { setQuery } from "../../router.js";
import { allows } from "../../session.js";
import { hasKeyword, hitCount, hitRow } from "./hits.js";

/** @import { ApiError } from "../../api.js" */
/** @import { LiveRoute } from "../../router.js" */
/** @import { Hit } from "./hits.js" */
/** @typedef {{word: string, replacement: string}} Correction */
/**
 * @typedef {{hits: Hit[], fits: boolean, bestScore: number | null, relaxed: string[], corrected: Correction[],
 *   tookMs: number}} SearchResponse
 */

const TYPING_DELAY = 280;
const RETRY_DELAYS = [1000, 2000, 5000, 10_000]; // milliseconds, while the server can't answer
const TYPES = { file: "Files", url: "Web pages", note: "Notes", record: "Records" };

/** @param {string} base @param {LiveRoute} route */
export function searchPane(base, route) {
  const param = (/** @type {string} */ name) => route.value.query.get(name) ?? "";
  const mode = () => param("mode") || "hybrid";
  const response = signal(/** @type {SearchResponse | null} */ (null));
  const failure = signal(/** @type {ApiError | null} */ (null));
  const isBusy = signal(false);
  const attempt = signal(0);
  let failures = 0;
  const request = computed(() =>
    JSON.stringify({ query: param("q"), mode: mode(), types: param("types"), limit: Number(param("limit") || 10) })
  );
  effect(
    () => request.value,
    () => {
      failure.value = null;
      failures = 0;
    },
  );
  effect(
    () => /** @type {const} */ ([request.value, attempt.value]),
    ([text]) => {
      const { query, mode, types, limit } = JSON.parse(text);
      if (!query.trim()) {
        response.value = null;
        return;
      }
      const abort = new AbortController();
      /** @type {ReturnType<typeof setTimeout> | undefined} */ let timer;
      isBusy.value = true;
      const filters = types ? { types: types.split(",") } : undefined;
      const body = { query, mode, limit, filters, explain: true };
      api.post(`/knowledge-bases/${base}/search`, body, { signal: abort.signal })
        .then(
          (result) => {
            response.value = result;
            failure.value = null;
            failures = 0;
          },
          (error) => {
            if (abort.signal.aborted) return;
            failure.value = error;
            const delay = RETRY_DELAYS[Math.min(failures++, RETRY_DELAYS.length - 1)];
            if (isTemporary(error)) timer = setTimeout(() => attempt.value++, delay);
          },
        )
        .finally(() => abort.signal.aborted || (isBusy.value = false));
      return () => {
        abort.abort();
        clearTimeout(timer);
      };
    },
  );
  effect(() =>
    live.on({ base }, (changes) => {
      const wasOffline = changes.some((change) => change.type === "reload");
      if (wasOffline && isTemporary(failure.peek()) && !isBusy.peek()) attempt.value++;
    })
  );
  const explain = () => param("explain") === "1";
  const modes = [
    { id: "hybrid", label: t("Hybrid") },
    { id: "vector", label: t("Semantic") },
    { id: "text", label: t("Keyword") },
  ];
  const chooseMode = (/** @type {string} */ id) => setQuery({ mode: id === "hybrid" ? null : id });
  const isBusyText = () => String(isBusy.value);
  return html`
    <div class="search-pane">
      <div class="search-head">
        ${searchBox(route)}
        <div class="search-options">
          ${segments(t("Mode"), modes, mode, chooseMode)}
          <span class="legend">
            <span class="by-words">${t("Keyword")}</span>
            <span class="by-meaning">${t("Semantic")}</span>
          </span>
        </div>
      </div>
      <div class="scroll hits" tabindex="0" aria-label="${t("Results")}" role="region" aria-busy="${isBusyText}">
        ${() => results(response.value, failure.value, base, param, explain, () => attempt.value++)}
      </div>
    </div>
  `;
}

/** @param {LiveRoute} route */
function searchBox(route) {
  /** @type {ReturnType<typeof setTimeout>} */ let timer;
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const field = /** @type {HTMLFormElement} */ (event.currentTarget).querySelector("input");
    clearTimeout(timer);
    setQuery({ q: field?.value ?? "", limit: null }, { push: true });
  };
  const oninput = (/** @type {Event} */ event) => {
    const input = /** @type {HTMLInputElement} */ (event.target);
    clearTimeout(timer);
    timer = setTimeout(() => setQuery({ q: input.value, limit: null }), TYPING_DELAY);
  };
  return html`
    <form class="search-box" role="search" @submit=${submit}>
      ${icon("search")}
      <input
        type="search"
        data-key="/"
        aria-label="${t("Search this base")}"
        placeholder="${t("Search this base")}"
        .value=${() => route.value.query.get("q") ?? ""}
        @input=${oninput}
      >
      <kbd aria-hidden="true">${icon("enter")}</kbd>
    </form>
  `;
}

/** @param {ApiError | null} error Whether the same search can succeed later: the server or its embedder is away. */
const isTemporary = (error) => Boolean(error && (error.status === 0 || error.status === 429 || error.status >= 500));

/**
 * @param {SearchResponse | null} response @param {ApiError | null} failure @param {string} base
 * @param {(name: string) => string} param @param {() => boolean} explain @param {() => void} retry
 */
function results(response, failure, base, param, explain, retry) {
  if (failure) {
    return emptyState(
      "warn",
      t("The search failed"),
      failure.message,
      button(t("Try again"), retry, { icon: "retry" }),
    );
  }
  if (!response && param("q").trim()) return html`<p class="empty-note plain">${t("Searching …")}</p>`;
  if (!response) {
    const text = t('Enter words or a question. Use "quotes" for an exact phrase, and -word to exclude a word.');
    return emptyState("search", t("Search this base"), text);
  }
  const { hits, tookMs } = response;
  const best = Math.max(0, ...hits.map((hit) => hit.explain?.textScore ?? 0));
  const question = param("q");
  const hitUrl = (/** @type {Hit} */ hit) => {
    const query = new URLSearchParams(location.search);
    query.set("chunk", hit.chunkId);
    return `/b/${base}/i/${hit.itemId}?${query}`;
  };
  const limit = Number(param("limit") || 10);
  const toggleExplain = () => setQuery({ explain: explain() ? null : "1" });
  const showMore = () => setQuery({ limit: String(Math.min(100, limit + 20)) });
  const openWhyNot = async () => (await import("./why-not.js")).openWhyNot(base, question, param("mode") || "hybrid");
  const whyNotButton = () => button(t("Why is a document missing?"), openWhyNot, { small: true, kind: "quiet" });
  const isHybrid = (param("mode") || "hybrid") === "hybrid";
  const list = () => html`<ol>${hits.map((hit) => hitRow(hit, best, { explain, to: hitUrl, isHybrid }))}</ol>`;
  const isMeaningOnly = isHybrid && hits.length > 0 && !hits.some(hasKeyword);
  const noHits = () =>
    response.bestScore === null
      ? emptyState("search", t("No results"), t("Try different words or another mode."))
      : emptyState("search", t("Nothing fits"), t("What was found scores below the lowest score of this base."));
  return html`
    <div class="results">
      <div class="tally">
        <span class="dim small-text">${hitCount(tookMs, hits.length)}</span>
        ${filterButton(param)}
        ${button(t("Explain"), toggleExplain, { small: true, kind: "quiet" })}
      </div>
      ${isMeaningOnly ? noKeywordNote() : response.fits || !hits.length ? null : nothingFitsNote()}
      ${queryChanges(response).map((change) => html`<p class="no-keyword">${icon("warn")}<span>${change}</span></p>`)}
      ${hits.length ? list() : noHits()}
      <div class="list-footer">
        ${hits.length >= limit && limit < 100 ? button(t("More"), showMore, { small: true }) : null}
        ${() => (allows("admin") ? whyNotButton() : null)}
      </div>
    </div>
  `;
}

/** @param {SearchResponse} response What was changed about the query, one sentence each. */
const queryChanges = ({ relaxed, corrected }) => [
  ...relaxed.map((phrase) => t("Nothing contains “{phrase}”. These results have some of its words.", { phrase })),
  ...corrected.map(({ word, replacement }) =>
    t("Nothing contains “{word}”. These results are for “{replacement}”.", { word, replacement })
  ),
];

const noKeywordNote = () =>
  html`
    <p class="no-keyword">
      ${icon("warn")}<span>${t("No document contains these words. These are the closest by meaning.")}</span>
    </p>
  `;

const nothingFitsNote = () =>
  html`
    <p class="no-keyword">
      ${icon("warn")}<span>${t("Nothing fits this search well. These are the closest texts.")}</span>
    </p>
  `;

/** @param {(name: string) => string} param */
function filterButton(param) {
  const types = param("types").split(",").filter(Boolean);
  const label = types.length
    ? types.map((type) => t(TYPES[/** @type {keyof typeof TYPES} */ (type)] ?? type)).join(", ")
    : t("All types");
  const toggle = (/** @type {string} */ id) => () =>
    setQuery({ types: (types.includes(id) ? types.filter((type) => type !== id) : [...types, id]).join(",") });
  const entries = [
    { label: t("All types"), icon: types.length ? undefined : "check", onselect: () => setQuery({ types: null }) },
    ...Object.entries(TYPES).map(([id, word]) => ({
      label: t(word),
      icon: types.includes(id) ? "check" : undefined,
      onselect: toggle(id),
    })),
  ];
  const trigger = button(label, () => openMenu(trigger, entries), { small: true, kind: "quiet" });
  trigger.setAttribute("aria-haspopup", "menu");
  return trigger;
}
