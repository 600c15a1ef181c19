// @ts-check
/**
 * Something of the server's, kept fresh while its page is shown: fetched again when something happens, and now and then. A
 * fetch that fails leaves what is shown, and says so in `error`. What the page changes ahead of the server (`change`) is not
 * overwritten by an answer that was asked for before.
 */

import { effect, signal } from "./core.js";
import { live } from "./live.js";
import { refused } from "./parts/toast.js";

/** @template T @typedef {{value: import("./core.js").Signal<T | null>, error: import("./core.js").Signal<Error | null>,
 *   renew: () => Promise<void>, change: (next: T, ask: () => Promise<unknown>) => Promise<boolean>}} Fetched */

/**
 * @template T @param {() => Promise<T>} get
 * @param {{live?: import("./live.js").Wanted, every?: () => number | null, rest?: number}} [how] `every`: milliseconds until the
 *   next look, null for none; `rest`: between two looks, however much happens
 * @returns {Fetched<T>}
 */
export function fetched(get, how = {}) {
  const value = signal(/** @type {T | null} */ (null));
  const error = signal(/** @type {Error | null} */ (null));
  let [looking, due, over, edition] = [false, false, false, 0];
  /** @type {ReturnType<typeof setTimeout> | undefined} */ let next;

  async function renew() {
    if (over) return;
    if (looking) {
      due = true;
      return;
    }
    [looking, due] = [true, false];
    clearTimeout(next);
    const mine = edition;
    try {
      const got = await get();
      if (mine === edition && !over) value.value = got;
      error.value = null;
    } catch (failed) {
      error.value = /** @type {Error} */ (failed);
    }
    setTimeout(() => {
      looking = false;
      const wait = how.every?.();
      if (due || mine !== edition) renew();
      else if (wait && !over) next = setTimeout(renew, wait);
    }, how.rest ?? 400);
  }

  effect(() => {
    const stop = how.live ? live.on(how.live, () => void renew()) : null;
    return () => {
      over = true;
      clearTimeout(next);
      stop?.();
    };
  });
  renew();
  return {
    value,
    error,
    renew,
    async change(ahead, ask) {
      const before = value.peek();
      edition++;
      value.value = ahead;
      try {
        await ask();
        return true;
      } catch (failed) {
        value.value = before;
        refused(failed);
        return false;
      } finally {
        edition++;
        renew();
      }
    },
  };
}
