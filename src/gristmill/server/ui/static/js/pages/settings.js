// @ts-check
/** Settings: this browser, the embedders, the API keys, the workers. */

import "../admin-locale.js";
import { setPageTitle } from "../components/status.js";
import { computed, html } from "../core.js";
import { t } from "../i18n.js";
import { generalSection } from "./settings/general.js";
import { keysSection } from "./settings/keys.js";
import { modelsSection } from "./settings/models.js";
import { workersSection } from "./settings/workers.js";

/** @import { LiveRoute } from "../router.js" */

const SECTIONS = /** @type {Record<string, [string, () => Node]>} */ ({
  general: ["General", generalSection],
  models: ["Models", modelsSection],
  keys: ["API keys", keysSection],
  workers: ["Workers", workersSection],
});

/** @param {LiveRoute} route */
export function page(route) {
  const section = computed(() => (SECTIONS[route.value.params.part] ? route.value.params.part : "general"));
  setPageTitle(() => t(SECTIONS[section.value][0]));
  const links = Object.entries(SECTIONS).map(([id, [label]]) =>
    html`<a href="/settings/${id}" aria-current=${() => (section.value === id ? "page" : null)}>${t(label)}</a>`
  );
  return html`
    <div class="page">
      <div class="top">
        <h1>${t("Settings")}</h1>
      </div>
      <nav class="tabs strip" aria-label="${t("Settings")}">${links}</nav>
      <div class="scroll">${() => SECTIONS[section.value][1]()}</div>
    </div>
  `;
}
