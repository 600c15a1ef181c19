// @ts-check
/** ⌘K: goes to a page or a base, or searches all bases. Also the list of keyboard shortcuts. */

import { api } from "./api.js";
import { bases } from "./bases.js";
import { each, effect, html, signal } from "./core.js";
import { t } from "./i18n.js";
import { navItems } from "./pages.js";
import { dialog } from "./components/dialog.js";
import { icon } from "./components/icon.js";
import { readable } from "./readable.js";
import { readerUrl } from "./reader-link.js";
import { go } from "./router.js";
import { allows } from "./session.js";

/** @import { Signal } from "./core.js" */
/** @typedef {{id: string, icon: string, label: string, hint: string, to: string}} Choice */
const SEARCH_DELAY = 180; // milliseconds after the last key, before the server is asked
let isOpen = false;

/** @param {string} typed @returns {Choice[]} */
function localChoices(typed) {
  const needle = typed.toLowerCase();
  const matches = (/** @type {string} */ label) => label.toLowerCase().includes(needle);
  const matching = (bases.peek() ?? []).filter((base) => matches(base.name)).slice(0, 8);
  return [
    ...matching.map((base) => ({ id: base.id, icon: "base", label: base.name, hint: t("Base"), to: `/b/${base.id}` })),
    ...navItems
      .filter((item) => allows(item.audience) && matches(t(item.label)))
      .map((item) => ({ id: item.to, icon: item.icon, label: t(item.label), hint: t("Page"), to: item.to })),
    ...(typed.trim() ? [searchChoice(typed.trim())] : []),
  ];
}

/** @param {string} text @returns {Choice} the page that shows all results, with filters */
const searchChoice = (text) => ({
  id: "search",
  icon: "search",
  label: t("Search all bases for “{text}”", { text }),
  hint: "",
  to: `/search?${new URLSearchParams({ q: text })}`,
});

/** @param {string} typed @param {AbortSignal} signal @returns {Promise<Choice[]>} */
async function searchChoices(typed, signal) {
  const names = new Map((bases.peek() ?? []).map((base) => [base.id, base.name]));
  const response = await api.post("/search", { query: typed, limit: 6 }, { signal });
  return response.hits.map((/** @type {any} */ hit) => ({
    id: hit.chunkId,
    icon: "search",
    label: hit.title,
    hint: `${names.get(hit.baseId) ?? ""} · ${readable(hit.text, []).text.slice(0, 80).replace(/\s+/g, " ")}`,
    to: readerUrl({ ...hit, page: hit.source.page }, { q: typed, from: "search" }),
  }));
}

/** @param {string} start what the field contains at first */
export function openPalette(start) {
  if (isOpen) return;
  isOpen = true;
  const typed = signal(start);
  const choices = signal(localChoices(start));
  const selected = signal(0);
  dialog(
    t("Go to"),
    (close) => {
      /** @param {Choice | undefined} choice */
      const choose = (choice) => {
        if (!choice) return;
        close();
        go(choice.to);
      };
      effect(
        () => typed.value.trim(),
        (text) => {
          choices.value = localChoices(text);
          selected.value = 0;
          if (text.length < 2) return;
          const abort = new AbortController();
          const timer = setTimeout(async () => {
            try {
              const hits = await searchChoices(text, abort.signal);
              choices.value = [...localChoices(text), ...hits];
            } catch {
              // the text changed meanwhile, or the server can't be reached: the local choices stay
            }
          }, SEARCH_DELAY);
          return () => {
            clearTimeout(timer);
            abort.abort();
          };
        },
      );
      const oninput = (/** @type {Event} */ event) => {
        typed.value = /** @type {HTMLInputElement} */ (event.target).value;
      };
      const onkeydown = (/** @type {KeyboardEvent} */ event) => {
        if (event.isComposing) return; // these keys choose a word of Chinese, say, and no place to go to
        const count = choices.peek().length;
        if (event.key === "ArrowDown") selected.value = (selected.peek() + 1) % count;
        else if (event.key === "ArrowUp") selected.value = (selected.peek() + count - 1) % count;
        else if (event.key === "Enter") choose(choices.peek()[selected.peek()]);
        else return;
        event.preventDefault();
      };
      const rows = each(
        () => choices.value.map((choice, index) => ({ ...choice, index })),
        (choice) => choice.id,
        (choice) => choiceRow(choice, selected, () => choose(choice.peek())),
      );
      const label = t("Go to a base or page, or search everything");
      return html`
        <div class="palette-body">
          <div class="search-box">
            ${icon("search")}
            <input
              type="text"
              role="combobox"
              aria-expanded="true"
              aria-controls="palette-list"
              aria-label="${label}"
              aria-activedescendant=${() => `palette-${selected.value}`}
              placeholder="${label}"
              value="${start}"
              autofocus
              @input=${oninput}
              @keydown=${onkeydown}
            >
          </div>
          <ul id="palette-list" role="listbox" aria-label="${t("Go to")}">${rows}</ul>
        </div>
      `;
    },
    {
      kind: "wide palette",
      onclose: () => {
        isOpen = false;
      },
    },
  );
}

/** @param {Signal<Choice & {index: number}>} choice @param {Signal<number>} selected @param {() => void} onclick */
function choiceRow(choice, selected, onclick) {
  const onmousemove = () => {
    selected.value = choice.peek().index;
  };
  return html`
    <li
      role="option"
      id="${() => `palette-${choice.value.index}`}"
      aria-selected="${() => String(choice.value.index === selected.value)}"
      @click=${onclick}
      @mousemove=${onmousemove}
    >
      ${icon(choice.peek().icon)}
      <span class="cut">${() => choice.value.label}</span>
      <span class="dim cut small-text grow">${() => choice.value.hint}</span>
    </li>
  `;
}

export function openKeyboardHelp() {
  /** @type {[string, string][]} */
  const shortcuts = [
    ["⌘K, Ctrl K", t("Go to a base or page, or search everything")],
    ["/", t("Search in this base")],
    ["g b, f, c, q, e, k, s", t("Go to bases, search, connectors, queue, events, connect, settings")],
    ["↓ ↑", t("Move between the search field and the hits")],
    ["Ctrl Enter", t("Answer this question")],
    ["↑ ↓ ← →", t("Move in the tree, expand and collapse")],
    ["Enter", t("Open item")],
    ["Space", t("Select")],
    ["Shift Space", t("Select up to here")],
    ["⌘A, Ctrl A", t("Select all")],
    ["F2", t("Rename")],
    ["t", t("Tags")],
    ["m", t("Move")],
    ["r", t("Reindex")],
    ["Delete", t("Delete")],
    ["⌘Z, Ctrl Z", t("Undo a deletion, for a few seconds")],
    ["a", t("Add content")],
    ["j, k", t("In the reader: next hit, previous hit")],
    ["← →", t("In the reader: turn pages")],
    ["?", t("Show keyboard shortcuts")],
  ];
  const rows = shortcuts.map(([key, description]) =>
    html`
      <dt><kbd>${key}</kbd></dt>
      <dd>${description}</dd>
    `
  );
  dialog(t("Keyboard shortcuts"), () => html`<dl class="dialog-body keys" tabindex="0">${rows}</dl>`);
}
