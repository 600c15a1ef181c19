// @ts-check
/** Forms: fields with a label, a hint and an error, and whole forms generated from JSON schemas. */

import { html, signal } from "../core.js";
import { fieldMessage, t } from "../i18n.js";

/** @import { Signal } from "../core.js" */

/** @typedef {Signal<Record<string, string>>} Errors error messages by the path of the field */

/** @param {string} name Turns `pullRequests` into "Pull requests". */
export const labelFor = (name) => {
  const words = name.replace(/([A-Z])/g, " $1").toLowerCase();
  const sentence = words.replace(/^./, (first) => first.toUpperCase());
  return sentence.replace(/\b(url|jql|id|api)\b/gi, (word) => word.toUpperCase());
};

/** @param {any} error @returns {Record<string, string>} the messages of an API error for single fields */
export const fieldErrors = (error) =>
  Object.fromEntries(
    (error.errors ?? []).map((/** @type {any} */ { field, message }) => [field, fieldMessage(message)]),
  );

let lastId = 0;

/**
 * A field with its label. `render` gets the ids for the input and for the hint that describes it.
 * @param {{label: string, hint?: string, error?: () => string | undefined, row?: boolean}} options
 * @param {(ids: {id: string, by: string}) => Node} render
 */
export function field(options, render) {
  const id = `f${++lastId}`;
  const by = `${id}h`;
  const input = render({ id, by });
  const label = html`<label for="${id}">${options.label}</label>`;
  const hint = options.hint ? html`<span class="hint" id="${by}">${options.hint}</span>` : null;
  const errorText = () => (options.error?.() ? html`<span class="error" role="alert">${options.error()}</span>` : null);
  return options.row
    ? html`<div class="field check"><span class="tick">${input}${label}</span>${hint}${errorText}</div>`
    : html`<div class="field"><span>${label}</span>${input}${hint}${errorText}</div>`;
}

/**
 * @param {{label: string, name: string, value?: string, hint?: string, type?: string, required?: boolean,
 *   placeholder?: string, error?: () => string | undefined, oninput?: (value: string) => void, focus?: boolean,
 *   step?: string, list?: string, autocomplete?: string}} options
 */
export function textField(options) {
  const { name, type = "text", value = "", placeholder, required = false, focus = false } = options;
  const oninput = (/** @type {Event} */ event) =>
    options.oninput?.(/** @type {HTMLInputElement} */ (event.target).value);
  return field(options, ({ id, by }) =>
    html`
      <input
        id="${id}"
        aria-describedby=${options.hint ? by : null}
        name="${name}"
        type="${type}"
        .value=${value}
        placeholder=${placeholder}
        step=${options.step}
        list=${options.list}
        ?required=${required}
        ?autofocus=${focus}
        autocomplete="${options.autocomplete ?? (type === "password" ? "new-password" : "off")}"
        spellcheck="false"
        @input=${oninput}
      >
    `);
}

/**
 * @param {{label: string, name: string, value: string, choices: [string, string][], hint?: string,
 *   onchange?: (value: string) => void}} options
 */
export function selectField(options) {
  const onchange = (/** @type {Event} */ event) =>
    options.onchange?.(/** @type {HTMLSelectElement} */ (event.target).value);
  const choices = options.choices.map(([value, label]) =>
    html`<option value="${value}" ?selected=${value === options.value}>${label}</option>`
  );
  return field(options, ({ id, by }) =>
    html`
      <select id="${id}" aria-describedby=${options.hint ? by : null} name="${options.name}" @change=${onchange}>
        ${choices}
      </select>
    `);
}

/**
 * @param {{label: string, name: string, checked: boolean, hint?: string, error?: () => string | undefined}} options
 */
export function checkboxField(options) {
  const { name, checked, hint } = options;
  return field({ ...options, row: true }, ({ id, by }) =>
    html`
      <input id="${id}" aria-describedby=${hint ? by : null} name="${name}" type="checkbox" ?checked=${checked}>
    `);
}

/**
 * @param {{label: string, name: string, hint?: string, error?: () => string | undefined}} options
 * @param {string} [value]
 */
export const linesField = (options, value = "") =>
  field(options, ({ id, by }) =>
    html`
      <textarea
        id="${id}"
        aria-describedby="${by}"
        name="${options.name}"
        rows="2"
        class="list"
        autocomplete="off"
        spellcheck="false"
        .value=${value}
      ></textarea>
    `);

/** @param {any} schema The schema of an optional value, without its null alternative. */
const withoutNull = (schema) => ({
  ...schema,
  ...(schema.anyOf?.find((/** @type {any} */ option) => option.type !== "null") ?? {}),
});

/**
 * The fields of a JSON schema of type object.
 * @param {any} schema @param {string} prefix the path of the object @param {Record<string, any>} values
 * @param {Errors} errors
 * @param {{keep?: boolean}} [options] `keep`: secrets are stored already, and stay when their fields are left empty
 */
export function schemaFields(schema, prefix, values, errors, options = {}) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([key, definition]) => {
    const property = withoutNull(definition);
    const name = `${prefix}.${key}`;
    const value = values[key] ?? property.default;
    const common = {
      name,
      label: t(labelFor(key)),
      hint: property.description ? t(property.description.replaceAll("`", "")) : undefined,
      error: () => errors.value[name],
    };
    if (property.type === "boolean") return checkboxField({ ...common, hint: undefined, checked: Boolean(value) });
    if (property.enum) {
      const choices = property.enum.map((/** @type {string} */ word) => [word, word]);
      return selectField({ ...common, value: value ?? "", choices: [["", t("Detect from the URL")], ...choices] });
    }
    if (property.type === "array") return linesField(common, (value ?? []).join("\n"));
    // Keys with several lines; a password field would join them.
    if (property.writeOnly && /^(private|serviceAccount)Key$/.test(key)) return linesField(common);
    return textField({
      ...common,
      type: property.writeOnly ? "password" : property.type === "integer" ? "number" : "text",
      value: property.writeOnly ? "" : String(value ?? ""),
      placeholder: property.writeOnly && options.keep ? t("Leave empty to keep the current value") : undefined,
      required: required.has(key) && !(property.writeOnly && options.keep),
    });
  });
}

/**
 * @param {any} schema @param {string} prefix @param {HTMLFormElement} form
 * @returns {Record<string, any>} the values of the form
 */
export function schemaValues(schema, prefix, form) {
  /** @type {Record<string, any>} */ const values = {};
  for (const [key, definition] of Object.entries(schema.properties ?? {})) {
    const property = withoutNull(definition);
    const input = /** @type {any} */ (form.elements.namedItem(`${prefix}.${key}`));
    if (!input) continue;
    if (property.type === "boolean") values[key] = input.checked;
    else if (property.type === "array") {
      values[key] = input.value.split("\n").map((/** @type {string} */ line) => line.trim()).filter(Boolean);
    } else if (input.value !== "") {
      const text = property.writeOnly ? input.value.trim() : input.value;
      values[key] = property.type === "integer" ? Number(text) : text;
    }
  }
  return values;
}

export const noErrors = () => signal(/** @type {Record<string, string>} */ ({}));
