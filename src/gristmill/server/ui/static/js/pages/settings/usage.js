// @ts-check
/** What was spent, by day, base and person, also as CSV; budgets and quotas, and a dialog that sets them. */

import { api } from "../../api.js";
import { bases } from "../../bases.js";
import { button, iconButton } from "../../components/button.js";
import { confirm, dialog } from "../../components/dialog.js";
import { fieldErrors, noErrors, selectField, textField } from "../../components/form.js";
import { bar, emptyState, errorBanner } from "../../components/status.js";
import { computed, each, html, signal } from "../../core.js";
import { formatCost, formatDay, formatNumber, t } from "../../i18n.js";
import { resource } from "../../resource.js";

/** @import { Signal } from "../../core.js" */
/** @import { Resource } from "../../resource.js" */
/**
 * @typedef {{day: string, baseName: string | null, caller: string, callerName: string | null, kind: string,
 *   model: string, texts: number, tokens: number, cost: number}} UsageRow
 * @typedef {{items: UsageRow[], totals: {texts: number, tokens: number, cost: number}}} Usage
 * @typedef {{id: string, baseName: string | null, kind: string, measure: string, period: string, amount: number,
 *   used: number, usedUp: boolean}} Limit
 */

const KINDS = /** @type {Record<string, string>} */ ({
  index: "indexing",
  image: "image texts",
  swap: "change of embedder",
  move: "move",
  vision: "image descriptions",
  chat: "answers",
  query: "searches",
});

export function usageSection() {
  /** @type {Resource<Usage>} */
  const usage = resource(() => api.get("/usage"), { every: () => 10_000 });
  /** @type {Resource<Limit[]>} */
  const limits = resource(async () => (await api.get("/limits")).items, { every: () => 10_000 });
  const openDialog = () => openLimitDialog(() => limits.refresh());
  // The amount that is used changes while something is indexed; what a limit is about does not.
  const limitRows = each(() => limits.value.value ?? [], (limit) => limit.id, (limit) => limitRow(limit, limits));
  const noLimits = () =>
    limits.value.value?.length === 0
      ? emptyState(
        "queue",
        t("No budgets and quotas"),
        t("A budget pauses indexing when it is used up. A quota refuses what would exceed it."),
      )
      : null;
  const rows = () => (usage.value.value?.items ?? []).map(usageRow);
  const empty = () =>
    usage.value.value?.items.length === 0
      ? emptyState("base", t("Nothing here yet"), t("What is embedded appears here with its cost."))
      : null;
  return html`
    ${() => errorBanner(usage.error.value ?? limits.error.value)}
    <div class="section">
      <h2>${t("Budgets and quotas")}</h2>
      ${button(t("Set a limit"), openDialog, { icon: "plus", small: true })}
    </div>
    <div class="rows first" role="list" aria-label="${t("Budgets and quotas")}">${limitRows}</div>
    ${noLimits}
    <div class="section">
      <h2>${t("Last 30 days")}</h2>
      <a class="button line small" href="/api/usage?format=csv" download>${t("Download CSV")}</a>
    </div>
    ${() => totals(usage.value.value)}
    <div class="rows first" role="list" aria-label="${t("Usage")}">${rows}</div>
    ${empty}
  `;
}

/** @param {Usage | null} usage */
function totals(usage) {
  if (!usage || !usage.items.length) return null;
  const facts = [
    [t("Embedded texts"), formatNumber(usage.totals.texts)],
    [t("Tokens"), formatNumber(usage.totals.tokens)],
    [t("Cost"), formatCost(usage.totals.cost)],
  ];
  const cells = facts.map(([name, value]) =>
    html`
      <div>
        <dt>${name}</dt>
        <dd>${value}</dd>
      </div>
    `
  );
  return html`<dl class="figures">${cells}</dl>`;
}

/** @param {UsageRow} row */
function usageRow(row) {
  const person = row.callerName ?? row.caller.replace(/^user_email:/, "");
  return html`
    <div class="entry" role="listitem">
      <span class="grow two-line">
        <b class="cut">${row.baseName ?? t("deleted base")} · ${t(KINDS[row.kind] ?? row.kind)}</b>
        <span class="dim cut">${formatDay(row.day)} · ${person} · ${row.model}</span>
      </span>
      <span class="dim right small-text hide-phone">${t("{n} texts", { n: row.texts })}<br>${t("{n} tokens", {
        n: row.tokens,
      })}</span>
      <span class="right">${formatCost(row.cost)}</span>
    </div>
  `;
}

/** @param {Signal<Limit>} row @param {Resource<Limit[]>} limits */
function limitRow(row, limits) {
  const limit = row.peek();
  const kind = limit.kind === "budget" ? t("Budget") : t("Quota");
  const name = `${kind} · ${limit.baseName ?? t("all bases")}`;
  const period = limit.kind === "quota" ? "" : limit.period === "month" ? t("a month") : t("in all");
  const format = limit.measure === "money" ? formatCost : formatNumber;
  const share = () => row.value.amount ? Math.min(100, (100 * row.value.used) / row.value.amount) : 100;
  const amount = () =>
    t("{used} of {amount} {measure}", {
      used: format(row.value.used),
      amount: format(row.value.amount),
      measure: t(limit.measure),
    });
  const remove = async () => {
    const isConfirmed = await confirm({
      title: t("Remove this limit?"),
      text: t("Items that wait for this budget continue."),
      action: t("Remove"),
    });
    if (!isConfirmed) return;
    const others = (limits.value.peek() ?? []).filter((other) => other.id !== limit.id);
    await limits.update(others, () => api.delete(`/limits/${limit.id}`));
  };
  return html`
    <div class="entry" role="listitem">
      <span class="grow two-line">
        <b class="cut">${name} ${() => (row.value.usedUp ? html`<span class="chip">${t("used up")}</span>` : null)}</b>
        <span class="dim cut">${amount} ${period}</span>
      </span>
      ${bar(share, () => (row.value.usedUp ? "failed" : "running"))}
      ${iconButton(t("Remove {name}", { name }), "trash", remove)}
    </div>
  `;
}

/** @param {() => void} onset */
function openLimitDialog(onset) {
  const errors = noErrors();
  const errorText = signal("");
  dialog(t("Set a limit"), (close) => {
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
      const [kind, measure, period] = String(data.get("what")).split(" ");
      const body = { kind, measure, period, amount: Number(data.get("amount")), baseId: data.get("base") || null };
      try {
        await api.post("/limits", body);
        onset();
        close();
      } catch (error) {
        errors.value = fieldErrors(error);
        errorText.value = Object.keys(errors.peek()).length ? "" : /** @type {Error} */ (error).message;
      }
    };
    // Made again only if a base comes, goes or is renamed: with every change of one, the choice would be lost.
    const baseNames = computed(() => JSON.stringify(namedBases()));
    let chosen = "";
    const baseField = () =>
      selectField({
        label: t("Base"),
        name: "base",
        value: chosen,
        choices: [["", t("all bases")], ...JSON.parse(baseNames.value)],
        onchange: (value) => (chosen = value),
      });
    return html`
      <form @submit=${submit}>
        <div class="dialog-body">
          ${selectField({ label: t("What"), name: "what", value: "budget money month", choices: limitChoices() })}
          ${textField({
            label: t("At most"),
            name: "amount",
            type: "number",
            step: "any",
            required: true,
            focus: true,
            error: () => errors.value.amount,
          })}
          ${baseField}
          ${() => (errorText.value ? html`<p class="error" role="alert">${errorText.value}</p>` : null)}
        </div>
        <footer>
          ${button(t("Cancel"), close, { kind: "quiet" })}
          <button type="submit" class="button primary">${t("Set")}</button>
        </footer>
      </form>
    `;
  });
}

/** @returns {[string, string][]} */
const limitChoices = () => [
  ["budget money month", t("Budget: money a month")],
  ["budget tokens month", t("Budget: tokens a month")],
  ["budget chunks month", t("Budget: chunks a month")],
  ["budget money total", t("Budget: money in all")],
  ["budget chunks total", t("Budget: chunks in all")],
  ["quota items total", t("Quota: items")],
  ["quota bytes total", t("Quota: bytes")],
  ["quota chunks total", t("Quota: chunks")],
];

/** @returns {[string, string][]} */
const namedBases = () => (bases.value ?? []).map(({ id, name }) => [id, name]);
