// @ts-check
/** Shows a secret that the server returns only once, with a button that copies it. */

import { html } from "../core.js";
import { t } from "../i18n.js";
import { button } from "./button.js";
import { copyText } from "./copy.js";

/** @param {string} secret @param {string} text @param {() => void} close */
export function secretView(secret, text, close) {
  return html`
    <div class="dialog-body">
      <p>${text}</p>
      <code class="secret" tabindex="0">${secret}</code>
    </div>
    <footer>
      ${button(t("Copy"), () => copyText(secret))}
      ${button(t("Done"), close, { kind: "primary" })}
    </footer>
  `;
}
