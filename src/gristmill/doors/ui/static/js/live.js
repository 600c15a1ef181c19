// @ts-check
/**
 * What happens, as it happens. `live.on` calls its handler with batches of what is wanted; `live.state` tells whether
 * changes arrive at once. After a gap every handler gets a `reload`: what it shows has to be fetched anew.
 */

import { signal } from "./core.js";

/** @typedef {{type: "item", item: any} | {type: "reload", base: string | null} | {type: "event", event: any}} Change */
/** @typedef {{base?: string, topic?: "item" | "event"}} Wanted `reload` comes with either topic. */

export const live = {
  state: signal(/** @type {"live" | "reconnecting" | "polling"} */ ("live")),
  /** @param {Wanted} _wanted @param {(changes: Change[]) => void} _handler @returns {() => void} stops it */
  on(_wanted, _handler) {
    return () => {};
  },
};
