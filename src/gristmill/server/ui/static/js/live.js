// @ts-check
/**
 * Live changes. `live.on` calls its handler with batches of the changes it subscribes to; `live.state` says whether
 * changes arrive immediately. After a gap, every handler gets a `reload`: it has to fetch its data again.
 *
 * All tabs share one stream (`live-worker.js`). Without shared workers, each visible tab opens its own. A handler that
 * throws is reported, and the others are called.
 */

import { signal } from "./core.js";
import { followStream } from "./stream.js";

/** @import { Change, State } from "./stream.js" */

/** @typedef {{base?: string, topic?: "item" | "event"}} Subscription `reload` is delivered for either topic. */

/** @type {Map<{subscription: Subscription}, (changes: Change[]) => void>} */ const handlers = new Map();

/** @param {Subscription} subscription @param {Change} change */
export function matches(subscription, change) {
  if (change.type === "reload") return !subscription.base || !change.base || change.base === subscription.base;
  if (subscription.topic && change.type !== subscription.topic) return false;
  return !subscription.base || (change.type === "item" ? change.item : change.event).baseId === subscription.base;
}

/** @param {Change[]} batch */
function dispatch(batch) {
  for (const [{ subscription }, handler] of [...handlers]) {
    const changes = batch.filter((change) => matches(subscription, change));
    if (!changes.length) continue;
    try {
      handler(changes);
    } catch (error) {
      reportError(error);
    }
  }
}

const state = signal(/** @type {State} */ ("live"));
const isVisible = () => document.visibilityState === "visible";
let isStarted = false;

function useSharedWorker() {
  const worker = new SharedWorker(new URL("./live-worker.js", import.meta.url), { type: "module", name: "gristmill" });
  worker.port.onmessage = ({ data }) => {
    if (data.state) state.value = data.state;
    if (data.changes) dispatch(data.changes);
  };
  const reportVisibility = () => worker.port.postMessage({ visible: isVisible() });
  reportVisibility();
  document.addEventListener("visibilitychange", reportVisibility);
  addEventListener("pageshow", reportVisibility);
  addEventListener("pagehide", () => worker.port.postMessage({ bye: true }));
  worker.onerror = useOwnStream; // the worker could not be loaded
}

/** Opens a stream for this tab alone, while it is visible. */
function useOwnStream() {
  /** @type {(() => void) | null} */ let stop = null;
  const openOrClose = () => {
    if (isVisible()) {
      stop ??= followStream({
        changes: dispatch,
        state: (next) => {
          state.value = next;
        },
      });
    } else {
      stop?.();
      stop = null;
    }
  };
  openOrClose();
  document.addEventListener("visibilitychange", openOrClose);
}

function start() {
  if (isStarted) return;
  isStarted = true;
  if ("SharedWorker" in globalThis) useSharedWorker();
  else useOwnStream();
}

export const live = {
  state,
  /** @param {Subscription} subscription @param {(changes: Change[]) => void} handler @returns {() => void} stops it */
  on(subscription, handler) {
    start();
    const key = { subscription };
    handlers.set(key, handler);
    return () => void handlers.delete(key);
  },
};
