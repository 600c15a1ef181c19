// @ts-check
/**
 * The stream of events and item updates, kept open: read, resumed behind its last event when it breaks, and told in batches
 * at least 50 ms apart, of each item only its newest state.
 *
 * Guarantees: no event is missed while the server keeps it; where updates of items may have been missed, a `reload` is told.
 * It is read by `fetch`, not by `EventSource`, which tells neither a refusal's status nor types that were not named before.
 * What comes through no more is tried again, later each time; who may not follow, or is behind something that holds streams
 * back, is told `polling` and a `reload` every few seconds.
 */

/** @typedef {{type: "item", item: any} | {type: "reload", base: string | null} | {type: "event", event: any}} Change */
/** @typedef {"live" | "reconnecting" | "polling"} State */
/** @typedef {{changes: (batch: Change[]) => void, state: (state: State) => void}} Told */

const APART = 50;
const SILENCE = 40_000; // the server says something every 15 s
const FIRST_WORD = 10_000; // it speaks at once; who hears nothing is behind something that holds it back
const POLL = 5_000;
const AGAIN = [300, 700, 1500, 3000, 5000];
const TRY_STREAM = 60_000; // while polling

/** Tells changes at once, but batches never closer than `APART`. */
export class Batches {
  /** @param {(batch: Change[]) => void} tell @param {() => number} [now] */
  constructor(tell, now = () => performance.now()) {
    this.tell = tell;
    this.now = now;
    this.last = -APART;
    /** @type {Map<string, Change>} */ this.waiting = new Map();
    /** @type {ReturnType<typeof setTimeout> | undefined} */ this.timer = undefined;
  }

  /** @param {Change} change */
  add(change) {
    const key = change.type === "item" ? change.item.id : change.type === "reload" ? `reload ${change.base}` : `event ${change.event.id}`;
    this.waiting.delete(key); // the newest state, in the newest place
    this.waiting.set(key, change);
    this.timer ??= setTimeout(() => this.flush(), Math.max(0, this.last + APART - this.now()));
  }

  flush() {
    this.timer = undefined;
    this.last = this.now();
    const batch = [...this.waiting.values()];
    this.waiting.clear();
    if (batch.length) this.tell(batch);
  }
}

/** Takes a stream of server-sent events apart, whatever pieces it comes in. */
export class Frames {
  /** @param {(name: string, data: string) => void} frame */
  constructor(frame) {
    this.frame = frame;
    this.rest = "";
    /** @type {string | null} */ this.lastId = null;
  }

  /** @param {string} text */
  push(text) {
    const parts = (this.rest + text).split("\n\n");
    this.rest = /** @type {string} */ (parts.pop());
    for (const part of parts) {
      let [name, data] = ["", ""];
      for (const line of part.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
        else if (line.startsWith("id: ")) this.lastId = line.slice(4);
      }
      if (data) this.frame(name, data);
    }
  }
}

/** @param {string} name @param {any} data @returns {Change} */
export function changeOf(name, data) {
  if (name === "item") return { type: "item", item: data };
  if (name === "reload") return { type: "reload", base: data.baseId };
  if (name === "gap") return { type: "reload", base: null };
  return { type: "event", event: data };
}

/**
 * Follows until it is stopped.
 * @param {Told} told @param {string} [address]
 * @returns {() => void} stops it
 */
export function follow(told, address = "/api/events/stream") {
  const batches = new Batches(told.changes);
  const frames = new Frames((name, data) => batches.add(changeOf(name, JSON.parse(data))));
  let over = false;
  let failures = 0;
  let abort = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */ let watch;

  /** @param {number} patience Ends the connection when nothing is heard for so long. */
  function listening(patience) {
    clearTimeout(watch);
    watch = setTimeout(() => abort.abort(), patience);
  }

  /** @returns {Promise<"broken" | "refused" | "held">} how it ended */
  async function once() {
    abort = new AbortController();
    /** @type {Record<string, string>} */ const headers = frames.lastId === null ? {} : { "Last-Event-ID": frames.lastId };
    let heard = false;
    try {
      listening(FIRST_WORD);
      const answer = await fetch(address, { headers, signal: abort.signal, cache: "no-store", credentials: "same-origin" });
      if (answer.status === 401 || answer.status === 403) return "refused";
      if (!answer.ok || !answer.body) return "broken";
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      frames.rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done || over) return "broken";
        listening(SILENCE);
        if (!heard) {
          heard = true;
          failures = 0;
          told.state("live");
          batches.add({ type: "reload", base: null }); // what changed while a page was fetched, or nobody listened
        }
        frames.push(value);
      }
    } catch {
      return abort.signal.aborted && !heard && !over ? "held" : "broken";
    } finally {
      clearTimeout(watch);
    }
  }

  /** @param {number} ms */
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));

  async function poll() {
    told.state("polling");
    const end = Date.now() + TRY_STREAM;
    while (!over && Date.now() < end) {
      batches.add({ type: "reload", base: null });
      await pause(POLL);
    }
  }

  async function run() {
    while (!over) {
      const ended = await once();
      if (over) return;
      if (ended === "broken") {
        await pause(AGAIN[Math.min(failures, AGAIN.length - 1)]);
        if (failures++) told.state("reconnecting"); // the first try after a break is a secret
      } else await poll();
    }
  }

  run();
  return () => {
    over = true;
    abort.abort();
  };
}
