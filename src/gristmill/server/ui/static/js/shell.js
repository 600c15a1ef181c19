// @ts-check
/** What is around every page: sidebar, phone bar, banner, toasts, the palette and the keys that work everywhere. */

import { active, bases, followBases, toneOf, total } from "./bases.js";
import { computed, each, effect, html, signal } from "./core.js";
import { language, number, t } from "./i18n.js";
import { live } from "./live.js";
import { pages, places } from "./pages.js";
import { button, iconButton } from "./parts/button.js";
import { icon } from "./parts/icon.js";
import { dot, empty } from "./parts/status.js";
import { toasts } from "./parts/toast.js";
import { catchLinks, go, path, show } from "./router.js";
import { isDark, theme } from "./theme.js";

const entry = signal(/** @type {import("./router.js").Entry | null} */ (null));
/** Jobs that wait or run, shown beside "Queue"; null while unknown. */
const waiting = computed(() => bases.value?.reduce((n, base) => n + active(base), 0) ?? 0);

/** @param {string} to */
function isHere(to) {
  const at = entry.value?.nav ?? path.value;
  const root = `/${to.split("/")[1]}`;
  return to === "/" ? at === "/" : at === root || at.startsWith(`${root}/`);
}

function navigation() {
  return places.map(
    (place) => html`<a href="${place.to}" aria-current=${() => (isHere(place.to) ? "page" : null)}>${icon(place.icon)}<span>${t(place.label)}</span>${() =>
      place.to === "/queue" && waiting.value ? html`<span class="count">${number(waiting.value)}</span>` : null}</a>`,
  );
}

function sidebar() {
  return html`<aside class="side" aria-label="Gristmill">
    <a class="brand" href="/"><span class="logo">${icon("mill")}</span>Gristmill</a>
    <nav class="nav" aria-label="${t("Pages")}">${navigation()}</nav>
    <h2 id="side-bases">${t("Bases")}</h2>
    <nav class="nav bases" aria-labelledby="side-bases">${each(
      () => bases.value ?? [],
      (base) => base.id,
      (base) => html`<a href="${() => `/b/${base.value.id}`}" aria-current=${() => (path.value.startsWith(`/b/${base.value.id}`) ? "page" : null)}>${dot(() =>
        toneOf(base.value),
      )}<span class="cut">${() => base.value.name}</span><span class="count">${() => number(total(base.value))}</span></a>`,
    )}</nav>
    <footer>${health()}${() => themeButton()}</footer>
  </aside>`;
}

function health() {
  return html`<span class="status">${dot(() => (live.state.value === "live" ? "ok" : "warn"))}<span>${() =>
    ({ live: t("Live"), reconnecting: t("Connecting"), polling: t("Looking every few seconds") })[live.state.value]}</span></span>`;
}

function themeButton() {
  const dark = isDark();
  return iconButton(dark ? t("Light theme") : t("Dark theme"), dark ? "moon" : "sun", () => {
    theme.value = dark ? "light" : "dark";
  });
}

const lost = () =>
  html`<div class="page"><h1 class="sr">${t("Nothing is here")}</h1>${empty("search", t("Nothing is here"), t("The address leads nowhere. It may have been deleted."), html`<a class="button line" href="/">${t("All bases")}</a>`)}</div>`;

const openPalette = async () => (await import("./palette.js")).openPalette();
const openKeys = async () => (await import("./palette.js")).openKeys();

const old = () =>
  html`<div class="page">${empty("retry", t("This page can't be loaded"), t("The server is away, or was renewed. Load the page again."), button(t("Load again"), () => location.reload()))}</div>`;

/** @param {KeyboardEvent} event */
function keys(event) {
  if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.metaKey || event.ctrlKey || event.altKey || target.closest?.("input, textarea, select, dialog")) return;
  if (event.key === "?") openKeys();
  else if (event.key === "/") {
    const field = document.querySelector("[data-key='/']");
    if (field instanceof HTMLElement) {
      event.preventDefault();
      field.focus();
    } else openPalette();
  } else if (event.key === "g") leap();
}

/** After `g`, the next key goes to a page: b, c, q, e, s. */
function leap() {
  const to = /** @type {Record<string, string>} */ ({ b: "/", c: "/connectors", q: "/queue", e: "/events", s: "/settings/general" });
  const next = (/** @type {KeyboardEvent} */ event) => {
    clearTimeout(timer);
    if (to[event.key]) {
      event.preventDefault();
      event.stopPropagation();
      go(to[event.key]);
    }
  };
  addEventListener("keydown", next, { once: true, capture: true });
  const timer = setTimeout(() => removeEventListener("keydown", next, { capture: true }), 1000);
}

/** Puts the shell on the page, and starts it. */
export function start() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  const main = document.createElement("main");
  main.id = "main";
  main.className = "page";
  main.tabIndex = -1;
  document.body.replaceChildren(
    html`<div class="shell"><a class="skip" href="#main" @click=${(/** @type {Event} */ event) => {
      event.preventDefault();
      main.focus();
    }}>${t("Skip to the page")}</a>${sidebar()}
    <div class="main"><div aria-live="polite">${() =>
      live.state.value === "reconnecting" ? html`<div class="notice">${t("The server can't be reached. Connecting again …")}</div>` : null}</div>${main}</div>
    <nav class="bottom" aria-label="${t("Pages")}">${navigation()}</nav></div>`,
    toasts(),
  );
  document.addEventListener("keydown", keys);
  catchLinks();
  followBases();
  show(pages, main, lost, old, entry);
  effect(
    () => path.value,
    () => main.focus({ preventScroll: true }),
  );
}
