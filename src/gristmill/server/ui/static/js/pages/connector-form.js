// @ts-check
/** The dialog that creates or edits a connector. Its fields are generated from the schemas of the connector type. */

import { api, fetchAll } from "../api.js";
import { bases } from "../bases.js";
import { html, signal } from "../core.js";
import { describeCron } from "../cron.js";
import { problemMessage, t } from "../i18n.js";
import { button } from "../components/button.js";
import { dialog } from "../components/dialog.js";
import {
  field,
  fieldErrors,
  noErrors,
  schemaFields,
  schemaValues,
  selectField,
  textField,
} from "../components/form.js";
import { dot } from "../components/status.js";
import { accessField, nameEntries } from "./connector-access.js";

/** @import { Base } from "../bases.js" */
/** @import { Errors } from "../components/form.js" */
/** @import { Signal } from "../core.js" */
/** @import { Names } from "./connector-access.js" */
/** @import { Kind } from "./connector-kinds.js" */
/** @import { Connector } from "./connectors.js" */

const SCHEDULES = ["*/30 * * * *", "0 * * * *", "0 */6 * * *", "0 2 * * *", "0 2 * * 1-5"];
/** @typedef {{ok: boolean, account: string | null, error: any} | "checking" | null} CheckResult */

/** @param {(saved: Connector) => void} onsaved @param {Connector} [existing] */
export async function openConnectorForm(onsaved, existing) {
  const [{ items: kinds }, allBases, names] = await Promise.all([
    api.get("/connector-kinds"),
    bases.peek() ?? fetchAll("/knowledge-bases"), // a page that was just opened has not loaded them yet
    nameEntries(existing?.acl ?? []),
  ]);
  const title = existing ? t("Edit {name}", { name: existing.name }) : t("New connector");
  dialog(title, (close) => connectorForm(kinds, allBases, names, existing, close, onsaved), {
    wide: true,
  });
}

/**
 * @param {Kind[]} kinds @param {Base[]} allBases @param {Names} names of its access list
 * @param {Connector | undefined} existing @param {() => void} close @param {(saved: Connector) => void} onsaved
 */
function connectorForm(kinds, allBases, names, existing, close, onsaved) {
  const type = signal(existing?.type ?? "github");
  const errors = noErrors();
  const errorText = signal("");
  const checkResult = signal(/** @type {CheckResult} */ (null));
  const schedule = signal(existing?.schedule ?? "0 */6 * * *");
  const kind = () => /** @type {Kind} */ (kinds.find((candidate) => candidate.type === type.value));
  const access = accessField(kind, existing?.acl ?? null, names, errors);
  const readValues = () => ({
    config: schemaValues(kind().config, "config", form),
    credentials: schemaValues(kind().credentials, "credentials", form),
  });
  const clearErrors = () => {
    [errors.value, errorText.value] = [{}, ""];
  };
  const showErrors = (/** @type {any} */ error) => {
    errors.value = fieldErrors(error);
    errorText.value = Object.keys(errors.peek()).length ? "" : error.message;
  };
  const check = async () => {
    checkResult.value = "checking";
    clearErrors();
    try {
      checkResult.value = await requestCheck(existing, type.peek(), readValues());
    } catch (error) {
      checkResult.value = null;
      showErrors(error);
    }
  };
  /** Whether a new connector may be created: its check has passed, or has failed and the user insists. */
  const mayCreate = async () => {
    if (!new FormData(form).getAll("base").length) {
      errorText.value = t("Choose at least one base.");
      return false;
    }
    if (hasFailed()) return true;
    await check();
    return isResult(checkResult.peek()) && !hasFailed();
  };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    clearErrors();
    if (!existing && !(await mayCreate())) return;
    const data = new FormData(form);
    const { config, credentials } = readValues();
    const knowledgeBaseIds = data.getAll("base");
    const fields = { name: data.get("name"), config, schedule: schedule.peek(), knowledgeBaseIds };
    const leftOut = (existing?.knowledgeBaseIds ?? []).filter((id) => !knowledgeBaseIds.includes(id));
    const onDetach = leftOut.length
      ? await askWhatStays(allBases.filter((base) => leftOut.includes(base.id)))
      : undefined;
    if (onDetach === null) return;
    try {
      const body = { ...fields, ...await access.change(form), ...(onDetach && { onDetach }) };
      const patch = Object.keys(credentials).length ? { ...body, credentials } : body;
      const saved = existing
        ? await api.patch(`/connectors/${existing.id}`, patch)
        : await api.post("/connectors", { ...body, type: type.peek(), credentials });
      close();
      onsaved(saved);
    } catch (error) {
      showErrors(error);
    }
  };
  const chooseType = (/** @type {string} */ value) => {
    [type.value, checkResult.value] = [value, null];
  };
  const isChecking = () => checkResult.value === "checking";
  const hasFailed = () => isResult(checkResult.value) && !checkResult.value.ok;
  const submitLabel = () => (existing ? t("Save") : hasFailed() ? t("Create anyway") : t("Create"));
  const form = /** @type {HTMLFormElement} */ (html`
    <form @submit=${submit} @input=${() => (checkResult.value = null)}>
      <div class="dialog-body">
        <div class="pair">
          ${existing ? null : typeField(kinds, type.peek(), chooseType)}
          ${nameField(existing, errors)}
        </div>
        ${() => configFields(kind(), existing, errors)}
        ${basesField(allBases, existing)} ${access.view}
        ${scheduleFields(schedule, errors, () => form)}
        ${() => (errorText.value ? html`<p class="error" role="alert">${errorText.value}</p>` : null)}
      </div>
      <footer>
        <span class="grow result" role="status">${() => checkResultView(checkResult.value)}</span>
        ${button(t("Check credentials"), check, { kind: "line", disabled: isChecking })}
        <button type="submit" class="button primary" ?disabled=${isChecking}>${submitLabel}</button>
      </footer>
    </form>
  `);
  return form;
}

/** @param {CheckResult} result @returns {result is {ok: boolean, account: string | null, error: any}} */
const isResult = (result) => result !== null && result !== "checking";

/**
 * Checks the typed credentials; where none are typed, the stored ones.
 * @param {Connector | undefined} existing @param {string} type @param {{config: any, credentials: any}} values
 */
function requestCheck(existing, type, { config, credentials }) {
  return existing && !Object.keys(credentials).length
    ? api.post(`/connectors/${existing.id}/check`)
    : api.post("/connector-kinds/check", { type, config, credentials });
}

/** @param {Kind[]} kinds @param {string} value @param {(value: string) => void} onchange */
const typeField = (kinds, value, onchange) =>
  selectField({
    label: t("Tool"),
    name: "type",
    value,
    choices: kinds.map((kind) => [kind.type, kind.title]),
    onchange,
  });

/** @param {Connector | undefined} existing @param {Errors} errors */
const nameField = (existing, errors) =>
  textField({
    label: t("Name"),
    name: "name",
    value: existing?.name ?? "",
    required: true,
    focus: true,
    error: () => errors.value.name,
  });

/** @param {Signal<string>} schedule @param {Errors} errors @param {() => HTMLFormElement} form */
function scheduleFields(schedule, errors, form) {
  const input = textField({
    label: t("Schedule"),
    name: "schedule",
    value: schedule.peek(),
    required: true,
    error: () => errors.value.schedule,
    oninput: (value) => {
      schedule.value = value;
    },
  });
  const apply = (/** @type {string} */ cron) => () => {
    schedule.value = cron;
    /** @type {HTMLInputElement} */ (form().elements.namedItem("schedule")).value = cron;
  };
  const presets = SCHEDULES.map((cron) => button(describeCron(cron), apply(cron), { small: true, kind: "quiet" }));
  return html`
    ${input}
    <div class="in-words">
      <span class="hint">${() => describeCron(schedule.value)}</span>
      <span class="presets">${presets}</span>
    </div>
  `;
}

/** @param {Kind} kind @param {Connector | undefined} existing @param {Errors} errors */
function configFields(kind, existing, errors) {
  const isFlag = (/** @type {any} */ property) => property.type === "boolean";
  const fieldsWhere = (/** @type {(property: any) => boolean} */ predicate) => {
    const properties = Object.entries(kind.config.properties).filter(([, property]) => predicate(property));
    const schema = { ...kind.config, properties: Object.fromEntries(properties) };
    return schemaFields(schema, "config", existing?.config ?? {}, errors);
  };
  return html`
    <fieldset>
      <legend>${t("Credentials")}</legend>
      ${schemaFields(kind.credentials, "credentials", {}, errors, { keep: Boolean(existing) })}
    </fieldset>
    <fieldset>
      <legend>${t("Content to sync")}</legend>
      ${fieldsWhere((property) => !isFlag(property))}
      <div class="flags">${fieldsWhere(isFlag)}</div>
    </fieldset>
  `;
}

/** @param {Base[]} allBases @param {Connector | undefined} existing */
function basesField(allBases, existing) {
  if (!allBases.length) {
    return html`<p class="hint">${t("There are no bases yet. You can create one now or later.")}</p>`;
  }
  const choices = allBases.map((base) => {
    const isChecked = existing?.knowledgeBaseIds.includes(base.id) ?? false;
    return html`
      <label class="tick">
        <input type="checkbox" name="base" value="${base.id}" ?checked=${isChecked}>
        ${base.name}
      </label>
    `;
  });
  const group = (/** @type {string} */ id) =>
    html`<div class="flags" id="${id}" role="group" aria-label="${t("Target bases")}">${choices}</div>`;
  return field({ label: t("Target bases") }, ({ id }) => group(id));
}

/**
 * Asks what happens to the documents in bases that the connector leaves; null if nothing is to be saved.
 * @param {Base[]} left @returns {Promise<"purge" | "detach" | null>}
 */
function askWhatStays(left) {
  return new Promise((resolve) => {
    let answer = /** @type {"purge" | "detach" | null} */ (null);
    const title = t("Keep the documents in {bases}?", { bases: left.map((base) => base.name).join(", ") });
    const content = (/** @type {() => void} */ close) => {
      const choose = (/** @type {"purge" | "detach"} */ choice) => () => {
        answer = choice;
        close();
      };
      return html`
        <form @submit=${(/** @type {Event} */ event) => event.preventDefault()}>
          <div class="dialog-body">
            <p>${t(
              "The connector will no longer sync into it. Documents that stay there are not updated any more.",
            )}</p>
          </div>
          <footer>
            ${button(t("Cancel"), close, { kind: "quiet" })}
            ${button(t("Keep documents"), choose("detach"))}
            ${button(t("Delete documents"), choose("purge"), { kind: "danger" })}
          </footer>
        </form>
      `;
    };
    dialog(title, content, { onclose: () => resolve(answer) });
  });
}

/** @param {CheckResult} result */
export function checkResultView(result) {
  if (!result) return null;
  if (result === "checking") return html`<span class="dim">${t("Checking …")}</span>`;
  const tone = result.ok ? "ok" : "failed";
  const text = result.ok ? t("Signed in as {account}", { account: result.account }) : problemMessage(result.error);
  return html`<span class="status ${tone}">${dot(tone)}<span>${text}</span></span>`;
}
