// @ts-check
/** The dialog that makes or changes a connector: its fields are made from the schemas of its kind. */

import { api } from "../api.js";
import { bases } from "../bases.js";
import { html, signal } from "../core.js";
import { inWords } from "../cron.js";
import { t } from "../i18n.js";
import { button } from "../parts/button.js";
import { dialog } from "../parts/dialog.js";
import { choiceField, field, fieldErrors, fieldsOf, noErrors, textField, valuesOf } from "../parts/form.js";
import { dot } from "../parts/status.js";

/** @typedef {{type: string, config: any, credentials: any}} Kind */
/** @typedef {import("./connectors.js").Connector} Connector */

export const TYPES = /** @type {Record<string, string>} */ ({ github: "GitHub", gitlab: "GitLab", jira: "Jira", confluence: "Confluence" });
const SCHEDULES = ["*/30 * * * *", "0 * * * *", "0 */6 * * *", "0 2 * * *", "0 2 * * 1-5"];

/** @param {(made: Connector) => void} done @param {Connector} [old] */
export async function openConnectorForm(done, old) {
  /** @type {Kind[]} */ const kinds = (await api.get("/connector-kinds")).items;
  const type = signal(old?.type ?? "github");
  const errors = noErrors();
  const wrong = signal("");
  const checked = signal(/** @type {{ok: boolean, account: string | null, error: any} | "asking" | null} */ (null));
  const schedule = signal(old?.schedule ?? "0 */6 * * *");
  const kind = () => /** @type {Kind} */ (kinds.find((one) => one.type === type.value));

  dialog(
    old ? t("Change {name}", { name: old.name }) : t("New connector"),
    (close) => {
      const asked = () => {
        const { config, credentials } = kind();
        return { config: valuesOf(config, "config", form), credentials: valuesOf(credentials, "credentials", form) };
      };
      const failed = (/** @type {any} */ error) => {
        errors.value = fieldErrors(error);
        wrong.value = Object.keys(errors.peek()).length ? "" : error.message;
      };
      const check = async () => {
        checked.value = "asking";
        [errors.value, wrong.value] = [{}, ""];
        try {
          const { config, credentials } = asked();
          const kept = old && !Object.keys(credentials).length;
          checked.value = await (kept ? api.post(`/connectors/${old.id}/check`) : api.post("/connector-kinds/check", { type: type.peek(), config, credentials }));
        } catch (error) {
          checked.value = null;
          failed(error);
        }
      };
      const submit = async (/** @type {Event} */ event) => {
        event.preventDefault();
        const data = new FormData(form);
        const { config, credentials } = asked();
        const body = { name: data.get("name"), config, schedule: schedule.peek(), knowledgeBaseIds: data.getAll("base") };
        [errors.value, wrong.value] = [{}, ""];
        try {
          const changed = Object.keys(credentials).length ? { ...body, credentials } : body;
          const made = old ? await api.patch(`/connectors/${old.id}`, changed) : await api.post("/connectors", { ...body, type: type.peek(), credentials });
          close();
          done(made);
        } catch (error) {
          failed(error);
        }
      };
      const form = /** @type {HTMLFormElement} */ (
        html`<form @submit=${submit}><div class="dialog-body">
          <div class="pair">${old ? null : choiceField({ label: t("Tool"), name: "type", value: type.peek(), choices: kinds.map((one) => [one.type, TYPES[one.type] ?? one.type]), onchange: (value) => {
            [type.value, checked.value] = [value, null];
          } })}${textField({ label: t("Name"), name: "name", value: old?.name ?? "", required: true, focus: true, error: () => errors.value.name })}</div>
          ${() => parts(kind(), old, errors)}
          ${basesField(old)}
          ${textField({ label: t("Schedule"), name: "schedule", value: schedule.peek(), required: true, error: () => errors.value.schedule, oninput: (value) => {
            schedule.value = value;
          } })}
          <div class="in-words"><span class="hint">${() => inWords(schedule.value)}</span><span class="presets">${SCHEDULES.map((cron) =>
            button(inWords(cron), () => {
              schedule.value = cron;
              /** @type {HTMLInputElement} */ (form.elements.namedItem("schedule")).value = cron;
            }, { small: true, kind: "quiet" }),
          )}</span></div>
          ${() => (wrong.value ? html`<p class="error" role="alert">${wrong.value}</p>` : null)}
        </div><footer><span class="grow said" role="status">${() => said(checked.value)}</span>${button(t("Check credentials"), check, { kind: "line", disabled: () => checked.value === "asking" })}
          <button type="submit" class="button primary">${old ? t("Save") : t("Create")}</button></footer></form>`
      );
      return form;
    },
    { wide: true },
  );
}

/** @param {Kind} kind @param {Connector | undefined} old @param {import("../parts/form.js").Errors} errors */
function parts(kind, old, errors) {
  const isFlag = (/** @type {any} */ one) => one.type === "boolean";
  const of = (/** @type {(one: any) => boolean} */ wanted) => ({
    ...kind.config,
    properties: Object.fromEntries(Object.entries(kind.config.properties).filter(([, one]) => wanted(one))),
  });
  return html`<fieldset><legend>${t("Credentials")}</legend>${fieldsOf(kind.credentials, "credentials", {}, errors, { keep: Boolean(old) })}</fieldset>
    <fieldset><legend>${t("What is followed")}</legend>${fieldsOf(of((one) => !isFlag(one)), "config", old?.config ?? {}, errors)}<div class="flags">${fieldsOf(of(isFlag), "config", old?.config ?? {}, errors)}</div></fieldset>`;
}

/** @param {Connector | undefined} old */
function basesField(old) {
  const known = bases.peek() ?? [];
  if (!known.length) return html`<p class="hint">${t("There is no base yet that it could feed. Make one first, or later.")}</p>`;
  return field({ label: t("Bases that it feeds") }, ({ id }) =>
    html`<div class="flags" id="${id}" role="group" aria-label="${t("Bases that it feeds")}">${known.map(
      (base) => html`<label class="tick"><input type="checkbox" name="base" value="${base.id}" ?checked=${old?.knowledgeBaseIds.includes(base.id) ?? false}>${base.name}</label>`,
    )}</div>`,
  );
}

/** @param {{ok: boolean, account: string | null, error: any} | "asking" | null} checked */
export function said(checked) {
  if (!checked) return null;
  if (checked === "asking") return html`<span class="dim">${t("Asking …")}</span>`;
  return html`<span class="status ${checked.ok ? "ok" : "failed"}">${dot(() => (checked.ok ? "ok" : "failed"))}<span>${checked.ok ? t("Comes in as {account}", { account: checked.account }) : checked.error.message}</span></span>`;
}
