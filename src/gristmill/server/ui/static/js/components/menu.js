// @ts-check
/** A menu below a button: arrow keys move; Escape, Tab and a click elsewhere close it; focus returns to the button. */

import { html } from "../core.js";
import { icon } from "./icon.js";
import { iconButton } from "./button.js";

/**
 * @typedef {{label: string, icon?: string, onselect: () => unknown, danger?: boolean, disabled?: boolean} | null}
 *   MenuEntry
 */

/** @param {Element} anchor @param {MenuEntry[]} entries Opens a menu; null entries are skipped. */
export function openMenu(anchor, entries) {
  const entryButton = (/** @type {NonNullable<MenuEntry>} */ entry) => {
    const onclick = () => {
      menu.hidePopover();
      entry.onselect();
    };
    return html`
      <button
        type="button"
        role="menuitem"
        tabindex="-1"
        class="${entry.danger ? "danger" : ""}"
        ?disabled=${entry.disabled ?? false}
        @click=${onclick}
      >
        ${icon(entry.icon ?? "chevron", entry.icon ? "" : "none")}
        <span>${entry.label}</span>
      </button>
    `;
  };
  const buttons = entries.flatMap((entry) => (entry ? [entryButton(entry)] : []));
  const menu = /** @type {HTMLElement} */ (html`<div class="menu" role="menu" popover="auto">${buttons}</div>`);
  const items = () => /** @type {HTMLElement[]} */ ([...menu.querySelectorAll("button:not(:disabled)")]);
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Tab") return menu.hidePopover(); // the focus goes on from the button
    const enabled = items();
    const index = enabled.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const target = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: enabled.length - 1 }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    enabled.at(target % enabled.length)?.focus();
  });
  menu.addEventListener("toggle", (event) => {
    if (/** @type {ToggleEvent} */ (event).newState !== "closed") return;
    const hadFocus = menu.contains(document.activeElement);
    menu.remove();
    if (hadFocus && anchor instanceof HTMLElement) anchor.focus();
  });
  // In a landmark of the page, or in the dialog that lets nothing outside be used.
  (anchor.closest("dialog") ?? document.querySelector("main") ?? document.body).append(menu);
  const anchorBox = anchor.getBoundingClientRect();
  menu.showPopover();
  const menuBox = menu.getBoundingClientRect();
  const fitsBelow = anchorBox.bottom + 4 + menuBox.height < innerHeight;
  menu.style.top = `${fitsBelow ? anchorBox.bottom + 4 : Math.max(8, anchorBox.top - menuBox.height - 4)}px`;
  menu.style.left = `${Math.max(8, Math.min(anchorBox.right - menuBox.width, innerWidth - menuBox.width - 8))}px`;
  items()[0]?.focus();
}

/** @param {string} label @param {() => MenuEntry[]} entries A button with three dots that opens a menu. */
export function kebab(label, entries) {
  const trigger = iconButton(label, "kebab", (event) => {
    event.stopPropagation();
    openMenu(trigger, entries());
  }, "kebab");
  trigger.setAttribute("aria-haspopup", "menu");
  return trigger;
}
