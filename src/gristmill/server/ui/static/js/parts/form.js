// @ts-check
/** Forms: fields with a label, a hint and what was wrong with them; and whole forms made from JSON schemas. */

import { html, signal } from "../core.js";
import { t } from "../i18n.js";

/** @typedef {import("../core.js").Signal<Record<string, string>>} Errors what is wrong, by the path of the field */

/** @param {string} name `pullRequests` as people write it. */
export const wordsOf = (name) => {
  const words = name.replace(/([A-Z])/g, " $1").toLowerCase();
  return words.replace(/^./, (first) => first.toUpperCase()).replace(/\b(url|jql|id)\b/gi, (word) => word.toUpperCase());
};

/** @param {any} error @returns {Record<string, string>} what a refusal says of single fields */
export const fieldErrors = (error) => Object.fromEntries((error.errors ?? []).map((/** @type {any} */ one) => [one.field, one.message]));

let last = 0;

/**
 * A field with its label; `make` gets the ids of what describes it.
 * @param {{label: string, hint?: string, error?: () => string | undefined, row?: boolean}} about
 * @param {(ids: {id: string, by: string}) => Node} make
 */
export function field(about, make) {
  const id = `f${++last}`;
  const by = `${id}h`;
  const input = make({ id, by });
  const label = html`<label for="${id}">${about.label}</label>`;
  const hint = about.hint ? html`<span class="hint" id="${by}">${about.hint}</span>` : null;
  const wrong = () => (about.error?.() ? html`<span class="error" role="alert">${about.error()}</span>` : null);
  return about.row
    ? html`<div class="field check"><span class="tick">${input}${label}</span>${hint}${wrong}</div>`
    : html`<div class="field"><span>${label}</span>${input}${hint}${wrong}</div>`;
}

/**
 * @param {{label: string, name: string, value?: string, hint?: string, type?: string, required?: boolean, placeholder?: string,
 *   error?: () => string | undefined, oninput?: (value: string) => void, focus?: boolean}} about
 */
export const textField = (about) =>
  field(
    about,
    ({ id, by }) =>
      html`<input id="${id}" aria-describedby=${about.hint ? by : null} name="${about.name}" type="${about.type ?? "text"}" .value=${about.value ?? ""}
        placeholder=${about.placeholder} ?required=${about.required ?? false} ?autofocus=${about.focus ?? false}
        autocomplete="${about.type === "password" ? "new-password" : "off"}" spellcheck="false"
        @input=${(/** @type {Event} */ event) => about.oninput?.(/** @type {HTMLInputElement} */ (event.target).value)}>`,
  );

/** @param {{label: string, name: string, value: string, choices: [string, string][], hint?: string, onchange?: (value: string) => void}} about */
export const choiceField = (about) =>
  field(
    about,
    ({ id, by }) =>
      html`<select id="${id}" aria-describedby=${about.hint ? by : null} name="${about.name}" @change=${(/** @type {Event} */ event) =>
        about.onchange?.(/** @type {HTMLSelectElement} */ (event.target).value)}>${about.choices.map(
        ([value, label]) => html`<option value="${value}" ?selected=${value === about.value}>${label}</option>`,
      )}</select>`,
  );

/** @param {{label: string, name: string, checked: boolean, hint?: string}} about */
export const checkField = (about) =>
  field(
    { ...about, row: true },
    ({ id, by }) => html`<input id="${id}" aria-describedby=${about.hint ? by : null} name="${about.name}" type="checkbox" ?checked=${about.checked}>`,
  );

/** @param {any} schema The schema of a value that may be left out. */
const core = (schema) => ({ ...schema, ...(schema.anyOf?.find((/** @type {any} */ one) => one.type !== "null") ?? {}) });

/**
 * The fields of a JSON schema's object.
 * @param {any} schema @param {string} above the path of the object @param {Record<string, any>} values @param {Errors} errors
 * @param {{keep?: boolean}} [how] `keep`: secrets are there already, and stay unless others are typed
 */
export function fieldsOf(schema, above, values, errors, how = {}) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([key, given]) => {
    const one = core(given);
    const name = `${above}.${key}`;
    const value = values[key] ?? one.default;
    const about = {
      name,
      label: t(wordsOf(key)),
      hint: one.description ? t(one.description.replaceAll("`", "")) : undefined,
      error: () => errors.value[name],
    };
    if (one.type === "boolean") return checkField({ ...about, hint: undefined, checked: Boolean(value) });
    if (one.enum) return choiceField({ ...about, value: value ?? "", choices: [["", t("As the address tells")], ...one.enum.map((/** @type {string} */ word) => [word, word])] });
    if (one.type === "array") {
      return field(about, ({ id, by }) => html`<textarea id="${id}" aria-describedby="${by}" name="${name}" rows="2" class="list" spellcheck="false" .value=${(value ?? []).join("\n")}></textarea>`);
    }
    if (one.writeOnly && /key/i.test(key)) {
      return field(about, ({ id, by }) => html`<textarea id="${id}" aria-describedby="${by}" name="${name}" rows="2" class="list" autocomplete="off" spellcheck="false"></textarea>`);
    }
    return textField({
      ...about,
      type: one.writeOnly ? "password" : one.type === "integer" ? "number" : "text",
      value: one.writeOnly ? "" : String(value ?? ""),
      placeholder: one.writeOnly && how.keep ? t("Kept as it is") : undefined,
      required: required.has(key) && !(one.writeOnly && how.keep),
    });
  });
}

/** @param {any} schema @param {string} above @param {HTMLFormElement} form @returns {Record<string, any>} what was typed */
export function valuesOf(schema, above, form) {
  /** @type {Record<string, any>} */ const values = {};
  for (const [key, given] of Object.entries(schema.properties ?? {})) {
    const one = core(given);
    const input = /** @type {any} */ (form.elements.namedItem(`${above}.${key}`));
    if (!input) continue;
    if (one.type === "boolean") values[key] = input.checked;
    else if (one.type === "array") values[key] = input.value.split("\n").map((/** @type {string} */ line) => line.trim()).filter(Boolean);
    else if (input.value !== "") values[key] = one.type === "integer" ? Number(input.value) : one.writeOnly ? input.value.trim() : input.value;
  }
  return values;
}

export const noErrors = () => signal(/** @type {Record<string, string>} */ ({}));
