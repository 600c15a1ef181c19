// @ts-check
/**
 * Runs the search that a page shows. A new request drops the response of the one before; one that failed because the
 * server or its embedder can't be reached is repeated until it succeeds.
 */

import { api } from "../api.js";
import { computed, effect, signal } from "../core.js";
import { live } from "../live.js";
import { prepareReader } from "./prepare-reader.js";

/** @import { ApiError } from "../api.js" */
/** @import { Signal } from "../core.js" */
/** @import { Hit } from "../pages/base/hits.js" */
/** @typedef {{word: string, replacement: string}} Correction */
/** @typedef {{baseName: string, leg: "vector" | "both", error: {code: string, message: string}}} SkippedSearch */
/**
 * @typedef {{hits: Hit[], fits: boolean, bestScore: number | null, relaxed: string[], corrected: Correction[],
 *   skipped: SkippedSearch[], tookMs: number}} SearchResponse
 */
/**
 * @typedef {{response: Signal<SearchResponse | null>, failure: Signal<ApiError | null>, isBusy: Signal<boolean>,
 *   retry: () => void}} RunningSearch
 */

const RETRY_DELAYS = [1000, 2000, 5000, 10_000]; // milliseconds, while the server can't answer

/** @param {ApiError | null} error Whether the same search can succeed later: the server or its embedder is away. */
const isTemporary = (error) => Boolean(error && (error.status === 0 || error.status === 429 || error.status >= 500));

/**
 * @param {() => {path: string, body: Record<string, any>} | null} request null: nothing is searched for
 * @returns {RunningSearch}
 */
export function runSearch(request) {
  const response = signal(/** @type {SearchResponse | null} */ (null));
  const failure = signal(/** @type {ApiError | null} */ (null));
  const isBusy = signal(false);
  const attempt = signal(0);
  let failures = 0;
  const text = computed(() => JSON.stringify(request()));
  effect(
    () => text.value,
    () => {
      failure.value = null;
      failures = 0;
    },
  );
  effect(
    () => /** @type {const} */ ([text.value, attempt.value]),
    ([json]) => {
      const current = JSON.parse(json);
      if (!current) {
        response.value = null;
        isBusy.value = false;
        return;
      }
      const abort = new AbortController();
      /** @type {ReturnType<typeof setTimeout> | undefined} */ let timer;
      isBusy.value = true;
      api.post(current.path, current.body, { signal: abort.signal })
        .then(
          (result) => {
            response.value = result;
            prepareReader(result.hits);
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
    live.on({}, (changes) => {
      const wasOffline = changes.some((change) => change.type === "reload");
      if (wasOffline && isTemporary(failure.peek()) && !isBusy.peek()) attempt.value++;
    })
  );
  return { response, failure, isBusy, retry: () => attempt.value++ };
}
