// @ts-check
/**
 * Settings: this browser, the embedders, the people, the API keys, usage and limits, the workers, storage and the audit
 * log.
 */

import "../admin-locale.js";
import { setPageTitle } from "../components/status.js";
import { computed, effect, html } from "../core.js";
import { t } from "../i18n.js";
import { allows } from "../session.js";
import { auditSection } from "./settings/audit.js";
import { generalSection } from "./settings/general.js";
import { keysSection } from "./settings/keys.js";
import { modelsSection } from "./settings/models.js";
import { peopleSection } from "./settings/people.js";
import { storageSection } from "./settings/storage.js";
import { usageSection } from "./settings/usage.js";
import { workersSection } from "./settings/workers.js";

/** @import { LiveRoute } from "../router.js" */
/** @import { Audience } from "../session.js" */

const SECTIONS = /** @type {Record<string, [string, () => Node, Audience]>} */ ({
  general: ["General", generalSection, "reader"],
  models: ["Models", modelsSection, "reader"],
  people: ["People", peopleSection, "admin"],
  keys: ["API keys", keysSection, "admin"],
  usage: ["Usage", usageSection, "admin"],
  workers: ["Workers", workersSection, "operator"],
  storage: ["Storage", storageSection, "operator"],
  audit: ["Audit log", auditSection, "admin"],
});

/** @param {LiveRoute} route */
export function page(route) {
  const isShown = (/** @type {string} */ id) => SECTIONS[id][2] === "reader" || allows(SECTIONS[id][2]);
  const section = computed(() => {
    const part = route.value.params.part;
    return SECTIONS[part] && isShown(part) ? part : "general";
  });
  setPageTitle(() => t(SECTIONS[section.value][0]));
  const link = (/** @type {string} */ id) => {
    const isCurrent = () => (section.value === id ? "page" : null);
    return html`<a href="/settings/${id}" aria-current=${isCurrent}>${t(SECTIONS[id][0])}</a>`;
  };
  const links = () => Object.keys(SECTIONS).filter(isShown).map(link);
  const strip = html`<nav class="tabs strip" aria-label="${t("Settings")}">${links}</nav>`;
  const showCurrent = () =>
    /** @type {Element} */ (strip).querySelector("[aria-current]")?.scrollIntoView({
      inline: "center",
      block: "nearest",
    });
  effect(() => section.value, () => void requestAnimationFrame(showCurrent));
  return html`
    <div class="page">
      <div class="top">
        <h1>${t("Settings")}</h1>
      </div>
      ${strip}
      <div class="scroll">${() => SECTIONS[section.value][1]()}</div>
    </div>
  `;
}
