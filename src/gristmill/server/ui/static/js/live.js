// @ts-check
/**
 * What happens, as it happens. `live.on` calls its handler with batches of what is wanted; `live.state` tells whether
 * changes arrive at once. After a gap every handler gets a `reload`: what it shows has to be fetched anew.
 *
 * All tabs share one stream (`live-worker.js`); where a browser has no shared workers, each tab that is seen has its own. A
 * handler that throws is reported, and the others are called.
 */

import { signal } from "./core.js";
import { follow } from "./stream.js";

/** @typedef {import("./stream.js").Change} Change */
/** @typedef {{base?: string, topic?: "item" | "event"}} Wanted `reload` comes with either topic. */

/** @type {Map<{wanted: Wanted}, (changes: Change[]) => void>} */ const handlers = new Map();

/** @param {Wanted} wanted @param {Change} change */
export function concerns(wanted, change) {
  if (change.type === "reload") return !wanted.base || !change.base || change.base === wanted.base;
  if (wanted.topic && change.type !== wanted.topic) return false;
  return !wanted.base || (change.type === "item" ? change.item : change.event).baseId === wanted.base;
}

/** @param {Change[]} batch */
function tell(batch) {
  for (const [{ wanted }, handler] of [...handlers]) {
    const changes = batch.filter((change) => concerns(wanted, change));
    if (!changes.length) continue;
    try {
      handler(changes);
    } catch (error) {
      reportError(error);
    }
  }
}

const state = signal(/** @type {import("./stream.js").State} */ ("live"));
const isSeen = () => document.visibilityState === "visible";
let started = false;

function share() {
  const worker = new SharedWorker(new URL("./live-worker.js", import.meta.url), { type: "module", name: "gristmill" });
  worker.port.onmessage = ({ data }) => {
    if (data.state) state.value = data.state;
    if (data.changes) tell(data.changes);
  };
  const say = () => worker.port.postMessage({ visible: isSeen() });
  say();
  document.addEventListener("visibilitychange", say);
  addEventListener("pageshow", say);
  addEventListener("pagehide", () => worker.port.postMessage({ bye: true }));
  worker.onerror = alone; // it could not be loaded
}

/** A stream of this tab's own, while it is seen. */
function alone() {
  /** @type {(() => void) | null} */ let stop = null;
  const mind = () => {
    if (isSeen()) {
      stop ??= follow({
        changes: tell,
        state: (next) => {
          state.value = next;
        },
      });
    } else {
      stop?.();
      stop = null;
    }
  };
  mind();
  document.addEventListener("visibilitychange", mind);
}

function start() {
  if (started) return;
  started = true;
  if ("SharedWorker" in globalThis) share();
  else alone();
}

export const live = {
  state,
  /** @param {Wanted} wanted @param {(changes: Change[]) => void} handler @returns {() => void} stops it */
  on(wanted, handler) {
    start();
    const key = { wanted };
    handlers.set(key, handler);
    return () => void handlers.delete(key);
  },
};
