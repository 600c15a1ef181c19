// @ts-check
/** All pages by path. A page module has `export function page(route): Node`, and is loaded when it is first shown. */

/** @import { PageEntry } from "./router.js" */

/** @type {PageEntry[]} */
export const pages = [
  { paths: ["/"], load: () => import("./pages/bases.js"), nav: "/" },
  {
    paths: ["/b/:base", "/b/:base/i/:item"],
    load: () => import("./pages/base.js"),
    key: (params) => params.base,
    nav: "/",
  },
  { paths: ["/b/:base/settings"], load: () => import("./pages/base-settings.js"), nav: "/" },
  {
    paths: ["/connectors", "/connectors/:connector", "/connectors/:connector/runs/:run"],
    load: () => import("./pages/connectors.js"),
    key: () => "connectors",
  },
  { paths: ["/queue"], load: () => import("./pages/queue.js") },
  { paths: ["/events"], load: () => import("./pages/events.js") },
  {
    paths: ["/events/webhooks", "/events/webhooks/:hook"],
    load: () => import("./pages/webhooks.js"),
    key: () => "webhooks",
    nav: "/events",
  },
  { paths: ["/settings", "/settings/:part"], load: () => import("./pages/settings.js"), nav: "/settings/general" },
  { paths: ["/sign-in"], load: () => import("./pages/sign-in.js") },
];

/** The links of the sidebar and of the bar on phones. @type {{to: string, icon: string, label: string}[]} */
export const navItems = [
  { to: "/", icon: "base", label: "Bases" },
  { to: "/connectors", icon: "plug", label: "Connectors" },
  { to: "/queue", icon: "queue", label: "Queue" },
  { to: "/events", icon: "pulse", label: "Events" },
  { to: "/settings/general", icon: "gear", label: "Settings" },
];
