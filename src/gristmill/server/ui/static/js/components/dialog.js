// @ts-check
/**
 * Dialogs on the browser's own `<dialog>`: focus starts at the first field and stays inside, Escape closes, and focus
 * returns to where it was.
 */

import { effect, html, signal } from "../core.js";
import { t } from "../i18n.js";
import { button, iconButton } from "./button.js";
import { placeToasts } from "./toast.js";

/**
 * @typedef {{wide?: boolean, kind?: string, select?: boolean, onclose?: () => void}} DialogOptions `select`: what is
 *   typed replaces the text of the first field
 */

let lastId = 0;

/**
 * Opens a dialog. Effects of its `body` are disposed when it closes.
 * @param {string} title @param {(close: () => void) => Node} body
 * @param {DialogOptions} [options] @returns {() => void} closes it
 */
export function dialog(title, body, options = {}) {
  const id = `d${++lastId}`;
  /** @type {HTMLDialogElement} */ let element = document.createElement("dialog");
  const close = () => element.close();
  const dispose = effect(
    () => null,
    () => {
      element = /** @type {HTMLDialogElement} */ (html`
        <dialog class="dialog ${options.wide ? "wide" : ""} ${options.kind}" aria-labelledby="${id}">
          <header><h2 id="${id}">${title}</h2>${iconButton(t("Close"), "close", close)}</header>
          ${body(close)}
        </dialog>
      `);
    },
  );
  // A click on the backdrop has the dialog as its target; so has one that began in it, to select a text.
  let isPressedOutside = false;
  element.addEventListener("pointerdown", (event) => (isPressedOutside = event.target === element));
  element.addEventListener("click", (event) => {
    if (event.target === element && isPressedOutside) close();
  });
  element.addEventListener("close", () => {
    dispose();
    placeToasts();
    element.remove();
    options.onclose?.();
  });
  document.body.append(element);
  element.showModal();
  placeToasts();
  focusField(element, options.select);
  return close;
}

/**
 * Moves the focus to the first field, unless another element has asked for it. The browser would choose the button that
 * closes the dialog, and typing would press it.
 * @param {HTMLDialogElement} element @param {boolean} [select]
 */
function focusField(element, select = false) {
  if (element.querySelector("[autofocus]")) return;
  const field = /** @type {HTMLInputElement | null} */ (element.querySelector("input, select, textarea"));
  field?.focus();
  if (select) field?.select();
}

/**
 * @typedef {{title: string, text: string, action: string, type?: string, kind?: "danger" | "primary",
 *   estimate?: () => Promise<string>}} ConfirmOptions `type`: a word that the user has to type; `estimate`: what it
 *   will cost, in words, shown when it is known
 */

/**
 * Asks for confirmation of something that can't be undone. Enter cancels, unless the user moves to the button.
 * @param {ConfirmOptions} options
 * @returns {Promise<boolean>}
 */
export function confirm(options) {
  return new Promise((resolve) => {
    let isConfirmed = false;
    const form = (/** @type {() => void} */ close) =>
      confirmForm(options, close, () => {
        isConfirmed = true;
      });
    dialog(options.title, form, { onclose: () => resolve(isConfirmed) });
  });
}

/** @param {ConfirmOptions} options @param {() => void} close @param {() => void} onconfirm */
function confirmForm(options, close, onconfirm) {
  const confirmButton = button(options.action, () => form.requestSubmit(), { kind: options.kind ?? "danger" });
  const cancelButton = button(t("Cancel"), close, { kind: "quiet" });
  confirmButton.disabled = Boolean(options.type);
  cancelButton.autofocus = !options.type;
  const submit = (/** @type {Event} */ event) => {
    if (confirmButton.disabled) return event.preventDefault(); // Enter after another word does nothing
    onconfirm();
    close();
  };
  const oninput = (/** @type {Event} */ event) => {
    confirmButton.disabled = /** @type {HTMLInputElement} */ (event.target).value !== options.type;
  };
  const wordField = () =>
    html`
      <label class="field">
        <span>${t("Type {word} to confirm", { word: options.type })}</span>
        <input name="word" autocomplete="off" autofocus @input=${oninput}>
      </label>
    `;
  const form = /** @type {HTMLFormElement} */ (html`
    <form method="dialog" @submit=${submit}>
      <div class="dialog-body">
        <p>${options.text}</p>
        ${options.estimate ? estimateLine(options.estimate) : null}
        ${options.type ? wordField() : null}
      </div>
      <footer>${cancelButton}${confirmButton}</footer>
    </form>
  `);
  return form;
}

/** @param {() => Promise<string>} estimate */
function estimateLine(estimate) {
  const text = signal(t("Estimating …"));
  estimate().then(
    (described) => text.value = described,
    (error) => text.value = /** @type {Error} */ (error).message,
  );
  return html`<p class="small-text" role="status">${() => text.value}</p>`;
}
