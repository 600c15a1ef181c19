// @ts-check
/** How an item is kept fresh, and the dialog with what was deleted from a container and is left out of it. */

import { api } from "../../api.js";
import { html, signal } from "../../core.js";
import { formatDateTime, problemMessage, t } from "../../i18n.js";
import { button } from "../../components/button.js";
import { dialog } from "../../components/dialog.js";
import { showError, toast } from "../../components/toast.js";

/** @import { Item } from "../../tree/model.js" */

/** @typedef {{id: string, type: string, source: string, title: string, createdAt: string}} Exclusion */

/** When the source is checked, and whether a folder is watched: names and values. @param {Item} item */
export function freshnessFacts(item) {
  const { refresh, freshness } = item;
  if (!freshness) return [];
  const facts = [];
  if (freshness.watch) facts.push([t("Watched"), watchText(freshness.watch)]);
  facts.push([t("Checked"), refresh ? ruleText(refresh) : t("on request only")]);
  const times = [
    freshness.checkedAt ? t("last {when}", { when: formatDateTime(freshness.checkedAt) }) : "",
    freshness.nextCheckAt ? t("next {when}", { when: formatDateTime(freshness.nextCheckAt) }) : "",
  ];
  if (times.some(Boolean)) facts.push([t("Checks"), times.filter(Boolean).join(" · ")]);
  if (freshness.error) facts.push([t("Last check failed"), problemMessage(freshness.error)]);
  return facts;
}

/** @param {{every?: string | null, cron?: string | null}} rule */
function ruleText(rule) {
  return rule.cron ? t("at {cron} (UTC)", { cron: rule.cron }) : t("every {interval}", { interval: rule.every ?? "" });
}

/** @param {{state: string, error: {code?: string, message: string} | null}} watch */
function watchText(watch) {
  if (watch.state === "watching") return t("yes: changes are indexed within seconds");
  if (watch.state === "waiting") return t("starting");
  return watch.error ? t("no: {reason}", { reason: problemMessage(watch.error) }) : t("no");
}

/** Check the source of an item now. @param {Item} item */
export async function checkNow(item) {
  try {
    await api.post(`/knowledge-items/${item.id}/refresh`, {});
    toast(t("The source is being checked."));
  } catch (error) {
    showError(error);
  }
}

/** Show what was deleted from a container, and let it be taken back. @param {string} base @param {Item} item */
export function openExclusions(base, item) {
  const path = `/knowledge-bases/${base}/exclusions`;
  const exclusions = signal(/** @type {Exclusion[] | null} */ (null));
  const load = async () => {
    exclusions.value = (await api.get(path, { containerId: item.id, limit: 500 })).items;
  };
  const takeBack = async (/** @type {Exclusion} */ exclusion) => {
    try {
      await api.delete(`${path}/${exclusion.id}`);
      await load();
    } catch (error) {
      showError(error);
    }
  };
  // The id of a record says nothing to people.
  const name = (/** @type {Exclusion} */ { type, source, title }) => (type === "record" ? title : source);
  const row = (/** @type {Exclusion} */ exclusion) =>
    html`
      <li>
        <code class="cut" title="${exclusion.source}">${name(exclusion)}</code>
        <span class="dim">${formatDateTime(exclusion.createdAt)}</span>
        ${button(t("Take back"), () => takeBack(exclusion), { small: true })}
      </li>
    `;
  dialog(
    t("Deleted from {title}", { title: item.title }),
    () => {
      load().catch(showError);
      return html`
        <div class="dialog-body exclusions">
          <p class="dim">${t("Checks and reindexing leave these out until you take them back or add them again.")}</p>
          <ul aria-live="polite">${() => (exclusions.value ?? []).map(row)}</ul>
          ${() => (exclusions.value?.length === 0 ? html`<p>${t("Nothing was deleted from it.")}</p>` : null)}
        </div>
      `;
    },
    { wide: true },
  );
}
