// @ts-check
/**
 * Data of the server, kept fresh while its page is shown: fetched again after live changes and at intervals. A fetch
 * that brings nothing new changes nothing: what is shown stays, with the focus in it. One that fails keeps the last
 * value and sets `error`. An optimistic `update` is not overwritten by a response to an older
 * request.
 */

import { effect, signal } from "./core.js";
import { live } from "./live.js";
import { showError } from "./components/toast.js";

/** @import { Signal } from "./core.js" */
/** @import { Subscription } from "./live.js" */

/**
 * @template T
 * @typedef {{value: Signal<T | null>, error: Signal<Error | null>, refresh: () => Promise<void>,
 *   update: (optimistic: T, request: () => Promise<unknown>) => Promise<boolean>}} Resource
 */

/**
 * @template T @param {() => Promise<T>} load
 * @param {{live?: Subscription, every?: () => number | null, rest?: number}} [options] `every`: milliseconds until
 *   the next fetch, null for none; `rest`: least milliseconds between two fetches
 * @returns {Resource<T>}
 */
export function resource(load, options = {}) {
  const value = signal(/** @type {T | null} */ (null));
  const error = signal(/** @type {Error | null} */ (null));
  let [isLoading, isStale, isDisposed, revision] = [false, false, false, 0];
  /** @type {ReturnType<typeof setTimeout> | undefined} */ let timer;
  /** @type {Promise<unknown>} */ let lastChange = Promise.resolve();

  async function refresh() {
    if (isDisposed) return;
    if (isLoading) {
      isStale = true;
      return;
    }
    [isLoading, isStale] = [true, false];
    clearTimeout(timer);
    const startedAt = revision;
    try {
      const loaded = await load();
      const isNew = JSON.stringify(loaded) !== JSON.stringify(value.peek());
      if (startedAt === revision && !isDisposed && isNew) value.value = loaded;
      error.value = null;
    } catch (failure) {
      error.value = /** @type {Error} */ (failure);
    }
    setTimeout(() => {
      isLoading = false;
      const wait = options.every?.();
      if (isStale || startedAt !== revision) refresh();
      else if (wait && !isDisposed) timer = setTimeout(refresh, wait);
    }, options.rest ?? 400);
  }

  effect(() => {
    const stop = options.live ? live.on(options.live, () => void refresh()) : null;
    return () => {
      isDisposed = true;
      clearTimeout(timer);
      stop?.();
    };
  });
  refresh();
  return {
    value,
    error,
    refresh: refresh,
    async update(optimistic, request) {
      const previous = value.peek();
      revision++;
      value.value = optimistic;
      const sent = lastChange.then(request); // one after another, or the server could do the later one first
      lastChange = sent.catch(() => {});
      try {
        await sent;
        return true;
      } catch (failure) {
        value.value = previous;
        showError(failure);
        return false;
      } finally {
        revision++;
        refresh();
      }
    },
  };
}
