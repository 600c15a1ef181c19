// @ts-check
/**
 * Which page is shown, by the address. `route.value` is the page's entry with its parameters; `query` the state that a
 * page keeps in the address, so that a reload, a link and the back button bring it back.
 */

import { computed, effect, signal } from "./core.js";

/** @typedef {{params: Record<string, string>, query: URLSearchParams, path: string}} Route */
/** @typedef {import("./core.js").Computed<Route>} LiveRoute */
/** @typedef {{page: (route: LiveRoute) => Node}} PageModule */
/** @typedef {{paths: string[], load: () => Promise<PageModule>, key?: (params: Record<string, string>) => string, nav?: string}} Entry
 * `key` names what the page is built for: while it stays the same, only `route` changes and the page lives on. */

const here = () => new URL(location.href);
const url = signal(here());

addEventListener("popstate", () => {
  url.value = here();
});

/** @param {string} pattern @param {string} path @returns {Record<string, string> | null} */
export function match(pattern, path) {
  const [wanted, given] = [pattern, path].map((one) => one.split("/").filter(Boolean));
  if (wanted.length !== given.length) return null;
  /** @type {Record<string, string>} */ const params = {};
  for (const [i, part] of wanted.entries()) {
    if (part.startsWith(":")) params[part.slice(1)] = decodeURIComponent(given[i]);
    else if (part !== given[i]) return null;
  }
  return params;
}

/** The address as pages see it. */
export const path = computed(() => url.value.pathname);
export const query = computed(() => url.value.searchParams);

/** @param {string} to @param {{replace?: boolean}} [how] Goes there, without loading anything twice. */
export function go(to, how = {}) {
  const next = new URL(to, location.href);
  if (next.href === location.href) return;
  if (how.replace) history.replaceState(null, "", next);
  else history.pushState(null, "", next);
  url.value = here();
}

/** @param {Record<string, string | null | undefined>} changes @param {{push?: boolean}} [how] Changes the query; null removes. */
export function setQuery(changes, how = {}) {
  const next = here();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") next.searchParams.delete(name);
    else next.searchParams.set(name, value);
  }
  go(next.href, { replace: !how.push });
}

/** Clicks on links of ours are turns of the page, unless the user asks the browser for something else. */
export function catchLinks() {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = /** @type {Element} */ (event.target).closest("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target || link.download || link.origin !== location.origin) return;
    if (/^\/(api|docs|openapi|metrics|mcp|assets)\b/.test(link.pathname)) return;
    event.preventDefault();
    go(link.href);
  });
}

/**
 * Shows the entry that the address names in `place`.
 * @param {Entry[]} entries @param {Element} place @param {() => Node} lost what is shown for an address that nobody has
 * @param {() => Node} old what is shown when its module is no longer there: the server is of another version
 * @param {import("./core.js").Signal<Entry | null>} current
 */
export function show(entries, place, lost, old, current) {
  const found = computed(() => {
    for (const entry of entries) {
      for (const pattern of entry.paths) {
        const params = match(pattern, path.value);
        if (params) return { entry, params };
      }
    }
    return null;
  });
  const shown = computed(() => {
    const one = found.value;
    return one ? `${entries.indexOf(one.entry)} ${one.entry.key?.(one.params) ?? JSON.stringify(one.params)}` : "";
  });
  effect(
    () => shown.value,
    () => {
      const one = found.peek();
      current.value = one?.entry ?? null;
      let over = false;
      /** @type {(() => void) | undefined} */ let end;
      const loading = one ? one.entry.load().catch(() => ({ page: old })) : Promise.resolve({ page: lost });
      loading.then((module) => {
        if (over) return;
        /** @type {Route} */ let last = { params: one?.params ?? {}, query: query.peek(), path: path.peek() };
        const route = computed(() => {
          const now = found.value;
          if (now?.entry === one?.entry) last = { params: now?.params ?? {}, query: query.value, path: path.value };
          return last; // while the page is being left, its route stays as it was
        });
        end = effect(
          () => null,
          () => place.replaceChildren(module.page(route)),
        );
        place.scrollTop = 0;
      });
      return () => {
        over = true;
        end?.();
      };
    },
  );
}
