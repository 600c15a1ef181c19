// @ts-check
/** The audit log: who changed what, and what was refused; with filters, page by page, and as a file of CSV. */

import { api, fetchAll } from "../../api.js";
import { button } from "../../components/button.js";
import { emptyState, errorBanner, relativeTime } from "../../components/status.js";
import { showError } from "../../components/toast.js";
import { effect, html, signal } from "../../core.js";
import { t } from "../../i18n.js";
import { query, setQuery } from "../../router.js";

/**
 * @typedef {{id: string, at: string, actor: string, role: string, method: string, path: string, client: string | null,
 *   status: number | null, tookMs: number | null}} AuditEntry
 */

const PAGE = 100;
const MAX_EXPORTED = 100_000;
const TYPING_DELAY = 250;
const COLUMNS = /** @type {(keyof AuditEntry)[]} */ ([
  "at",
  "actor",
  "role",
  "method",
  "path",
  "status",
  "tookMs",
  "client",
]);

const filters = () => ({
  actor: query.value.get("actor"),
  path: query.value.get("path"),
  method: query.value.get("method"),
  action: query.value.get("action"),
  failed: query.value.get("failed"),
  since: timeOf(query.value.get("since"), 0),
  until: timeOf(query.value.get("until"), 1),
});

/** @param {string | null} day @param {number} later The beginning of a day, or of one later, in the browser's zone. */
function timeOf(day, later) {
  const [year, month, date] = (day ?? "").split("-").map(Number);
  return day && date ? new Date(year, month - 1, date + later).toISOString() : null;
}

export function auditSection() {
  const entries = signal(/** @type {AuditEntry[] | null} */ (null));
  const cursor = signal(/** @type {string | null} */ (null));
  const error = signal(/** @type {Error | null} */ (null));
  let epoch = 0;
  const load = async (/** @type {boolean} */ isMore) => {
    const started = isMore ? epoch : ++epoch;
    try {
      const page = await api.get("/audit", { ...filters(), limit: PAGE, cursor: isMore ? cursor.peek() : null });
      if (started !== epoch) return;
      entries.value = isMore ? [...(entries.peek() ?? []), ...page.items] : page.items;
      cursor.value = page.nextCursor;
      error.value = null;
    } catch (failure) {
      error.value = /** @type {Error} */ (failure);
    }
  };
  effect(() => JSON.stringify(filters()), () => void load(false));
  const rows = () => (entries.value ?? []).map(auditRow);
  const isFiltered = () => Object.values(filters()).some(Boolean);
  const empty = () => {
    if (entries.value?.length !== 0) return null;
    return isFiltered()
      ? emptyState("search", t("No matches"), t("No request matches this filter."))
      : emptyState("key", t("Nothing here yet"), t("Requests that change something appear here."));
  };
  const more = () =>
    cursor.value
      ? html`<div class="list-footer">${button(t("Load more"), () => load(true), { small: true })}</div>`
      : null;
  return html`
    ${filterBar()}${() => errorBanner(error.value)}
    <div class="rows" role="list" aria-label="${t("Audit log")}">${rows}</div>
    ${empty}${more}
  `;
}

function filterBar() {
  /** @type {ReturnType<typeof setTimeout>} */ let timer;
  const field = (/** @type {string} */ name, /** @type {string} */ label) => {
    const oninput = (/** @type {Event} */ event) => {
      clearTimeout(timer);
      const { value } = /** @type {HTMLInputElement} */ (event.target);
      timer = setTimeout(() => setQuery({ [name]: value.trim() }), TYPING_DELAY);
    };
    const value = query.peek().get(name) ?? "";
    return html`<input type="search" aria-label="${label}" placeholder="${label}" .value=${value} @input=${oninput}>`;
  };
  const words = {
    "": t("Any action"),
    change: t("Changes"),
    export: t("Exports"),
    read: t("Reads"),
    sign_in: t("Sign-ins"),
  };
  const actions = Object.entries(words).map(([action, word]) =>
    html`<option value="${action}" ?selected=${query.peek().get("action") === action}>${word}</option>`
  );
  const onaction = (/** @type {Event} */ event) =>
    setQuery({ action: /** @type {HTMLSelectElement} */ (event.target).value });
  const methods = ["", "POST", "PATCH", "PUT", "DELETE"].map((method) =>
    html`<option value="${method}" ?selected=${query.peek().get("method") === method}>${
      method || t("Any method")
    }</option>`
  );
  const onmethod = (/** @type {Event} */ event) =>
    setQuery({ method: /** @type {HTMLSelectElement} */ (event.target).value });
  const onfailed = (/** @type {Event} */ event) =>
    setQuery({ failed: /** @type {HTMLInputElement} */ (event.target).checked ? "true" : null });
  const dayField = (/** @type {string} */ name, /** @type {string} */ label) => {
    const onchange = (/** @type {Event} */ event) =>
      setQuery({ [name]: /** @type {HTMLInputElement} */ (event.target).value || null });
    const value = query.peek().get(name) ?? "";
    return html`<input type="date" aria-label="${label}" title="${label}" .value=${value} @change=${onchange}>`;
  };
  return html`
    <div class="audit-bar">
      ${field("actor", t("Who"))}${field("path", t("Path"))}
      ${dayField("since", t("From day"))}${dayField("until", t("To day"))}
      <select aria-label="${t("Action")}" @change=${onaction}>${actions}</select>
      <select aria-label="${t("Method")}" @change=${onmethod}>${methods}</select>
      <label class="tick">
        <input type="checkbox" ?checked=${query.peek().get("failed") === "true"} @change=${onfailed}>
        <span>${t("Refused only")}</span>
      </label>
      ${button(t("Download CSV"), download, { icon: "download", small: true })}
    </div>
  `;
}

/** @param {AuditEntry} entry */
function auditRow(entry) {
  const isRefused = entry.status !== null && entry.status >= 400;
  const outcome = entry.status === null ? t("no answer") : String(entry.status);
  return html`
    <div class="entry" role="listitem">
      <span class="grow two-line">
        <b class="cut"><code>${entry.method}</code> ${entry.path}</b>
        <span class="dim cut">${entry.actor} · ${entry.role} · ${entry.client ?? ""}</span>
      </span>
      <span class="${isRefused ? "bad" : ""}">${outcome}</span>
      <span class="right dim">${relativeTime(() => entry.at)}</span>
    </div>
  `;
}

/** @param {unknown} value A cell of CSV. One that a spreadsheet would take for a formula gets a quote in front. */
export function csvCell(value) {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

async function download() {
  try {
    const all = await fetchAll("/audit", filters(), MAX_EXPORTED);
    const lines = [COLUMNS.join(","), ...all.map((entry) => COLUMNS.map((name) => csvCell(entry[name])).join(","))];
    const url = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }));
    const link = Object.assign(document.createElement("a"), { href: url, download: "gristmill-audit.csv" });
    link.click();
    URL.revokeObjectURL(url);
  } catch (error) {
    showError(error);
  }
}
