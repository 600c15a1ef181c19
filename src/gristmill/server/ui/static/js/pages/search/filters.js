// @ts-check
/** The filters of a search over several bases. Each change goes into the URL. */

import { api } from "../../api.js";
import { bases } from "../../bases.js";
import { computed, each, effect, html, signal } from "../../core.js";
import { formatNumber, t } from "../../i18n.js";
import { button, iconButton } from "../../components/button.js";
import { itemIcon } from "../../components/icon.js";
import { countFilters, MAX_BASES, NO_FILTERS, OPERATORS } from "../../search/criteria.js";

/** @import { Computed } from "../../core.js" */
/** @import { Condition, Criteria, Operator } from "../../search/criteria.js" */
/** @typedef {(changes: Partial<Criteria>) => void} Change */
/** @typedef {{id: string, title: string, type: string, baseId: string}} Container */

const TYPES = { file: "Files", url: "Web pages", note: "Notes", record: "Records" };
const CONTAINERS = ["connector", "directory", "sitemap", "site"];
const MAX_LISTED = 8; // bases whose sources are listed
const MAX_SOURCES = 100; // of each kind, in a base
/** @type {Record<Operator, string>} */
const OPERATOR_NAMES = {
  eq: "is",
  ne: "is not",
  in: "is one of",
  nin: "is none of",
  gt: ">",
  gte: "≥",
  lt: "<",
  lte: "≤",
};

/** @param {string[]} list @param {string} value @returns {string[]} with the value, or without it if it was there */
const toggled = (list, value) => list.includes(value) ? list.filter((other) => other !== value) : [...list, value];

/** @param {string} title @param {unknown} content */
const group = (title, content) => html`<fieldset><legend>${title}</legend>${content}</fieldset>`;

/** @param {unknown} label @param {() => boolean} isChecked @param {() => void} onchange */
const check = (label, isChecked, onchange) =>
  html`<label class="tick"><input type="checkbox" .checked=${isChecked} @change=${onchange}>${label}</label>`;

/** @param {Computed<Criteria>} criteria @param {Change} change */
export function filterPanel(criteria, change) {
  const clear = () => change(NO_FILTERS);
  const clearButton = () =>
    countFilters(criteria.value) ? button(t("Clear filters"), clear, { small: true, kind: "quiet" }) : null;
  const otherNote = () =>
    Object.keys(criteria.value.other).length
      ? html`<p class="dim small-text">${t("This search has further conditions, which can't be shown here.")}</p>`
      : null;
  return html`
    <div class="filter-head"><h2>${t("Filters")}</h2>${clearButton}</div>
    ${group(t("Bases"), baseChoices(criteria, change))}
    ${group(t("Type"), typeChoices(criteria, change))}
    ${sourceChoices(criteria, change)}
    ${group(t("Changed"), dateFields(criteria, change))}
    ${group(t("Lowest score"), scoreField(criteria, change))}
    ${group(t("Tags"), tagField(criteria, change))}
    <details ?open=${criteria.peek().conditions.length > 0}>
      <summary>${t("Metadata")}</summary>
      ${conditionFields(criteria, change)}
    </details>
    ${otherNote}
  `;
}

/** @param {Computed<Criteria>} criteria @param {Change} change */
function baseChoices(criteria, change) {
  const row = (/** @type {{value: import("../../bases.js").Base, peek(): any}} */ base) =>
    check(
      html`<span class="cut">${() => base.value.name}</span>`,
      () => criteria.value.bases.includes(base.value.id),
      () => change({ bases: toggled(criteria.peek().bases, base.peek().id), parents: [] }),
    );
  const hint = () => {
    if (criteria.value.bases.length) return null;
    const isLimited = (bases.value?.length ?? 0) > MAX_BASES;
    const text = isLimited ? t("The first {n} are searched.", { n: MAX_BASES }) : t("All are searched.");
    return html`<p class="dim small-text">${text}</p>`;
  };
  return html`<div class="choice-list">${each(() => bases.value ?? [], (base) => base.id, row)}</div>${hint}`;
}

/** @param {Computed<Criteria>} criteria @param {Change} change */
function typeChoices(criteria, change) {
  return Object.entries(TYPES).map(([id, label]) =>
    check(
      t(label),
      () => criteria.value.types.includes(id),
      () => change({ types: toggled(criteria.peek().types, id) }),
    )
  );
}

/**
 * Folders, sitemaps and connectors of the chosen bases, fetched when the list is opened.
 * @param {Computed<Criteria>} criteria @param {Change} change
 */
function sourceChoices(criteria, change) {
  const containers = signal(/** @type {Container[] | null} */ (null));
  const isOpen = signal(criteria.peek().parents.length > 0);
  const all = computed(() =>
    criteria.value.bases.length ? criteria.value.bases : (bases.value ?? []).map((base) => base.id)
  );
  const searched = computed(() => (isOpen.value ? all.value.slice(0, MAX_LISTED).join(",") : ""));
  const hasMore = signal(false); // a base has more sources than are listed
  effect(
    () => searched.value,
    (ids) => {
      let isOutdated = false;
      const load = (/** @type {string} */ id) =>
        CONTAINERS.map((type) =>
          api.get(`/knowledge-bases/${id}/items`, { type, limit: MAX_SOURCES }).catch(() => ({ items: [] }))
        );
      Promise.all(ids.split(",").filter(Boolean).flatMap(load)).then((lists) => {
        if (isOutdated || !ids) return;
        containers.value = lists.flatMap((list) => list.items);
        hasMore.value = lists.some((list) => list.nextCursor);
      });
      return () => {
        isOutdated = true;
      };
    },
  );
  const row = (/** @type {{value: Container, peek(): Container}} */ container) =>
    check(
      html`${itemIcon(container.peek().type)}<span class="cut">${() => container.value.title}</span>`,
      () => criteria.value.parents.includes(container.value.id),
      () => change({ parents: toggled(criteria.peek().parents, container.peek().id) }),
    );
  const nothing = () =>
    containers.value?.length === 0
      ? html`<p class="dim small-text">${t("There are no folders, sitemaps or connectors.")}</p>`
      : null;
  const notes = () =>
    [
      all.value.length > MAX_LISTED
        ? t("These are the sources of the first {n} bases. Choose bases above to see those of others.", {
          n: MAX_LISTED,
        })
        : "",
      hasMore.value ? t("Of each kind, the first {n} of a base are listed.", { n: MAX_SOURCES }) : "",
    ].filter(Boolean).map((text) => html`<p class="dim small-text">${text}</p>`);
  const ontoggle = (/** @type {Event} */ event) => {
    isOpen.value = /** @type {HTMLDetailsElement} */ (event.target).open;
  };
  return html`
    <details ?open=${isOpen.peek()} @toggle=${ontoggle}>
      <summary>${t("Source")}</summary>
      <div class="choice-list">${each(() => containers.value ?? [], (container) => container.id, row)}</div>
      ${nothing}${notes}
    </details>
  `;
}

/** @param {Computed<Criteria>} criteria @param {Change} change */
function dateFields(criteria, change) {
  const dateField = (/** @type {string} */ label, /** @type {"after" | "before"} */ name) => {
    const onchange = (/** @type {Event} */ event) =>
      change({ [name]: /** @type {HTMLInputElement} */ (event.target).value });
    return html`
      <label class="inline"><span>${label}</span>
        <input class="input" type="date" .value=${() => criteria.value[name]} @change=${onchange}>
      </label>
    `;
  };
  return [dateField(t("From"), "after"), dateField(t("To"), "before")];
}

/** @param {Computed<Criteria>} criteria @param {Change} change */
function scoreField(criteria, change) {
  const onchange = (/** @type {Event} */ event) =>
    change({ minScore: Number(/** @type {HTMLInputElement} */ (event.target).value) });
  const word = () => {
    const { minScore } = criteria.value;
    if (minScore === null) return t("as each base says");
    return minScore === 0 ? t("everything") : t("{score} or more", { score: minScore.toFixed(2) });
  };
  return html`
    <label class="score">
      <input
        type="range"
        min="0"
        max="1"
        step="0.05"
        aria-label="${t("Lowest score")}"
        aria-valuetext="${word}"
        .value=${() => String(criteria.value.minScore ?? 0)}
        @change=${onchange}
      >
      <span class="dim small-text">${word}</span>
    </label>
  `;
}

/** @param {Computed<Criteria>} criteria @param {Change} change */
function tagField(criteria, change) {
  const onchange = (/** @type {Event} */ event) => {
    const { value } = /** @type {HTMLInputElement} */ (event.target);
    change({ tags: value.split(/[,，]/).map((tag) => tag.trim()).filter(Boolean) });
  };
  return html`
    <input
      class="input"
      aria-label="${t("Tags")}"
      placeholder="${t("draft, 2026")}"
      .value=${() => criteria.value.tags.join(", ")}
      @change=${onchange}
    >
  `;
}

/** @param {Computed<Criteria>} criteria @param {Change} change */
function conditionFields(criteria, change) {
  const update = (/** @type {number} */ index, /** @type {Partial<Condition>} */ changes) =>
    change({
      conditions: criteria.peek().conditions.map((condition, i) =>
        i === index ? { ...condition, ...changes } : condition
      ),
    });
  const remove = (/** @type {number} */ index) =>
    change({ conditions: criteria.peek().conditions.filter((_, i) => i !== index) });
  const add = () => change({ conditions: [...criteria.peek().conditions, { key: "", op: "eq", value: "" }] });
  const rows = computed(() => criteria.value.conditions.length);
  const list = () => Array.from({ length: rows.value }, (_, index) => conditionRow(criteria, index, update, remove));
  return html`${list}${button(t("Add condition"), add, { icon: "plus", small: true, kind: "quiet" })}`;
}

/**
 * @param {Computed<Criteria>} criteria @param {number} index
 * @param {(index: number, changes: Partial<Condition>) => void} update @param {(index: number) => void} remove
 */
function conditionRow(criteria, index, update, remove) {
  const n = formatNumber(index + 1);
  const condition = () => criteria.value.conditions[index] ?? { key: "", op: "eq", value: "" };
  const onchange = (/** @type {keyof Condition} */ name) => (/** @type {Event} */ event) =>
    update(index, { [name]: /** @type {HTMLInputElement} */ (event.target).value });
  const operators = OPERATORS.map((id) =>
    html`<option value="${id}" ?selected=${id === condition().op}>${t(OPERATOR_NAMES[id])}</option>`
  );
  return html`
    <div class="condition" role="group" aria-label="${t("Condition {n}", { n })}">
      <input
        class="input"
        aria-label="${t("Name of the entry")}"
        placeholder="${t("Name")}"
        .value=${() => condition().key}
        @change=${onchange("key")}
      >
      ${iconButton(t("Remove condition {n}", { n }), "close", () => remove(index))}
      <select class="input" aria-label="${t("Comparison")}" .value=${() => condition().op} @change=${onchange("op")}>
        ${operators}
      </select>
      <input
        class="input"
        aria-label="${t("Value")}"
        placeholder="${t("Value")}"
        .value=${() => condition().value}
        @change=${onchange("value")}
      >
    </div>
  `;
}
