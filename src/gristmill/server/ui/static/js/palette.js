// @ts-check
/** ⌘K: goes to a page or a base, or searches all bases; and the list of keys. */

import { api } from "./api.js";
import { bases } from "./bases.js";
import { effect, each, html, signal } from "./core.js";
import { t } from "./i18n.js";
import { places } from "./pages.js";
import { dialog } from "./parts/dialog.js";
import { icon } from "./parts/icon.js";
import { go } from "./router.js";

/** @typedef {{id: string, icon: string, label: string, hint: string, to: string}} Choice */
const PAUSE = 180; // after the last key, before the server is asked
let open = false;

/** @param {string} typed @returns {Choice[]} */
function known(typed) {
  const wanted = typed.toLowerCase();
  const fits = (/** @type {string} */ label) => label.toLowerCase().includes(wanted);
  const found = (bases.peek() ?? []).filter((base) => fits(base.name)).slice(0, 8);
  return [
    ...found.map((base) => ({ id: base.id, icon: "base", label: base.name, hint: t("Base"), to: `/b/${base.id}` })),
    ...places
      .filter((place) => fits(t(place.label)))
      .map((place) => ({ id: place.to, icon: place.icon, label: t(place.label), hint: t("Page"), to: place.to })),
  ];
}

/** @param {string} typed @param {AbortSignal} signal @returns {Promise<Choice[]>} */
async function searched(typed, signal) {
  const names = new Map((bases.peek() ?? []).map((base) => [base.id, base.name]));
  const answer = await api.post("/search", { query: typed, limit: 6 }, { signal });
  return answer.hits.map((/** @type {any} */ hit) => ({
    id: hit.chunkId,
    icon: "search",
    label: hit.title,
    hint: `${names.get(hit.baseId) ?? ""} · ${hit.text.slice(0, 80).replace(/\s+/g, " ")}`,
    to: `/b/${hit.baseId}/i/${hit.itemId}?chunk=${hit.chunkId}`,
  }));
}

export function openPalette() {
  if (open) return;
  open = true;
  const typed = signal("");
  const choices = signal(known(""));
  const at = signal(0);
  dialog(
    t("Go to"),
    (close) => {
      /** @param {Choice | undefined} choice */
      const take = (choice) => {
        if (!choice) return;
        close();
        go(choice.to);
      };
      effect(
        () => typed.value.trim(),
        (text) => {
          choices.value = known(text);
          at.value = 0;
          if (text.length < 2) return;
          const stop = new AbortController();
          const timer = setTimeout(async () => {
            try {
              const hits = await searched(text, stop.signal);
              choices.value = [...known(text), ...hits];
            } catch {
              // typed on meanwhile, or the server is away: what is known stays
            }
          }, PAUSE);
          return () => {
            clearTimeout(timer);
            stop.abort();
          };
        },
      );
      return html`<div class="palette-body"><div class="search-box">${icon("search")}<input type="text" role="combobox" aria-expanded="true" aria-controls="palette-list"
        aria-label="${t("Go to a base or a page, or search everywhere")}" aria-activedescendant=${() => `palette-${at.value}`}
        placeholder="${t("Go to a base or a page, or search everywhere")}" autofocus @input=${(/** @type {Event} */ event) => {
          typed.value = /** @type {HTMLInputElement} */ (event.target).value;
        }} @keydown=${(/** @type {KeyboardEvent} */ event) => {
          const n = choices.peek().length;
          if (event.key === "ArrowDown") at.value = (at.peek() + 1) % n;
          else if (event.key === "ArrowUp") at.value = (at.peek() + n - 1) % n;
          else if (event.key === "Enter") take(choices.peek()[at.peek()]);
          else return;
          event.preventDefault();
        }}></div>
        <ul id="palette-list" role="listbox" aria-label="${t("Go to")}">${each(
          () => choices.value.map((choice, i) => ({ ...choice, i })),
          (choice) => choice.id,
          (choice) => html`<li role="option" id="${() => `palette-${choice.value.i}`}" aria-selected="${() => String(choice.value.i === at.value)}" @click=${() =>
            take(choice.peek())} @mousemove=${() => {
            at.value = choice.peek().i;
          }}>${icon(choice.peek().icon)}<span class="cut">${() => choice.value.label}</span><span class="dim cut small-text grow">${() => choice.value.hint}</span></li>`,
        )}</ul></div>`;
    },
    {
      kind: "wide palette",
      onclose: () => {
        open = false;
      },
    },
  );
}

export function openKeys() {
  /** @type {[string, string][]} */
  const list = [
    ["⌘K, Ctrl K", t("Go to a base or a page, or search everywhere")],
    ["/", t("Search in this base")],
    ["g b, c, q, e, s", t("Go to bases, connectors, queue, events, settings")],
    ["↑ ↓ ← →", t("Move in the tree; open and close")],
    ["Enter", t("Open the item")],
    ["Space", t("Select")],
    ["r", t("Reindex")],
    ["Delete", t("Delete")],
    ["a", t("Add content")],
    ["?", t("These keys")],
  ];
  dialog(t("Keyboard"), () => html`<dl class="dialog-body keys">${list.map(([key, does]) => html`<dt><kbd>${key}</kbd></dt><dd>${does}</dd>`)}</dl>`);
}
