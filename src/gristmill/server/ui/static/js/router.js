// @ts-check
/**
 * Shows the page that the URL names. `route.value` has the parameters of the path; `query` holds the state that a page
 * keeps in the URL, so that a reload, a link and the back button restore it.
 */

import { computed, effect, signal } from "./core.js";
import { allows, session } from "./session.js";

/** @import { Computed, Signal } from "./core.js" */
/** @import { Audience } from "./session.js" */

/** @typedef {{params: Record<string, string>, query: URLSearchParams, path: string}} Route */
/** @typedef {Computed<Route>} LiveRoute */
/** @typedef {{page: (route: LiveRoute) => Node}} PageModule */
/**
 * @typedef {{paths: string[], load: () => Promise<PageModule>, key?: (params: Record<string, string>) => string,
 *   nav?: string, audience?: Audience}} PageEntry `key` identifies what the page is built for: while it stays the same,
 *   the page stays and only `route` changes.
 */

const currentUrl = () => new URL(location.href);
const url = signal(currentUrl());

addEventListener("popstate", () => {
  url.value = currentUrl();
});

/** @param {string} part As it is where its percent signs are none of an encoding: it names nothing then. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {string} pattern @param {string} path @returns {Record<string, string> | null} */
export function match(pattern, path) {
  const [patternParts, pathParts] = [pattern, path].map((text) => text.split("/").filter(Boolean));
  if (patternParts.length !== pathParts.length) return null;
  /** @type {Record<string, string>} */ const params = {};
  for (const [i, part] of patternParts.entries()) {
    if (part.startsWith(":")) params[part.slice(1)] = decoded(pathParts[i]);
    else if (part !== pathParts[i]) return null;
  }
  return params;
}

/** The path and the query of the current URL. */
export const path = computed(() => url.value.pathname);
export const query = computed(() => url.value.searchParams);

/** @param {string} to @param {{replace?: boolean}} [options] Navigates without reloading the page. */
export function go(to, options = {}) {
  const next = new URL(to, location.href);
  if (next.href === location.href) return;
  if (options.replace) history.replaceState(null, "", next);
  else history.pushState(null, "", next);
  url.value = currentUrl();
}

/**
 * @param {Record<string, string | null | undefined>} changes
 * @param {{push?: boolean}} [options] Changes the query; null removes a parameter.
 */
export function setQuery(changes, options = {}) {
  const next = currentUrl();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") next.searchParams.delete(name);
    else next.searchParams.set(name, value);
  }
  go(next.href, { replace: !options.push });
}

/** Handles clicks on internal links, unless a modifier key asks the browser for something else. */
export function interceptLinks() {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) {
      return;
    }
    const link = /** @type {Element} */ (event.target).closest("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target || link.download || link.origin !== location.origin) return;
    if (/^\/(api|docs|openapi|metrics|mcp|assets)\b/.test(link.pathname)) return;
    event.preventDefault();
    go(link.href);
  });
}

/** The modules that were loaded. Their pages are shown at once, without a frame in which the page is empty. */
const loadedModules = /** @type {WeakMap<PageEntry, PageModule>} */ (new WeakMap());

/** @param {PageEntry} entry */
async function loadModule(entry) {
  const module = await entry.load();
  loadedModules.set(entry, module);
  return module;
}

/** @param {PageEntry[]} entries Loads the page that the URL names, before it is shown. */
export async function preloadPage(entries) {
  const target = findEntry(entries, path.peek());
  if (target) await loadModule(target.entry).catch(() => {}); // the router tries again, and says so
}

/** @param {PageEntry[]} entries @param {string} path */
function findEntry(entries, path) {
  for (const entry of entries) {
    for (const pattern of entry.paths) {
      const params = match(pattern, path);
      if (params) return { entry, params };
    }
  }
  return null;
}

/**
 * Shows the entry that the URL names in `container`.
 * @param {PageEntry[]} entries @param {Element} container @param {() => Node} notFound the page for an unknown URL
 * @param {() => Node} outdated the page for a module that can't be loaded: the server was updated
 * @param {() => Node} refused the page for an entry that is not for this caller
 * @param {Signal<PageEntry | null>} current
 */
export function mountRouter(entries, container, notFound, outdated, refused, current) {
  const matched = computed(() => findEntry(entries, path.value));
  /** @param {PageEntry} entry */
  const access = (entry) => {
    if (!entry.audience || allows(entry.audience)) return "shown";
    return session.value ? "refused" : "unknown";
  };
  const pageKey = computed(() => {
    const current = matched.value;
    if (!current) return "";
    const { entry, params } = current;
    return `${entries.indexOf(entry)} ${entry.key?.(params) ?? JSON.stringify(params)} ${access(entry)}`;
  });
  /** @param {PageEntry | undefined} entry @returns {PageModule | Promise<PageModule>} */
  const loadPage = (entry) => {
    if (!entry) return { page: notFound };
    if (access(entry) === "refused") return { page: refused };
    if (access(entry) === "unknown") return { page: () => document.createDocumentFragment() };
    return loadedModules.get(entry) ?? loadModule(entry).catch(() => ({ page: outdated }));
  };
  effect(
    () => pageKey.value,
    () => {
      const target = matched.peek();
      current.value = target?.entry ?? null;
      let isLeft = false;
      /** @type {(() => void) | undefined} */ let dispose;
      const show = (/** @type {PageModule} */ module) => {
        if (isLeft) return;
        /** @type {Route} */ let last = { params: target?.params ?? {}, query: query.peek(), path: path.peek() };
        const route = computed(() => {
          const latest = matched.value;
          if (latest?.entry === target?.entry) {
            last = { params: latest?.params ?? {}, query: query.value, path: path.value };
          }
          return last; // while the user leaves the page, its route stays as it was
        });
        dispose = effect(
          () => null,
          () => container.replaceChildren(module.page(route)),
        );
        container.scrollTop = 0;
      };
      const module = loadPage(target?.entry);
      if (module instanceof Promise) module.then(show);
      else show(module);
      return () => {
        isLeft = true;
        dispose?.();
      };
    },
  );
}
