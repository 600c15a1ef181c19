// @ts-check
/** A menu below a button: arrow keys move, Escape and a click elsewhere close, focus goes back to the button. */

import { html } from "../core.js";
import { icon } from "./icon.js";
import { iconButton } from "./button.js";

/** @typedef {{label: string, icon?: string, act: () => unknown, danger?: boolean, disabled?: boolean} | null} Entry */

/** @param {Element} anchor @param {Entry[]} entries Opens a menu; null entries are left out. */
export function openMenu(anchor, entries) {
  const menu = /** @type {HTMLElement} */ (
    html`<div class="menu" role="menu" popover="auto">${entries.flatMap((entry) =>
      entry
        ? [
            html`<button type="button" role="menuitem" tabindex="-1" class="${entry.danger ? "danger" : ""}" ?disabled=${
              entry.disabled ?? false
            } @click=${() => {
              menu.hidePopover();
              entry.act();
            }}>${icon(entry.icon ?? "chevron", entry.icon ? "" : "none")}<span>${entry.label}</span></button>`,
          ]
        : [],
    )}</div>`
  );
  const items = () => /** @type {HTMLElement[]} */ ([...menu.querySelectorAll("button:not(:disabled)")]);
  menu.addEventListener("keydown", (event) => {
    const all = items();
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    all.at(to % all.length)?.focus();
  });
  menu.addEventListener("toggle", (event) => {
    if (/** @type {ToggleEvent} */ (event).newState !== "closed") return;
    const back = menu.contains(document.activeElement);
    menu.remove();
    if (back && anchor instanceof HTMLElement) anchor.focus();
  });
  document.body.append(menu);
  const place = anchor.getBoundingClientRect();
  menu.showPopover();
  const size = menu.getBoundingClientRect();
  const below = place.bottom + 4 + size.height < innerHeight;
  menu.style.top = `${below ? place.bottom + 4 : Math.max(8, place.top - size.height - 4)}px`;
  menu.style.left = `${Math.max(8, Math.min(place.right - size.width, innerWidth - size.width - 8))}px`;
  items()[0]?.focus();
}

/** @param {string} label @param {() => Entry[]} entries The three dots. */
export function kebab(label, entries) {
  const it = iconButton(label, "kebab", (event) => {
    event.stopPropagation();
    openMenu(it, entries());
  }, "kebab");
  it.setAttribute("aria-haspopup", "menu");
  return it;
}
