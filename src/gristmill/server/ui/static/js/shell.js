// @ts-check
/** The frame around every page: sidebar, bar on phones, banner, toasts, palette and global keyboard shortcuts. */

import { activeCount, bases, leafCount, toneOf } from "./bases.js";
import { computed, each, effect, html, signal } from "./core.js";
import { formatNumber, language, t } from "./i18n.js";
import { live } from "./live.js";
import { navItems, pages } from "./pages.js";
import { button, iconButton } from "./components/button.js";
import { icon } from "./components/icon.js";
import { dot, emptyState, status } from "./components/status.js";
import { toast, toasts } from "./components/toast.js";
import { go, interceptLinks, mountRouter, path } from "./router.js";
import { allows, session } from "./session.js";
import { isDark, theme } from "./theme.js";

/** @import { Base } from "./bases.js" */
/** @import { Signal } from "./core.js" */
/** @import { PageEntry } from "./router.js" */

const currentEntry = signal(/** @type {PageEntry | null} */ (null));
/** Items that are queued or being processed, shown next to "Queue". */
const activeItems = computed(() => bases.value?.reduce((n, base) => n + activeCount(base), 0) ?? 0);

/** @param {string} to */
function isCurrent(to) {
  const currentPath = currentEntry.value?.nav ?? path.value;
  const root = `/${to.split("/")[1]}`;
  return to === "/" ? currentPath === "/" : currentPath === root || currentPath.startsWith(`${root}/`);
}

/** @param {boolean} [isPhone] */
function navigation(isPhone = false) {
  const count = () => activeItems.value ? html`<span class="count">${formatNumber(activeItems.value)}</span>` : null;
  return navItems.filter(({ wide }) => !(isPhone && wide)).map(({ to, icon: name, label, audience }) => {
    const link = () =>
      html`
        <a href="${to}" aria-current=${() => (isCurrent(to) ? "page" : null)}>
          ${icon(name)}<span>${t(label)}</span>${to === "/queue" ? count : null}
        </a>
      `;
    return audience === "reader" ? link() : html`${() => (allows(audience) ? link() : null)}`;
  });
}

function sidebar() {
  return html`
    <aside class="side" aria-label="Gristmill">
      <a class="brand" href="/"><span class="logo">${icon("mill")}</span>Gristmill</a>
      ${paletteButton()}
      <nav class="nav" aria-label="${t("Pages")}">${navigation()}</nav>
      <h2 id="side-bases">${t("Bases")}</h2>
      <nav class="nav bases" aria-labelledby="side-bases">
        ${each(() => bases.value ?? [], (base) => base.id, baseLink)}
      </nav>
      <footer>${connectionStatus()}${keyboardHelpButton()}${() => themeButton()}</footer>
    </aside>
  `;
}

/** What ⌘K opens, for those who don't know the key yet. */
function paletteButton() {
  const key = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘K" : "Ctrl K";
  return html`
    <button type="button" class="palette-button" aria-keyshortcuts="Control+K Meta+K" @click=${openPalette}>
      ${icon("search")}<span class="grow">${t("Go to …")}</span><kbd aria-hidden="true">${key}</kbd>
    </button>
  `;
}

function keyboardHelpButton() {
  return html`
    <button
      type="button"
      class="icon-button"
      aria-label="${t("Keyboard shortcuts")}"
      aria-keyshortcuts="?"
      title="${t("Keyboard shortcuts")} (?)"
      @click=${openKeyboardHelp}
    ><kbd aria-hidden="true">?</kbd></button>
  `;
}

/** @param {Signal<Base>} base */
function baseLink(base) {
  const url = () => `/b/${base.value.id}`;
  return html`
    <a href="${url}" aria-current=${() => (path.value.startsWith(url()) ? "page" : null)}>
      ${dot(() => toneOf(base.value))}
      <span class="cut">${() => base.value.name}</span>
      <span class="count">${() => formatNumber(leafCount(base.value))}</span>
    </a>
  `;
}

function connectionStatus() {
  const states = {
    live: { tone: /** @type {const} */ ("ok"), word: t("Live") },
    reconnecting: { tone: /** @type {const} */ ("warn"), word: t("Connecting") },
    polling: { tone: /** @type {const} */ ("off"), word: t("Updated every 5 s") },
  };
  return status(() => states[live.state.value]);
}

function themeButton() {
  const dark = isDark();
  return iconButton(dark ? t("Light theme") : t("Dark theme"), dark ? "moon" : "sun", () => {
    theme.value = dark ? "light" : "dark";
  });
}

function notFoundPage() {
  const link = html`<a class="button line" href="/">${t("All bases")}</a>`;
  const text = t("There is nothing at this address. It may have been deleted.");
  return html`
    <div class="page">
      <h1 class="sr">${t("Page not found")}</h1>
      ${emptyState("search", t("Page not found"), text, link)}
    </div>
  `;
}

function refusedPage() {
  const link = html`<a class="button line" href="/sign-in">${t("Sign in with another key")}</a>`;
  const text = session.value?.user
    ? t("Your role doesn't allow this page. Ask an admin.")
    : t("Your key's role doesn't allow this page. Ask an admin, or sign in with an admin's key.");
  return html`
    <div class="page">
      <h1 class="sr">${t("This page is for admins")}</h1>
      ${emptyState("key", t("This page is for admins"), text, link)}
    </div>
  `;
}

function outdatedPage() {
  const reload = button(t("Reload"), () => location.reload());
  const text = t("The server is unavailable or was updated. Reload the page.");
  return html`<div class="page">${emptyState("retry", t("Can't load this page"), text, reload)}</div>`;
}

/** What is typed while the palette is being loaded goes into its field, and is no shortcut of the page. */
async function openPalette() {
  let typed = "";
  const onEarlyKey = (/** @type {KeyboardEvent} */ event) => {
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Backspace") typed = typed.slice(0, -1);
    else if (event.key.length === 1 && !event.ctrlKey && !event.metaKey) typed += event.key;
  };
  addEventListener("keydown", onEarlyKey, { capture: true });
  try {
    (await import("./palette.js")).openPalette(typed);
  } finally {
    removeEventListener("keydown", onEarlyKey, { capture: true });
  }
}
const openKeyboardHelp = async () => (await import("./palette.js")).openKeyboardHelp();

/** @param {KeyboardEvent} event */
function handleKey(event) {
  if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.metaKey || event.ctrlKey || event.altKey || target.closest?.("input, textarea, select, dialog")) return;
  if (event.key === "?") openKeyboardHelp();
  else if (event.key === "/") {
    event.preventDefault();
    const field = document.querySelector("[data-key='/']");
    if (field instanceof HTMLElement) field.focus();
    else openPalette();
  } else if (event.key === "g") awaitPageKey();
}

/** After `g`, the next key goes to a page. */
function awaitPageKey() {
  const onNextKey = (/** @type {KeyboardEvent} */ event) => {
    clearTimeout(timer);
    const item = navItems.find(({ key, audience }) => key === event.key && allows(audience));
    if (item) {
      event.preventDefault();
      event.stopPropagation();
      go(item.to);
    }
  };
  addEventListener("keydown", onNextKey, { once: true, capture: true });
  const timer = setTimeout(() => removeEventListener("keydown", onNextKey, { capture: true }), 1000);
}

/**
 * Dialogs are modules that are loaded when they are first opened. Where the server was updated or is away, they can't
 * be, and the button would do nothing.
 * @param {PromiseRejectionEvent} event
 */
function handleRejection(event) {
  if (!(event.reason instanceof TypeError) || !/\bmodule\b/i.test(event.reason.message)) return;
  event.preventDefault();
  const action = { label: t("Reload"), onclick: () => location.reload() };
  toast(t("This could not be loaded. Reload the page."), { bad: true, action });
}

/** Builds the shell and starts it. */
export function start() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  const main = document.createElement("main");
  main.id = "main";
  main.className = "page";
  main.tabIndex = -1;
  const skip = (/** @type {Event} */ event) => {
    event.preventDefault();
    main.focus();
  };
  const notice = () =>
    live.state.value === "reconnecting"
      ? html`<div class="notice">${t("The server can't be reached. Reconnecting …")}</div>`
      : null;
  const shell = html`
    <div class="shell">
      <a class="skip" href="#main" @click=${skip}>${t("Skip to content")}</a>
      ${sidebar()}
      <div class="main">
        <div aria-live="polite">${notice}</div>
        ${main}
      </div>
      <nav class="bottom" aria-label="${t("Pages")}">${navigation(true)}</nav>
    </div>
  `;
  document.body.replaceChildren(shell, toasts());
  document.addEventListener("keydown", handleKey);
  addEventListener("unhandledrejection", handleRejection);
  interceptLinks();
  mountRouter(pages, main, notFoundPage, outdatedPage, refusedPage, currentEntry);
  effect(
    () => path.value,
    () => main.focus({ preventScroll: true }),
  );
}
