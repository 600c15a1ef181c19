// @ts-check
/** Who can see the documents of a connector: the field of its form, and the words of its pane. */

import { api, fetchAll } from "../api.js";
import { html, signal } from "../core.js";
import { t } from "../i18n.js";
import { linesField, selectField } from "../components/form.js";

/** @import { Errors } from "../components/form.js" */
/** @import { Connector } from "./connectors.js" */
/** @import { Kind } from "./connector-kinds.js" */

/** @typedef {"tool" | "everyone" | "certain"} Choice */
/** @typedef {Map<string, string>} Names entries of an access list, by how they are shown */

const EVERYONE = "org:*";
const ENTRY = /^(org|team|group|user|user_email|tool_group):/;

/**
 * People by their addresses and groups by their names, where they have some; other entries, and those of a name that
 * another has, by themselves.
 * @param {string[]} acl @returns {Promise<Names>}
 */
export async function nameEntries(acl) {
  const shown = await Promise.all(acl.map(nameOf));
  /** @type {Names} */ const known = new Map();
  acl.forEach((entry, i) => known.set(known.has(shown[i]) ? entry : shown[i], entry));
  return known;
}

/** @type {Map<string, Promise<string>>} */ const names = new Map();

/** @param {string} entry @returns {Promise<string>} the same for as long as the page is open */
function nameOf(entry) {
  const name = names.get(entry) ?? findName(entry);
  names.set(entry, name);
  return name;
}

/** @param {string} entry @returns {Promise<string>} */
async function findName(entry) {
  const [type, id] = [entry.split(":", 1)[0], entry.slice(entry.indexOf(":") + 1)];
  if (type === "user_email") return id;
  try {
    if (type === "user") return (await api.get(`/users/${encodeURIComponent(id)}`)).email;
    if (type === "group") return (await api.get(`/groups/${encodeURIComponent(id)}`)).name;
  } catch {
    // It was deleted, or only clients know it.
  }
  return entry;
}

/**
 * The entry of what someone typed; raises an error of the form if no group has that name.
 * @param {string} text @param {Names} known
 */
async function entryOf(text, known) {
  const entry = known.get(text) ?? (ENTRY.test(text) ? text : text.includes("@") ? `user_email:${text}` : null);
  if (entry) return entry;
  const groups = await fetchAll("/groups", { q: text });
  const group = groups.find((each) => each.name.toLowerCase() === text.toLowerCase());
  if (group) return `group:${group.id}`;
  throw Object.assign(new Error(), {
    errors: [{ field: "acl", message: t("There is no group named {name}.", { name: text }) }],
  });
}

/** @param {string[] | null} acl @param {Kind | undefined} kind @returns {Choice} */
function choiceOf(acl, kind) {
  if (acl === null) return kind && !kind.hasPermissions ? "everyone" : "tool";
  return acl.length === 1 && acl[0] === EVERYONE ? "everyone" : "certain";
}

/**
 * A tool without permissions is for everyone, unless someone chose certain people.
 * @param {Choice | null} chosen @param {Kind} kind
 */
const validChoice = (chosen, kind) =>
  (chosen === "tool" && !kind.hasPermissions ? null : chosen) ?? choiceOf(null, kind);

/**
 * @param {() => Kind} kind @param {string[] | null} acl @param {Names} known its entries @param {Errors} errors
 * @returns {{view: Node, change: (form: HTMLFormElement) => Promise<{acl?: string[] | null}>}} `change` is what of the
 *   connector to change: nothing, or its access list
 */
export function accessField(kind, acl, known, errors) {
  const chosen = signal(/** @type {Choice | null} */ (acl === null ? null : choiceOf(acl, undefined)));
  const choice = () => validChoice(chosen.value, kind());
  const change = async (/** @type {HTMLFormElement} */ form) => {
    if (choice() === choiceOf(acl, kind()) && choice() !== "certain") return {};
    if (choice() !== "certain") return { acl: choice() === "everyone" && kind().hasPermissions ? [EVERYONE] : null };
    const lines = String(new FormData(form).get("acl")).split("\n").map((line) => line.trim()).filter(Boolean);
    const entries = await Promise.all(lines.map((line) => entryOf(line, known)));
    return JSON.stringify(entries) === JSON.stringify(acl) ? {} : { acl: [...new Set(entries)] };
  };
  const error = () => Object.entries(errors.value).find(([name]) => /^acl(\.|$)/.test(name))?.[1];
  const people = linesField({
    label: t("People and groups"),
    name: "acl",
    hint: t("Email addresses and names of groups, one per line. Only admins see the documents if there are none."),
    error,
  }, choiceOf(acl, undefined) === "certain" ? [...known.keys()].join("\n") : "");
  const view = html`
    ${() => choiceField(kind(), validChoice(chosen.peek(), kind()), (value) => (chosen.value = value))}
    <div ?hidden=${() => choice() !== "certain"}>${people}</div>
  `;
  return { view, change };
}

/** @param {Kind} kind @param {Choice} value @param {(value: Choice) => void} onchange */
function choiceField(kind, value, onchange) {
  const choices = /** @type {[Choice, string][]} */ ([
    ...(kind.hasPermissions ? [["tool", t("Whoever can see it in the tool")]] : []),
    ["everyone", t("Everyone in the organisation")],
    ["certain", t("Certain people and groups")],
  ]);
  return selectField({
    label: t("Who can see it"),
    name: "access",
    value,
    choices,
    hint: kind.hasPermissions ? undefined : t("This tool has no permissions that could be followed."),
    onchange: (choice) => onchange(/** @type {Choice} */ (choice)),
  });
}

/**
 * Who can see the documents of a connector, in words.
 * @param {Connector} connector @param {Kind | undefined} kind
 * @param {() => Node | string} asOf when the tool was last asked
 */
export function accessInWords({ acl }, kind, asOf) {
  const choice = choiceOf(acl, kind);
  if (choice === "tool") return html`${t("Whoever can see it in the tool")} · ${asOf}`;
  if (choice === "everyone") return t("Everyone in the organisation");
  const words = signal(acl?.length ? "…" : t("Only admins"));
  if (acl?.length) {
    nameEntries(acl.slice(0, 3)).then((named) => {
      words.value = [...named.keys()].join(", ") + (acl.length > 3 ? ` +${acl.length - 3}` : "");
    });
  }
  return html`${() => words.value}`;
}
