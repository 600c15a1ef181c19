// @ts-check
/**
 * What a search page searches for, in its three forms: the query of the URL, the fields of the page, and the body of a
 * request. Pure functions; a way there and back loses nothing.
 *
 * Values of metadata are typed as text. Whether an item has them as text, number or boolean is not known, so that a
 * condition asks for all readings.
 */

/** @typedef {"eq" | "ne" | "in" | "nin" | "gt" | "gte" | "lt" | "lte"} Operator */
/** @typedef {{key: string, op: Operator, value: string}} Condition */
/**
 * @typedef {{text: string, mode: string, bases: string[], types: string[], parents: string[], after: string,
 *   before: string, tags: string[], conditions: Condition[], minScore: number | null, other: Record<string, any>}}
 *   Criteria `after` and `before` are days; `other` has filters that the page has no field for.
 */

export const MAX_BASES = 100; // that a search covers, as the server says; without a choice, the first ones
export const OPERATORS = /** @type {const} */ (["eq", "ne", "in", "nin", "gt", "gte", "lt", "lte"]);
/** @type {Partial<Criteria>} */
export const NO_FILTERS = {
  ...{ bases: [], types: [], parents: [], tags: [], conditions: [], other: {} },
  ...{ after: "", before: "", minScore: null },
};
const NAMES = ["q", "mode", "bases", "types", "in", "after", "before", "tags", "where", "min", "filters"];
const MEMBERS = { eq: "in", in: "in", ne: "nin", nin: "nin" };

/** @param {string} text @returns {any} */
function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** @param {string | null} text @returns {string[]} */
const splitList = (text) => (text ?? "").split(",").map((part) => part.trim()).filter(Boolean);

/** @param {URLSearchParams} query @returns {Criteria} */
export function fromQuery(query) {
  const where = parseJson(query.get("where") ?? "[]");
  const conditions = (Array.isArray(where) ? where : [])
    .filter((part) => Array.isArray(part) && OPERATORS.includes(part[1]))
    .map(([key, op, value]) => ({ key: String(key), op, value: String(value) }));
  const min = Number.parseFloat(query.get("min") ?? "");
  const other = parseJson(query.get("filters") ?? "{}");
  return {
    text: query.get("q") ?? "",
    mode: query.get("mode") ?? "hybrid",
    bases: splitList(query.get("bases")),
    types: splitList(query.get("types")),
    parents: splitList(query.get("in")),
    after: query.get("after") ?? "",
    before: query.get("before") ?? "",
    tags: splitList(query.get("tags")),
    conditions,
    minScore: Number.isNaN(min) ? null : Math.min(1, Math.max(0, min)),
    other: other && typeof other === "object" ? other : {},
  };
}

/** @param {Criteria} criteria @returns {Record<string, string | null>} each parameter; null for one that is left out */
export function toQuery(criteria) {
  const where = criteria.conditions.map(({ key, op, value }) => [key, op, value]);
  const values = [
    criteria.text,
    criteria.mode === "hybrid" ? null : criteria.mode,
    criteria.bases.join(","),
    criteria.types.join(","),
    criteria.parents.join(","),
    criteria.after,
    criteria.before,
    criteria.tags.join(","),
    where.length ? JSON.stringify(where) : null,
    criteria.minScore === null ? null : String(criteria.minScore),
    Object.keys(criteria.other).length ? JSON.stringify(criteria.other) : null,
  ];
  return Object.fromEntries(NAMES.map((name, i) => [name, values[i] || null]));
}

/** @param {Criteria} criteria The address of the page that searches for this. */
export function toUrl(criteria) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(toQuery(criteria))) if (value !== null) query.set(name, value);
  return `/search${query.size ? `?${query}` : ""}`;
}

/** @param {string} text @returns {(string | number | boolean)[]} the text, and what it reads as */
function readings(text) {
  if (/^-?\d{1,15}(\.\d+)?$/.test(text)) return [text, Number(text)];
  return text === "true" || text === "false" ? [text, text === "true"] : [text];
}

/** @param {Condition} condition @returns {any} */
function toFilter({ key, op, value }) {
  const text = value.trim();
  if (op === "eq" || op === "ne" || op === "in" || op === "nin") {
    const texts = op === "in" || op === "nin" ? splitList(text) : [text];
    return { op: MEMBERS[op], key, value: texts.flatMap(readings) };
  }
  const choices = readings(text).filter((reading) => typeof reading !== "boolean");
  const comparisons = choices.map((reading) => ({ op, key, value: reading }));
  return comparisons.length === 1 ? comparisons[0] : { or: comparisons };
}

/** @param {any} filter @returns {Condition | null} null for one that the page has no field for */
function toCondition(filter) {
  const first = filter.or?.[0] ?? filter;
  const { key, op, value } = first;
  if (typeof key !== "string" || !OPERATORS.includes(op)) return null;
  const texts = [...new Set((Array.isArray(value) ? value : [value]).map(String))];
  const isSingle = texts.length === 1;
  const name = Array.isArray(value) && isSingle ? (op === "in" ? "eq" : op === "nin" ? "ne" : op) : op;
  const condition = { key, op: name, value: texts.join(", ") };
  const isSame = JSON.stringify(toFilter(condition)) === JSON.stringify(filter);
  return isSame || (!filter.or && (op === "eq" || op === "ne")) ? condition : null;
}

/** @param {string} day @param {number} offset @returns {string} the start of the day in the browser's time zone */
function startOf(day, offset = 0) {
  const [year, month, date] = day.split("-").map(Number);
  return new Date(year, month - 1, date + offset).toISOString();
}

/** @param {string | undefined} moment @param {number} offset @returns {string} its day, `offset` milliseconds later */
function dayOf(moment, offset = 0) {
  if (!moment) return "";
  const at = new Date(new Date(moment).getTime() + offset);
  const pad = (/** @type {number} */ n) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
}

const isDay = (/** @type {string} */ text) => /^\d{4}-\d\d-\d\d$/.test(text);

/** @param {Criteria} criteria @returns {Record<string, any>} the filters of a request; empty if there are none */
function toFilters(criteria) {
  const conditions = criteria.conditions.filter(({ key, value }) => key.trim() && value.trim()).map(toFilter);
  const { other } = criteria;
  const all = [...conditions, ...(other.and ?? [])];
  return {
    ...other,
    ...(criteria.types.length ? { types: criteria.types } : {}),
    ...(criteria.parents.length ? { parentIds: criteria.parents } : {}),
    ...(criteria.tags.length ? { metadata: { ...other.metadata, tags: criteria.tags } } : {}),
    ...(isDay(criteria.after) ? { updatedAfter: startOf(criteria.after) } : {}),
    ...(isDay(criteria.before) ? { updatedBefore: startOf(criteria.before, 1) } : {}),
    ...(all.length ? { and: all } : {}),
  };
}

/** @param {Criteria} criteria @returns {Record<string, any>} the body of a search, without how it is shown */
export function toRequest(criteria) {
  const filters = toFilters(criteria);
  return {
    query: criteria.text,
    ...(criteria.mode === "hybrid" ? {} : { mode: criteria.mode }),
    ...(criteria.bases.length ? { baseIds: criteria.bases } : {}),
    ...(Object.keys(filters).length ? { filters } : {}),
    ...(criteria.minScore === null ? {} : { minScore: criteria.minScore }),
  };
}

/** @param {Record<string, any>} request the body of a search @returns {Criteria} */
export function fromRequest(request) {
  const { types, parentIds, updatedAfter, updatedBefore, metadata, and, ...rest } = request.filters ?? {};
  const { tags, ...entries } = metadata ?? {};
  const areTags = Array.isArray(tags) && tags.every((tag) => typeof tag === "string" && !tag.includes(","));
  const conditions = (and ?? []).map((/** @type {any} */ part) => [part, toCondition(part)]);
  const others = conditions.filter((/** @type {any} */ [, condition]) => !condition);
  const otherMetadata = areTags ? entries : (metadata ?? {});
  return {
    text: request.query ?? "",
    mode: request.mode ?? "hybrid",
    bases: request.baseIds ?? [],
    types: types ?? [],
    parents: parentIds ?? [],
    after: dayOf(updatedAfter),
    before: dayOf(updatedBefore, -1),
    tags: areTags ? tags : [],
    conditions: conditions.flatMap((/** @type {any} */ [, condition]) => condition ?? []),
    minScore: request.minScore ?? null,
    other: {
      ...rest,
      ...(Object.keys(otherMetadata).length ? { metadata: otherMetadata } : {}),
      ...(others.length ? { and: others.map((/** @type {any} */ [part]) => part) } : {}),
    },
  };
}

/** @param {Criteria} criteria How many kinds of filters are set. */
export function countFilters(criteria) {
  const { bases, types, parents, after, before, tags, conditions, minScore, other } = criteria;
  const lists = [bases, types, parents, tags, conditions].filter((list) => list.length).length;
  return lists + Number(Boolean(after || before)) + Number(minScore !== null) + Number(Object.keys(other).length > 0);
}
