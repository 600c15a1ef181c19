// @ts-check
/** Lets a tool report changes to a connector: the address to call, and a secret that is shown once. */

import { api } from "../api.js";
import { button } from "../components/button.js";
import { dialog } from "../components/dialog.js";
import { relativeTime } from "../components/status.js";
import { copyText } from "../components/copy.js";
import { showError } from "../components/toast.js";
import { html, signal } from "../core.js";
import { t } from "../i18n.js";

/** @import { Connector } from "./connectors.js" */
/** @typedef {{ url: string, enabled: boolean, lastPushAt: string | null }} PushSettings */
/** @typedef {PushSettings & { secret?: string, urlWithSecret?: string }} Push */

/** @param {Connector} connector */
export async function openPushDialog(connector) {
  const path = `/connectors/${connector.id}/push`;
  const push = signal(/** @type {Push} */ (await api.get(path)));
  const createSecret = () => api.post(`${path}/secret`).then((created) => (push.value = created), showError);
  const turnOff = async () => {
    try {
      await api.delete(`${path}/secret`);
      push.value = await api.get(path);
    } catch (error) {
      showError(error);
    }
  };
  dialog(
    t("Push of {name}", { name: connector.name }),
    (close) => html`<div class="dialog-part">${() => pushView(push.value, close, createSecret, turnOff)}</div>`,
  );
}

/** @param {Push} push @param {() => void} close @param {() => void} createSecret @param {() => void} turnOff */
function pushView(push, close, createSecret, turnOff) {
  const lastPush = push.lastPushAt ? relativeTime(() => push.lastPushAt) : t("None yet");
  const { secret, urlWithSecret } = push;
  const aboutPush = t(
    "The tool calls this address when something changed, and a sync starts at once. Enter it as a webhook there.",
  );
  return html`
    <div class="dialog-body">
      <p>${aboutPush}</p>
      ${copyable(t("URL"), push.url)} ${secret ? secretView(secret, urlWithSecret ?? "") : null}
      ${push.enabled && !secret ? html`<p>${t("Last push")}: ${lastPush}</p>` : null}
    </div>
    <footer>
      ${push.enabled ? button(t("Turn off"), turnOff, { kind: "quiet" }) : null}
      ${secret ? null : button(push.enabled ? t("New secret") : t("Create secret"), createSecret)}
      ${button(t("Done"), close, { kind: "primary" })}
    </footer>
  `;
}

/** @param {string} secret @param {string} urlWithSecret */
function secretView(secret, urlWithSecret) {
  return html`
    <p>${t("The secret of the webhook. It is shown only once.")}</p>
    ${copyable(t("Secret"), secret)}
    ${copyable(t("For tools that don't sign: the address with the secret"), urlWithSecret)}
  `;
}

/** @param {string} label @param {string} text */
function copyable(label, text) {
  return html`
    <p>${label} ${button(t("Copy"), () => copyText(text), { small: true })}</p>
    <code class="secret" tabindex="0">${text}</code>
  `;
}
