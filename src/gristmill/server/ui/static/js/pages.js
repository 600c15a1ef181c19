// @ts-check
/**
 * All pages by path. A page module has `export function page(route): Node`, and is loaded when it is first shown. Pages
 * with an `audience` are shown to these callers only, since the server would refuse their requests for others.
 */

/** @import { PageEntry } from "./router.js" */
/** @import { Audience } from "./session.js" */

/** @type {PageEntry[]} */
export const pages = [
  { paths: ["/"], load: () => import("./pages/bases.js"), nav: "/" },
  {
    paths: ["/b/:base", "/b/:base/i/:item"],
    load: () => import("./pages/base.js"),
    key: (params) => params.base,
    nav: "/",
  },
  { paths: ["/search"], load: () => import("./pages/search-page.js") },
  {
    paths: ["/connect", "/b/:base/connect"],
    load: () => import("./pages/connect.js"),
    key: (params) => params.base ?? "",
    nav: "/connect",
  },
  {
    paths: ["/b/:base/i/:item/read"],
    load: () => import("./pages/reader.js"),
    key: (params) => params.item,
    nav: "/",
  },
  { paths: ["/b/:base/settings"], load: () => import("./pages/base-settings.js"), nav: "/" },
  {
    paths: ["/connectors", "/connectors/:connector", "/connectors/:connector/runs/:run"],
    load: () => import("./pages/connectors.js"),
    key: () => "connectors",
    audience: "admin",
  },
  { paths: ["/queue"], load: () => import("./pages/queue.js"), audience: "admin" },
  { paths: ["/events"], load: () => import("./pages/events.js"), audience: "admin" },
  {
    paths: ["/events/webhooks", "/events/webhooks/:hook"],
    load: () => import("./pages/webhooks.js"),
    key: () => "webhooks",
    nav: "/events",
    audience: "admin",
  },
  { paths: ["/settings", "/settings/:part"], load: () => import("./pages/settings.js"), nav: "/settings/general" },
  { paths: ["/sign-in"], load: () => import("./pages/sign-in.js") },
];

/**
 * The links of the sidebar and of the bar on phones; `key` goes to the page after `g`. The bar has no room for those
 * with `wide`.
 * @type {{to: string, icon: string, label: string, key: string, audience: Audience, wide?: boolean}[]}
 */
export const navItems = [
  { to: "/", icon: "base", label: "Bases", key: "b", audience: "reader" },
  { to: "/search", icon: "search", label: "Search", key: "f", audience: "reader" },
  { to: "/connectors", icon: "plug", label: "Connectors", key: "c", audience: "admin" },
  { to: "/queue", icon: "queue", label: "Queue", key: "q", audience: "admin" },
  { to: "/events", icon: "pulse", label: "Events", key: "e", audience: "admin" },
  { to: "/connect", icon: "agent", label: "Connect", key: "k", audience: "reader", wide: true },
  { to: "/settings/general", icon: "gear", label: "Settings", key: "s", audience: "reader" },
];
