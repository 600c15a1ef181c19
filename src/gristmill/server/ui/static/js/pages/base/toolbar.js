// @ts-check
/** Above the tree: which items are shown, by status and by name; or, while some are selected, what to do with them. */

import { sum, total } from "../../bases.js";
import { html } from "../../core.js";
import { t } from "../../i18n.js";
import { button, iconButton } from "../../parts/button.js";
import { icon } from "../../parts/icon.js";
import { tabs } from "../../parts/tabs.js";
import { setQuery } from "../../router.js";

/** @type {Record<string, string[]>} */
export const STATUSES = { processing: ["reading", "embedding"], queued: ["preparing", "processing"], failed: ["failed"] };
const PAUSE = 250;

/**
 * @param {import("./summary.js").LiveBase} base @param {import("../../router.js").LiveRoute} route
 * @param {import("../../core.js").Signal<Set<string>>} selected
 * @param {{reindex(ids: string[]): void, remove(ids: string[]): void, retryAll(): void}} acts
 */
export function toolbar(base, route, selected, acts) {
  /** @type {ReturnType<typeof setTimeout>} */ let timer;
  const count = (/** @type {string} */ kind) => () => (base.value ? sum(base.value.leafCounts, STATUSES[kind]) : null);
  const choices = [
    { id: "", label: t("All"), count: () => (base.value ? total(base.value) : null) },
    { id: "processing", label: t("Processing"), count: count("processing") },
    { id: "queued", label: t("Queued"), count: count("queued") },
    { id: "failed", label: t("Failed"), count: count("failed") },
  ];
  const ids = () => [...selected.peek()];
  return html`<div class="toolbar">${() =>
    selected.value.size
      ? html`<div class="chosen"><b>${t("{n} selected", { n: selected.value.size })}</b>${button(t("Reindex"), () => acts.reindex(ids()), { icon: "retry", small: true })}${button(
          t("Delete"),
          () => acts.remove(ids()),
          { icon: "trash", small: true },
        )}${iconButton(t("Clear the selection"), "close", () => {
          selected.value = new Set();
        })}</div>`
      : tabs(
          t("Show"),
          choices,
          () => route.value.query.get("filter") ?? "",
          (kind) => setQuery({ filter: kind }, { push: true }),
        )}
    ${() => (route.value.query.get("filter") === "failed" && !selected.value.size && count("failed")() ? button(t("Try all again"), acts.retryAll, { icon: "retry", small: true }) : null)}<label class="find hide-phone">${icon("search")}<span class="sr">${t("Filter by name")}</span><input type="search" placeholder="${t("Filter")}" .value=${() => route.value.query.get("find") ?? ""} @input=${(
      /** @type {Event} */ event,
    ) => {
      clearTimeout(timer);
      const { value } = /** @type {HTMLInputElement} */ (event.target);
      timer = setTimeout(() => setQuery({ find: value.trim() }), PAUSE);
    }}></label></div>`;
}
