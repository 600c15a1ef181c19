// @ts-check
/** How long a base keeps things, its legal holds, and the report of what was deleted: below the settings of a base. */

import { api } from "../../api.js";
import { html, signal } from "../../core.js";
import { formatDateTime, t } from "../../i18n.js";
import { button } from "../../components/button.js";
import { confirm } from "../../components/dialog.js";
import { showError, toast } from "../../components/toast.js";

/** @import { ApiError } from "../../api.js" */
/** @import { Signal } from "../../core.js" */

/** @typedef {{documentDays: number | null, versionDays: number | null, eventDays: number | null,
 *   auditDays: number | null}} Rule */
/** @typedef {{id: string, itemId: string | null, title: string, reason: string, placedBy: string, placedAt: string}}
 * Hold */

/** @param {string} base The id of a base. */
export function retentionSection(base) {
  const rule = signal(/** @type {Rule | null} */ (null));
  const holds = signal(/** @type {Hold[]} */ ([]));
  const load = async () => {
    rule.value = await api.get(`/knowledge-bases/${base}/retention`);
    holds.value = (await api.get(`/knowledge-bases/${base}/legal-holds`, { limit: 500 })).items;
  };
  // Where the base was deleted meanwhile, the page says so.
  load().catch((error) => error.status === 404 || showError(error));
  return html`
    <div class="settings">
      ${() => (rule.value ? ruleForm(base, rule.value, load) : null)}
      <fieldset>
        <legend>${t("Legal hold")}</legend>
        <p class="hint">${t(
          "Until a hold is lifted, nothing that it covers is deleted, whoever or whatever asks for it.",
        )}</p>
        <ul class="holds" aria-live="polite">${() => holds.value.map((hold) => holdRow(base, hold, load))}</ul>
        ${() => (holds.value.length ? null : html`<p class="dim">${t("Nothing in this base is under a hold.")}</p>`)}
        ${holdForm(base, load)}
      </fieldset>
      <fieldset>
        <legend>${t("Deletion report")}</legend>
        <p class="hint">${t("What was deleted, when, by whom and why: with hashes, without contents.")}</p>
        <a class="button line" href="/api/deletions.csv?baseId=${base}" download>${t("Download the report")}</a>
      </fieldset>
    </div>
  `;
}

/** @param {string} name @param {string} label @param {number | null} days @param {string} hint */
const daysField = (name, label, days, hint) =>
  html`
    <label class="field">
      <span>${label}</span>
      <input name="${name}" type="number" min="1" max="36500" .value=${String(days ?? "")}>
      <span class="hint">${hint}</span>
    </label>
  `;

/** @param {string} base @param {Rule} rule @param {() => Promise<void>} reload */
function ruleForm(base, rule, reload) {
  const errorText = signal("");
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const days = (/** @type {string} */ name) => Number(form.get(name)) || null;
    errorText.value = "";
    try {
      const changed = {
        documentDays: days("documentDays"),
        versionDays: days("versionDays"),
        eventDays: days("eventDays"),
        auditDays: days("auditDays"),
      };
      await api.put(`/knowledge-bases/${base}/retention`, changed);
      await reload();
      toast(t("Saved"));
    } catch (error) {
      errorText.value = /** @type {ApiError} */ (error).message;
    }
  };
  return html`
    <form @submit=${submit}>
      <fieldset>
        <legend>${t("Retention")}</legend>
        ${daysField(
          "documentDays",
          t("Delete documents this many days after their last change"),
          rule.documentDays,
          t("Empty: they are kept without limit."),
        )}
        ${daysField(
          "versionDays",
          t("Keep earlier versions of documents this many days"),
          rule.versionDays,
          t("Empty: an earlier version is deleted when a newer one replaces it."),
        )}
        ${daysField("eventDays", t("Keep events this many days"), rule.eventDays, t("Empty: as the server is set."))}
        ${daysField(
          "auditDays",
          t("Keep the audit log of this base this many days"),
          rule.auditDays,
          t("Empty: as the server is set."),
        )}
        <p class="bad" role="alert">${() => errorText.value}</p>
        <button class="button line">${t("Set retention")}</button>
      </fieldset>
    </form>
  `;
}

/** @param {string} base @param {Hold} hold @param {() => Promise<void>} reload */
function holdRow(base, hold, reload) {
  const lift = async () => {
    const isConfirmed = await confirm({
      title: t("Lift this legal hold?"),
      text: t("What it covers can be deleted again: by people, by its source and by retention."),
      action: t("Lift hold"),
    });
    if (!isConfirmed) return;
    try {
      await api.delete(`/knowledge-bases/${base}/legal-holds/${hold.id}`);
      await reload();
    } catch (error) {
      showError(error);
    }
  };
  return html`
    <li>
      <b>${hold.itemId ? hold.title : t("The whole base")}</b> ${hold.reason}
      <span class="dim">${hold.placedBy} · ${formatDateTime(hold.placedAt)}</span>
      ${button(t("Lift hold"), lift, { small: true })}
    </li>
  `;
}

/** @param {string} base @param {() => Promise<void>} reload */
function holdForm(base, reload) {
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    try {
      await api.post(`/knowledge-bases/${base}/legal-holds`, { reason: String(new FormData(form).get("reason")) });
      form.reset();
      await reload();
    } catch (error) {
      showError(error);
    }
  };
  return html`
    <form @submit=${submit}>
      <label class="field">
        <span>${t("Reason")}</span>
        <input name="reason" required maxlength="1000">
      </label>
      <button class="button line">${t("Hold the whole base")}</button>
    </form>
  `;
}
