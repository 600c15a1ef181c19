// @ts-check
/** The pane of one item: its source and status, and its chunks, content, images and timeline. */

import { api } from "../../api.js";
import { computed, effect, html, signal } from "../../core.js";
import { errorMessage, formatBytes, formatDateTime, formatIsoTime, languageName, t } from "../../i18n.js";
import { live } from "../../live.js";
import { button, iconButton } from "../../components/button.js";
import { icon, itemIcon } from "../../components/icon.js";
import { lazy } from "../../components/lazy.js";
import { kebab } from "../../components/menu.js";
import { bar, emptyState, isContainer, relativeTime, status, statusOf } from "../../components/status.js";
import { tabs } from "../../components/tabs.js";
import { go, setQuery } from "../../router.js";
import { readerUrl } from "../../reader-link.js";
import { allows } from "../../session.js";
import { tagsOf } from "../../tree/row.js";
import { waitingText } from "../../tree/waiting.js";
import { warningsOf } from "../../tree/warnings.js";
import { chunksTab } from "./chunks.js";
import { checkNow, freshnessFacts, openExclusions } from "./freshness.js";

/** @import { Signal } from "../../core.js" */
/** @import { LiveRoute } from "../../router.js" */
/** @import { Item } from "../../tree/model.js" */

const REFRESH_INTERVAL = 3000; // milliseconds between two fetches of an unfinished item
/**
 * @typedef {{reindex(ids: string[]): void, remove(ids: string[]): void, rename(item: Item): void,
 *   move(ids: string[]): void, tag(ids: string[]): void, editNote(item: Item): void, filterByTag(tag: string): void,
 *   canChange(): boolean}} ItemActions
 */

/**
 * @param {string} base @param {string} id @param {LiveRoute} route @param {ItemActions} actions
 */
export function itemPane(base, id, route, actions) {
  const item = signal(/** @type {Item | null} */ (null));
  const errorText = signal("");
  const load = async () => {
    try {
      item.value = (await api.get(`/knowledge-bases/${base}/tree`, { ids: [id] })).items[0] ?? null;
      errorText.value = item.peek() ? "" : t("It may have been deleted.");
    } catch (error) {
      errorText.value = /** @type {Error} */ (error).message;
    }
  };
  effect(() => {
    load();
    return live.on({ base }, (changes) => {
      for (const change of changes) {
        if (change.type === "reload") load();
        else if (change.type === "item" && change.item.id === id) item.value = { ...item.peek(), ...change.item };
      }
    });
  });
  effect(() => {
    const interval = setInterval(() => {
      const isUnfinished = item.peek() && !["completed", "failed"].includes(item.peek()?.status ?? "");
      if (isUnfinished && !document.hidden) load(); // the stream does not say why it waits
    }, REFRESH_INTERVAL);
    return () => clearInterval(interval);
  });
  const back = () => {
    const query = new URLSearchParams(location.search);
    query.delete("chunk");
    query.delete("tab");
    go(`/b/${base}${query.size ? `?${query}` : ""}`);
  };
  const isLoaded = computed(() => Boolean(item.value));
  const buttons = () =>
    html`
      <span class="row-actions">
        ${kebab(t("More"), () => changeMenu(/** @type {Item} */ (item.peek()), actions))}
        ${iconButton(t("Reindex"), "retry", () => actions.reindex([id]))}
        ${iconButton(t("Delete"), "trash", () => actions.remove([id]))}
      </span>
    `;
  const content = () => {
    if (isLoaded.value) return itemBody(/** @type {Signal<Item>} */ (item), base, id, route, actions);
    return errorText.value ? emptyState("file", t("Can't load this item"), errorText.value) : null;
  };
  return html`
    <div class="item-pane">
      <div class="pane-head">
        ${iconButton(t("Back to search"), "back", back)}
        <h2 class="cut">${() => item.value?.title ?? "…"}</h2>
        ${() => (isLoaded.value && actions.canChange() ? buttons() : null)}
      </div>
      ${content}
    </div>
  `;
}

/**
 * @param {Signal<Item>} item @param {string} base @param {string} id @param {LiveRoute} route
 * @param {ItemActions} actions
 */
function itemBody(item, base, id, route, actions) {
  const tab = computed(() => route.value.query.get("tab") ?? "chunks");
  // the tabs show one version: they are loaded again when another version is published
  const version = computed(() => `${tab.value} ${item.value.version} ${item.value.status === "completed"}`);
  const chunkCount = () => (isContainer(item.value.type) ? null : item.value.chunkCount);
  const choices = () => [
    { id: "chunks", label: t("Chunks"), count: chunkCount },
    { id: "content", label: t("Content") },
    { id: "assets", label: t("Images and tables") },
    ...(actions.canChange() ? [{ id: "timeline", label: t("Timeline") }] : []),
  ];
  const choose = (/** @type {string} */ chosen) => setQuery({ tab: chosen === "chunks" ? null : chosen });
  const content = () => {
    void version.value;
    const chosen = tab.value;
    const canChange = actions.canChange();
    if (chosen === "chunks" || (chosen === "timeline" && !canChange)) return chunksTab(id, route, canChange);
    return lazy(() => import("./item-tabs.js"), (module) => {
      if (chosen === "content") return module.contentTab(id);
      return chosen === "assets" ? module.assetsTab(id, canChange) : module.timelineTab(id);
    });
  };
  return html`
    <div class="scroll pane-body" tabindex="0" role="region" aria-label="${() => item.value.title}">
      ${itemFacts(item, base, id, actions)}
      <div class="pane-tabs">${() => tabs(t("Item details"), choices(), () => tab.value, choose)}</div>
      ${content}
    </div>
  `;
}

/** @param {string} name @param {unknown} value */
const fact = (name, value) =>
  html`
    <div>
      <dt>${name}</dt>
      <dd>${value}</dd>
    </div>
  `;

/**
 * @param {Signal<Item>} item @param {string} base @param {string} id @param {ItemActions} actions
 */
function itemFacts(item, base, id, actions) {
  const isUnfinished = computed(() => !["completed", "failed"].includes(item.value.status));
  const progress = () =>
    html`<span class="done">${bar(() => item.value.progress)}<span>${() => `${item.value.progress}%`}</span></span>`;
  const state = html`
    <span class="fact-state">
      ${status(() => statusOf(item.value))}
      ${() => (isUnfinished.value ? progress() : null)}
    </span>
  `;
  const size = () => {
    const { sizeBytes, type, chunkCount, version } = item.value;
    const chunks = isContainer(type) ? "" : t("{n} chunks", { n: chunkCount });
    return [formatBytes(sizeBytes), chunks, version ? t("version {v}", { v: version }) : ""].filter(Boolean).join(
      " · ",
    );
  };
  const added = t("added {when}", { when: formatDateTime(item.peek().createdAt) });
  const changed = html`<span>${relativeTime(() => item.value.updatedAt)} <span class="dim">· ${added}</span></span>`;
  const whyNot = () => (allows("admin") ? whyNotButton(base, item.value) : null);
  // no spaces in `links`: it is hidden while it is empty
  return html`
    <div class="item-facts">
      <dl>
        ${fact(t("Status"), state)}
        ${fact(t("Source"), () => sourceView(item.value))}
        ${() => (item.value.path?.length ? fact(t("Location"), item.value.path.join(" / ")) : null)}
        ${fact(t("Size"), size)}
        ${fact(t("Changed"), changed)}
        ${() => tagFact(item.value, actions)}
        ${() => documentFacts(item.value)}
        ${() => freshnessFacts(item.value).map(([name, value]) => fact(name, value))}
      </dl>
      ${() => itemBanners(item.value, actions.canChange() ? () => actions.reindex([id]) : null)}
      <div class="links">${() => readerLink(base, item.value)}${() => originalLink(item.value)}${() =>
        actions.canChange() ? freshnessButtons(base, item.value) : null}${whyNot}</div>
    </div>
  `;
}

/** @param {Item} item @param {ItemActions} actions */
const changeMenu = (item, actions) => [
  item.type === "note" ? { label: t("Edit note"), icon: "note", onselect: () => actions.editNote(item) } : null,
  { label: t("Rename"), icon: "note", onselect: () => actions.rename(item) },
  { label: t("Tags"), icon: "tag", onselect: () => actions.tag([item.id]) },
  { label: t("Move"), icon: "folder", onselect: () => actions.move([item.id]) },
];

/** @param {Item} item @param {ItemActions} actions */
function tagFact(item, actions) {
  const tags = tagsOf(item);
  if (!tags.length) return null;
  const buttons = tags.map((tag) =>
    html`<button type="button" class="tag" @click=${() => actions.filterByTag(tag)}>${tag}</button>`
  );
  return fact(t("Tags"), html`<span class="tags">${buttons}</span>`);
}

/** What the document says of itself. @param {Item} item */
function documentFacts(item) {
  const { title, authors, recipients, created, modified, language, keywords, subject } = item.document ?? {};
  const facts = [
    [t("Document title"), title],
    [t("Authors"), authors?.join(", ")],
    [t("Recipients"), recipients?.join(", ")],
    [t("Written on"), [...new Set([created, modified].filter(Boolean).map(formatIsoTime))].join(" → ")],
    [t("Language"), language ? languageName(language) : ""],
    [t("Keywords"), keywords?.join(", ")],
    [t("Subject"), subject],
  ];
  return facts.filter(([, value]) => value).map(([name, value]) => fact(name, value));
}

/** @param {Item} item @param {(() => void) | null} retry */
function itemBanners(item, retry) {
  const failure = () =>
    html`
      <div class="banner bad">
        ${icon("warn")}
        <p>${errorMessage(item.error?.code, item.error?.message ?? "")} <code class="dim">${item.error?.code ??
          ""}</code></p>
        ${retry ? button(t("Retry"), retry, { small: true }) : null}
      </div>
    `;
  const notice = (/** @type {string} */ name, /** @type {string} */ text) =>
    html`<div class="banner">${icon(name)}<p>${text}</p></div>`;
  return [
    item.status === "failed" ? failure() : null,
    item.waitingFor ? notice("pause", waitingText(item)) : null,
    ...warningsOf(item).map((warning) => notice("warn", warning)),
  ];
}

/** @param {string} base @param {Item} item */
function readerLink(base, item) {
  if (isContainer(item.type) || !item.version) return null;
  const url = readerUrl({ baseId: base, itemId: item.id }, new URLSearchParams(location.search));
  return html`<a class="button line small" href="${url}">${icon("file")}<span>${t("Open reader")}</span></a>`;
}

/** @param {Item} item */
function originalLink(item) {
  if (!["file", "note", "url"].includes(item.type)) return null;
  const url = `/api/knowledge-items/${item.id}/original`;
  return html`<a class="button line small" href="${url}" download>${icon("download")}<span>${t("Original")}</span></a>`;
}

/** @param {string} base @param {Item} item */
function freshnessButtons(base, item) {
  const check = () => button(t("Check now"), () => checkNow(item), { small: true, kind: "quiet" });
  const deleted = () => button(t("Deleted from it"), () => openExclusions(base, item), { small: true, kind: "quiet" });
  return [item.freshness ? check() : null, isContainer(item.type) ? deleted() : null].filter(Boolean);
}

/** @param {string} base @param {Item} item */
function whyNotButton(base, item) {
  const query = new URLSearchParams(location.search);
  const question = query.get("q");
  if (!question) return null;
  const open = async () => {
    const { openWhyNot } = await import("./why-not.js");
    openWhyNot(base, question, new URLSearchParams(location.search).get("mode") ?? "hybrid", item);
  };
  return button(t("Why isn't it in the results?"), open, { small: true, kind: "quiet" });
}

/** @param {Item} item */
function sourceView(item) {
  const { url, path, name } = item.source ?? {};
  if (url) {
    return html`
      <a class="link cut" href="${url}" target="_blank" rel="noreferrer">
        ${itemIcon("url")}<span class="cut">${url}</span>
      </a>
    `;
  }
  if (path) return html`<code class="cut" title="${path}">${path}</code>`;
  if (name) return t("Uploaded as {name}", { name });
  return item.type === "note" ? t("Written in Gristmill") : "–";
}
