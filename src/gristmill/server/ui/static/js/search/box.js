// @ts-check
/**
 * The field of a search. Typing searches after a short delay, Enter at once; ↓ goes to the hits. Where questions can be
 * answered, a button (or Ctrl and Enter) asks. The text is in the URL; a new text is not asked until that is wanted.
 */

import { capabilities, loadCapabilities } from "../capabilities.js";
import { effect, html } from "../core.js";
import { t } from "../i18n.js";
import { icon } from "../components/icon.js";
import { setQuery } from "../router.js";
import { allows } from "../session.js";
import { moveBetweenHits } from "./results.js";

/** @import { LiveRoute } from "../router.js" */

const TYPING_DELAY = 280;

/** Whether asking is offered: there is a model, or the caller can configure one. */
const canAsk = () => capabilities.value !== null && (capabilities.value.chatModel !== null || allows("operator"));

/** @param {LiveRoute} route @param {string} label */
export function searchBox(route, label) {
  loadCapabilities();
  /** @type {ReturnType<typeof setTimeout>} */ let timer;
  /** @type {HTMLInputElement} */ let field;
  effect(() => () => clearTimeout(timer)); // else it would change the address of the next page
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    clearTimeout(timer);
    setQuery({ q: field.value, limit: null, ask: null }, { push: true });
  };
  const ask = () => {
    clearTimeout(timer);
    if (field.value.trim()) setQuery({ q: field.value, limit: null, ask: "1" }, { push: true });
    else field.focus();
  };
  const oninput = (/** @type {Event} */ event) => {
    clearTimeout(timer);
    if (/** @type {InputEvent} */ (event).isComposing) return; // letters of which an input method makes a word
    timer = setTimeout(() => setQuery({ q: field.value, limit: null, ask: null }), TYPING_DELAY);
  };
  const onkeydown = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return; // arrows choose a word of Chinese, say, and no hit
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return moveBetweenHits(event);
    event.preventDefault();
    loadCapabilities().then(() => canAsk() && ask());
  };
  const askButton = () =>
    html`
      <button type="button" class="button quiet small" title="${t("Answer this question")}" @click=${ask}>
        ${icon("ask")}<span>${t("Ask")}</span>
      </button>
    `;
  return html`
    <form class="search-box" role="search" @submit=${submit}>
      ${icon("search")}
      <input
        type="search"
        data-key="/"
        aria-label="${label}"
        placeholder="${label}"
        .value=${() => route.value.query.get("q") ?? ""}
        ref=${(/** @type {HTMLInputElement} */ element) => (field = element)}
        @input=${oninput}
        @compositionend=${oninput}
        @keydown=${onkeydown}
      >
      ${() => (canAsk() ? askButton() : null)}
      <kbd aria-hidden="true">${icon("enter")}</kbd>
    </form>
  `;
}
