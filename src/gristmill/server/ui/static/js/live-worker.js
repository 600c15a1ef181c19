// @ts-check
/**
 * One stream for all tabs: a browser opens six connections to a host and no more, and each stream keeps one.
 *
 * A tab that is hidden is told nothing, and a `reload` when it is seen again. While no tab is seen for a while the stream is
 * closed. A tab that went without a word costs nothing: what is sent to it is dropped by the browser.
 */

import { follow } from "./stream.js";

/** @typedef {{visible: boolean, missed: boolean, isNew: boolean}} Tab `isNew`: it is fetching what it shows */
/** @type {Map<MessagePort, Tab>} */ const tabs = new Map();
/** @type {import("./stream.js").State} */ let state = "live";
/** @type {(() => void) | null} */ let stop = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */ let closing;
let wasClosed = false;
const LINGER = 20_000;
const SETTLE = 1000; // a page that opens is told to look again when it has shown something, and once
const RELOAD = { type: "reload", base: null };

/** @param {import("./stream.js").Change[]} batch */
function spread(batch) {
  for (const [port, tab] of tabs) {
    const told = tab.isNew ? batch.filter((change) => change.type !== "reload") : batch;
    if (tab.visible && told.length) port.postMessage({ changes: told });
    if (!tab.visible || told.length < batch.length) tab.missed = true;
  }
}

/** @param {import("./stream.js").State} next */
function tellState(next) {
  state = next;
  for (const port of tabs.keys()) port.postMessage({ state });
}

/** Opens the stream while somebody looks, and closes it some time after nobody does. */
function mind() {
  clearTimeout(closing);
  if ([...tabs.values()].some((tab) => tab.visible)) {
    if (!stop && wasClosed) for (const tab of tabs.values()) tab.missed = true;
    stop ??= follow({ changes: spread, state: tellState });
  } else {
    closing = setTimeout(() => {
      stop?.();
      stop = null;
      wasClosed = true;
    }, LINGER);
  }
}

/** @param {MessagePort} port @param {any} said */
function hear(port, said) {
  const tab = tabs.get(port) ?? { visible: false, missed: true, isNew: false }; // one that comes back has missed something
  tabs.set(port, tab);
  tab.visible = Boolean(said.visible);
  if (said.bye) tabs.delete(port);
  mind();
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
  /** @type {Tab} */ const tab = { visible: false, missed: true, isNew: true }; // it may have fetched something before this
  tabs.set(port, tab);
  setTimeout(() => {
    tab.isNew = false;
    catchUp(port, tab);
  }, SETTLE);
  port.onmessage = (message) => hear(port, message.data);
  port.postMessage({ state });
});
