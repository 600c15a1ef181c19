// @ts-check
/**
 * One stream for all tabs: a browser opens at most six connections to a host, and each stream occupies one.
 *
 * Hidden tabs get no changes; they get a `reload` when they become visible again. When no tab has been visible for a
 * while, the stream is closed. A tab that disappeared without notice costs nothing: the browser drops messages to it.
 */

import { followStream } from "./stream.js";

/** @import { Change, State } from "./stream.js" */

/** @typedef {{visible: boolean, missed: boolean, isNew: boolean}} Tab `isNew`: the page is still loading its data */
/** @type {Map<MessagePort, Tab>} */ const tabs = new Map();
/** @type {State} */ let state = "live";
/** @type {(() => void) | null} */ let stopStream = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */ let closeTimer;
let wasClosed = false;
const CLOSE_DELAY = 20_000;
const OPENING_DELAY = 1000; // a new page gets its first `reload` only after it has loaded its data
const RELOAD = { type: "reload", base: null };

/** @param {Change[]} batch */
function broadcast(batch) {
  for (const [port, tab] of tabs) {
    const changes = tab.isNew ? batch.filter((change) => change.type !== "reload") : batch;
    if (tab.visible && changes.length) port.postMessage({ changes: changes });
    if (!tab.visible || changes.length < batch.length) tab.missed = true;
  }
}

/** @param {State} next */
function broadcastState(next) {
  state = next;
  for (const port of tabs.keys()) port.postMessage({ state });
}

/** Opens the stream while a tab is visible, and closes it some time after none is. */
function openOrCloseStream() {
  clearTimeout(closeTimer);
  if ([...tabs.values()].some((tab) => tab.visible)) {
    if (!stopStream && wasClosed) { for (const tab of tabs.values()) tab.missed = true; }
    stopStream ??= followStream({ changes: broadcast, state: broadcastState });
  } else {
    closeTimer = setTimeout(() => {
      stopStream?.();
      stopStream = null;
      wasClosed = true;
    }, CLOSE_DELAY);
  }
}

/** @param {MessagePort} port @param {any} message */
function handleMessage(port, message) {
  // a tab that returns has missed something
  const tab = tabs.get(port) ?? { visible: false, missed: true, isNew: false };
  tabs.set(port, tab);
  tab.visible = Boolean(message.visible);
  if (message.bye) tabs.delete(port);
  openOrCloseStream();
  catchUp(port, tab);
}

/** @param {MessagePort} port @param {Tab} tab */
function catchUp(port, tab) {
  if (!tab.visible || !tab.missed || tab.isNew) return;
  tab.missed = false;
  port.postMessage({ changes: [RELOAD] });
}

globalThis.addEventListener("connect", (event) => {
  const [port] = /** @type {MessageEvent} */ (event).ports;
  /** @type {Tab} */
  const tab = { visible: false, missed: true, isNew: true }; // it may have loaded data before it connected
  tabs.set(port, tab);
  setTimeout(() => {
    tab.isNew = false;
    catchUp(port, tab);
  }, OPENING_DELAY);
  port.onmessage = (message) => handleMessage(port, message.data);
  port.postMessage({ state });
});
