// @ts-check
/** Dialogs on the browser's own `<dialog>`: focus is kept inside, Escape closes, and focus goes back where it was. */

import { effect, html } from "../core.js";
import { t } from "../i18n.js";
import { button, iconButton } from "./button.js";

/**
 * Opens a dialog; `body` is built for it and ends with it.
 * @param {string} title @param {(close: () => void) => Node} body @param {{wide?: boolean, kind?: string, onclose?: () => void}} [how]
 * @returns {() => void} closes it
 */
export function dialog(title, body, how = {}) {
  const id = `d${crypto.randomUUID().slice(0, 8)}`;
  /** @type {HTMLDialogElement} */ let box = document.createElement("dialog");
  const close = () => box.close();
  const end = effect(
    () => null,
    () => {
      box = /** @type {HTMLDialogElement} */ (
        html`<dialog class="dialog ${how.wide ? "wide" : ""} ${how.kind}" aria-labelledby="${id}">
          <header><h2 id="${id}">${title}</h2>${iconButton(t("Close"), "close", close)}</header>
          ${body(close)}
        </dialog>`
      );
    },
  );
  box.addEventListener("click", (event) => {
    if (event.target === box) close(); // the backdrop is the dialog's own box
  });
  box.addEventListener("close", () => {
    end();
    box.remove();
    how.onclose?.();
  });
  document.body.append(box);
  box.showModal();
  return close;
}

/**
 * Asks before something that can't be taken back.
 * @param {{title: string, text: string, action: string, type?: string}} asking `type`: a word that has to be typed
 * @returns {Promise<boolean>}
 */
export function confirm(asking) {
  return new Promise((resolve) => {
    let sure = false;
    dialog(
      asking.title,
      (close) => {
        const go = button(asking.action, () => form.requestSubmit(), { kind: "danger" });
        go.disabled = Boolean(asking.type);
        const form = /** @type {HTMLFormElement} */ (
          html`<form method="dialog" @submit=${() => {
            sure = !go.disabled;
            close();
          }}>
            <div class="dialog-body"><p>${asking.text}</p>
            ${
              asking.type
                ? html`<label class="field"><span>${t("Type {word} to go on", { word: asking.type })}</span>
              <input name="word" autocomplete="off" autofocus @input=${(/** @type {InputEvent} */ event) => {
                go.disabled = /** @type {HTMLInputElement} */ (event.target).value !== asking.type;
              }}></label>`
                : null
            }</div>
            <footer>${button(t("Cancel"), close, { kind: "quiet" })}${go}</footer>
          </form>`
        );
        return form;
      },
      { onclose: () => resolve(sure) },
    );
  });
}
