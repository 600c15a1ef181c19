// @ts-check
/**
 * Keeps the stream of events and item updates open: it resumes after the last event when the connection breaks, and
 * delivers batches at least 50 ms apart, with only the newest state of each item.
 *
 * Guarantees: no event is missed while the server keeps it; where item updates may have been missed, a `reload` is
 * delivered. It uses `fetch`, not `EventSource`, which hides the status of an error and drops event types without a
 * listener. A broken connection is retried with growing delays. Where the stream is forbidden, or a proxy holds it
 * back, the state is `polling`, with a `reload` every few seconds.
 */

/** @typedef {{type: "item", item: any} | {type: "reload", base: string | null} | {type: "event", event: any}} Change */
/** @typedef {"live" | "reconnecting" | "polling"} State */
/** @typedef {{changes: (batch: Change[]) => void, state: (state: State) => void}} StreamHandlers */

const MIN_BATCH_INTERVAL = 50;
const SILENCE_TIMEOUT = 40_000; // the server sends something every 15 s
const FIRST_BYTE_TIMEOUT = 10_000; // the server sends something at once; a proxy that buffers would hold it back
const POLL_INTERVAL = 5_000;
const RECONNECT_DELAYS = [300, 700, 1500, 3000, 5000];
const POLLING_PERIOD = 60_000; // then the stream is tried again

/** Delivers the first change immediately, and batches at least `MIN_BATCH_INTERVAL` apart. */
export class ChangeBatcher {
  /** @param {(batch: Change[]) => void} deliver @param {() => number} [now] */
  constructor(deliver, now = () => performance.now()) {
    this.deliver = deliver;
    this.now = now;
    this.lastFlush = -MIN_BATCH_INTERVAL;
    /** @type {Map<string, Change>} */ this.waiting = new Map();
    /** @type {ReturnType<typeof setTimeout> | undefined} */ this.timer = undefined;
  }

  /** @param {Change} change */
  add(change) {
    const key = change.type === "item"
      ? change.item.id
      : change.type === "reload"
      ? `reload ${change.base}`
      : `event ${change.event.id}`;
    this.waiting.delete(key); // the newest state moves to the end
    this.waiting.set(key, change);
    this.timer ??= setTimeout(() => this.flush(), Math.max(0, this.lastFlush + MIN_BATCH_INTERVAL - this.now()));
  }

  flush() {
    this.timer = undefined;
    this.lastFlush = this.now();
    const batch = [...this.waiting.values()];
    this.waiting.clear();
    if (batch.length) this.deliver(batch);
  }
}

/** Parses server-sent events, however the stream is split into pieces. */
export class SseParser {
  /** @param {(name: string, data: string) => void} onEvent */
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.remainder = "";
    /** @type {string | null} */ this.lastId = null;
  }

  /** @param {string} text */
  push(text) {
    const parts = (this.remainder + text).split("\n\n");
    this.remainder = /** @type {string} */ (parts.pop());
    for (const part of parts) {
      let [name, data] = ["", ""];
      for (const line of part.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
        else if (line.startsWith("id: ")) this.lastId = line.slice(4);
      }
      if (data) this.onEvent(name, data);
    }
  }
}

/** @param {string} name @param {any} data @returns {Change} */
export function toChange(name, data) {
  if (name === "item") return { type: "item", item: data };
  if (name === "reload") return { type: "reload", base: data.baseId };
  if (name === "gap") return { type: "reload", base: null };
  return { type: "event", event: data };
}

/**
 * Follows the stream until it is stopped.
 * @param {StreamHandlers} handlers @param {string} [url]
 * @returns {() => void} stops it
 */
export function followStream(handlers, url = "/api/events/stream") {
  const batcher = new ChangeBatcher(handlers.changes);
  const parser = new SseParser((name, data) => batcher.add(toChange(name, JSON.parse(data))));
  let isStopped = false;
  let failures = 0;
  let abort = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */ let silenceTimer;

  /** @param {number} timeout Aborts the connection when nothing arrives for this long. */
  function armSilenceTimer(timeout) {
    clearTimeout(silenceTimer);
    silenceTimer = setTimeout(() => abort.abort(), timeout);
  }

  /** @returns {Promise<"broken" | "refused" | "held">} how it ended */
  async function readStream() {
    abort = new AbortController();
    /** @type {Record<string, string>} */
    const headers = parser.lastId === null ? {} : { "Last-Event-ID": parser.lastId };
    let isLive = false;
    try {
      armSilenceTimer(FIRST_BYTE_TIMEOUT);
      const response = await fetch(url, {
        headers,
        signal: abort.signal,
        cache: "no-store",
        credentials: "same-origin",
      });
      if (response.status === 401 || response.status === 403) return "refused";
      if (!response.ok || !response.body) return "broken";
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      parser.remainder = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done || isStopped) return "broken";
        armSilenceTimer(SILENCE_TIMEOUT);
        if (!isLive) {
          isLive = true;
          failures = 0;
          handlers.state("live");
          batcher.add({ type: "reload", base: null }); // changes before the connection was open may be missing
        }
        parser.push(value);
      }
    } catch {
      return abort.signal.aborted && !isLive && !isStopped ? "held" : "broken";
    } finally {
      clearTimeout(silenceTimer);
    }
  }

  /** @param {number} ms */
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));

  async function poll() {
    handlers.state("polling");
    const end = Date.now() + POLLING_PERIOD;
    while (!isStopped && Date.now() < end) {
      batcher.add({ type: "reload", base: null });
      await pause(POLL_INTERVAL);
    }
  }

  async function run() {
    while (!isStopped) {
      const ending = await readStream();
      if (isStopped) return;
      if (ending === "broken") {
        await pause(RECONNECT_DELAYS[Math.min(failures, RECONNECT_DELAYS.length - 1)]);
        if (failures++) handlers.state("reconnecting"); // a first retry that succeeds is not shown
      } else await poll();
    }
  }

  run();
  return () => {
    isStopped = true;
    abort.abort();
  };
}
