// @ts-check
/** The settings of one base: name, model, chunking, what folders exclude, retention; and deleting the base. */

import "../base-settings-locale.js";
import { api } from "../api.js";
import { baseById, bases, dropBase, putBase } from "../bases.js";
import { computed, effect, html, signal } from "../core.js";
import { problemMessage, t } from "../i18n.js";
import { button } from "../components/button.js";
import { confirm } from "../components/dialog.js";
import { baseNotFound, emptyState, setPageTitle } from "../components/status.js";
import { showError, toast } from "../components/toast.js";
import { go } from "../router.js";
import { allows } from "../session.js";
import { embedderField } from "./base/embedder.js";
import { exportBase } from "./base/portable.js";
import { questionList } from "./base/questions.js";
import { retentionSection } from "./base/retention.js";
import { mayManage, ownRole } from "./base/role.js";
import { sharingCard } from "./base/sharing.js";

/** @import { ApiError } from "../api.js" */
/** @import { Base } from "../bases.js" */
/** @import { Signal } from "../core.js" */
/** @import { LiveRoute } from "../router.js" */

/** @param {LiveRoute} route */
export function page(route) {
  const id = route.peek().params.base;
  const base = baseById(() => id);
  const canManage = mayManage(ownRole(id));
  setPageTitle(() => t("Settings of {name}", { name: base.value?.name ?? "" }));
  const loaded = signal(/** @type {{data: Base, etag: string | null} | null} */ (null));
  // Sharing changes the version of the base, but nothing that the form shows. If someone else has changed that, the old
  // version stays: saving is refused, and does not take back what they did.
  let etag = /** @type {string | null} */ (null);
  effect(() => {
    etag = loaded.value?.etag ?? null;
  });
  const refreshEtag = async () => {
    const fresh = await api.getWithEtag(`/knowledge-bases/${id}`);
    if (formOf(fresh.data) === formOf(loaded.peek()?.data)) etag = fresh.etag;
  };
  api.getWithEtag(`/knowledge-bases/${id}`).then(
    (response) => (loaded.value = response),
    (error) => error.status === 404 || showError(error),
  );
  const isMissing = computed(() => bases.value !== null && !base.value);
  return html`<div class="page">${() => (isMissing.value ? baseNotFound() : settingsPage())}</div>`;

  function settingsPage() {
    return html`
      <div class="top">
        <h1 class="crumbs">
          <a href="/">${t("Bases")}</a>
          <span class="sep">/</span>
          <a class="cut up" href="/b/${id}">${() => base.value?.name ?? ""}</a>
          <span class="sep up">/</span>
          <span>${t("Settings")}</span>
        </h1>
      </div>
      <div class="scroll">
        ${() => (canManage.value ? sharingCard(id, refreshEtag) : null)}
        ${() => (canManage.value && loaded.value ? settingsForm(loaded.value.data, () => etag, loaded) : null)}
        ${() => (allows("admin") && loaded.value ? retentionSection(id) : null)}
        ${() => (canManage.value && loaded.value ? dangerZone(loaded.value.data, loaded) : null)}
        ${() => (canManage.value === false ? refusedNotice() : null)}
      </div>
    `;
  }
}

const refusedNotice = () =>
  emptyState("key", t("This page is for admins"), t("Only owners of the base and admins change its settings."));

/** @param {Base} [base] What of a base the form shows. */
const formOf = (base) => JSON.stringify([base?.name, base?.chunking, base?.onRestart, base?.settings]);

/**
 * The changes that the form asks for, as the API takes them. The chunk size only if someone changed it: the default
 * may be more than the base's model takes.
 * @param {FormData} form @param {Base} base
 */
function changesFrom(form, base) {
  const maxTokens = form.get("maxTokens") ? Number(form.get("maxTokens")) : null;
  return {
    name: String(form.get("name")),
    ...(maxTokens === (base.chunking.maxTokens ?? null) ? {} : { chunking: { maxTokens } }),
    onRestart: String(form.get("onRestart")),
    settings: {
      ignore: String(form.get("ignore")).split(/\s*\n\s*/).filter(Boolean),
      includeHidden: form.get("includeHidden") === "on",
      assetReuse: String(form.get("assetReuse")),
      emptyDocuments: String(form.get("emptyDocuments")),
      render: String(form.get("render")),
      synonyms: synonymsFrom(String(form.get("synonyms"))),
      minScore: Number(form.get("minScore") ?? 0),
      questions: form.get("questions") === "on" ? "keep" : "off",
    },
  };
}

/** @param {string} text One group a line, with commas between its words. */
const synonymsFrom = (text) =>
  text.split("\n").map((line) => line.split(/[,，、]/).map((word) => word.trim()).filter(Boolean))
    .filter((group) => group.length > 1);

/** @param {Base} base @param {() => string | null} etag @param {Signal<any>} loaded */
function settingsForm(base, etag, loaded) {
  const errorText = signal("");
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    errorText.value = "";
    const changes = changesFrom(new FormData(/** @type {HTMLFormElement} */ (event.target)), base);
    try {
      await api.patch(`/knowledge-bases/${base.id}`, changes, { match: etag() ?? undefined });
      const saved = await api.getWithEtag(`/knowledge-bases/${base.id}`);
      const field = document.activeElement?.getAttribute("name");
      loaded.value = saved; // the form is made again
      const place = field ? `.settings [name="${field}"]` : ".settings .save button";
      queueMicrotask(() => /** @type {HTMLElement | null} */ (document.querySelector(place))?.focus());
      putBase(saved.data);
      toast(t("Saved"));
    } catch (error) {
      const isOutdated = /** @type {ApiError} */ (error).status === 412;
      errorText.value = isOutdated
        ? t("Someone changed these settings meanwhile. Reload the page to see them, then make your changes again.")
        : /** @type {ApiError} */ (error).message;
    }
  };
  return html`
    <form class="settings" @submit=${submit}>
      ${generalFields(base, loaded)}${chunkingFields(base)}${documentFields(base)}${folderFields(
        base,
      )}${searchFields(
        base,
      )}
      <p class="bad" role="alert">${() => errorText.value}</p>
      <div class="save"><button class="button primary">${t("Save")}</button></div>
      ${allows("admin") ? portableFields(base) : null}
    </form>
  `;
}

/** @param {string} name @param {string} value @param {[string, string][]} choices */
const select = (name, value, choices) =>
  html`
    <select name="${name}">
      ${choices.map(([id, label]) => html`<option value="${id}" ?selected=${id === value}>${label}</option>`)}
    </select>
  `;

/** @param {Base["index"]} index */
const indexName = (index) => (index === "embedded" ? t("In this database") : t("OpenSearch"));

/**
 * What is being done to the index. Searches go on meanwhile.
 * @param {Base} base
 */
function indexChange(base) {
  if (base.movingTo === null) return null;
  const text = base.movingTo === base.index
    ? t("is being rebuilt")
    : t("moving to: {place}", { place: indexName(base.movingTo) });
  return html`<span class="dim">${text}</span>`;
}

/** @param {Base} base @param {Signal<any>} loaded */
function generalFields(base, loaded) {
  const reload = async () => {
    loaded.value = await api.getWithEtag(`/knowledge-bases/${base.id}`);
    putBase(loaded.peek().data);
  };
  const onRestart = select("onRestart", base.onRestart, [
    ["resume", t("Continue automatically")],
    ["park", t("Wait for someone to recover it")],
  ]);
  return html`
    <fieldset>
      <legend>${t("General")}</legend>
      <label class="field">
        <span>${t("Name")}</span>
        <input name="name" required maxlength="200" .value=${base.name}>
      </label>
      ${allows("admin") ? embedderField(base, () => reload().catch(showError)) : null}
      <div class="field">
        <span>${t("Index")}</span>
        <p>${indexName(base.index)} ${allows("admin") ? indexChange(base) : null}</p>
      </div>
      <label class="field">
        <span>${t("When a worker stops unexpectedly")}</span>
        ${onRestart}
      </label>
    </fieldset>
  `;
}

/** @param {Base} base */
function chunkingFields(base) {
  const maxTokens = String(base.chunking.maxTokens ?? "");
  const preview = async (/** @type {Event} */ event) => {
    const { form } = /** @type {HTMLButtonElement} */ (event.currentTarget);
    const size = Number(new FormData(/** @type {HTMLFormElement} */ (form)).get("maxTokens")) || null;
    (await import("./base/chunk-preview.js")).openChunkPreview(base.id, size);
  };
  return html`
    <fieldset>
      <legend>${t("Chunking")}</legend>
      <label class="field">
        <span>${t("Maximum chunk size, in tokens")}</span>
        <input name="maxTokens" type="number" min="32" max="8192" placeholder="256" .value=${maxTokens}>
        <span class="hint">
          ${t("Empty: 256, or what the model takes if that is less.")}
          ${t("Applies to content indexed from now on. Reindex the base to apply it to everything.")}
        </span>
      </label>
      ${() => (allows("admin") ? button(t("Preview"), preview, { icon: "search", small: true }) : null)}
    </fieldset>
  `;
}

/** @param {Base} base */
function documentFields(base) {
  const emptyDocuments = select("emptyDocuments", base.settings.emptyDocuments, [
    ["fail", t("Fail, so that someone looks at them")],
    ["warn", t("Complete with a warning")],
  ]);
  const assetReuse = select("assetReuse", base.settings.assetReuse, [
    ["any", t("From any document")],
    ["document", t("Only from the same document")],
    ["force", t("Don't reuse")],
  ]);
  const render = select("render", base.settings.render, [
    ["never", t("Don't render them")],
    ["auto", t("Render those with hardly any text")],
    ["always", t("Render all pages")],
  ]);
  return html`
    <fieldset>
      <legend>${t("Documents")}</legend>
      <label class="field">
        <span>${t("Documents without text, such as an unreadable scan")}</span>
        ${emptyDocuments}
      </label>
      <label class="field">
        <span>${t("Reuse descriptions of identical images")}</span>
        ${assetReuse}
      </label>
      <label class="field">
        <span>${t("Pages made by scripts")}</span>
        ${render}
        <span class="hint">${t("Needs Chromium where the worker runs.")}</span>
      </label>
    </fieldset>
  `;
}

/** @param {Base} base */
function searchFields(base) {
  const groups = /** @type {string[][]} */ (base.settings.synonyms ?? []);
  return html`
    <fieldset>
      <legend>${t("Search")}</legend>
      <label class="field">
        <span>${t("Synonyms (one group per line, with commas)")}</span>
        <textarea name="synonyms" rows="3" .value=${groups.map((group) => group.join(", ")).join("\n")}></textarea>
        <span class="hint">${t("A search for one of them finds the others, with less weight.")}</span>
      </label>
      <label class="field">
        <span>${t("Lowest score of a result, from 0 to 1")}</span>
        <input name="minScore" type="number" min="0" max="1" step="any" .value=${String(base.settings.minScore ?? 0)}>
        <span class="hint">
          ${t("0 shows all, with a note if none of them fits.")}
          ${t("From 0.5 on, most results of unrelated searches are hidden.")}
        </span>
      </label>
      <label class="check">
        <input name="questions" type="checkbox" ?checked=${base.settings.questions === "keep"}>
        <span>${t("Keep what people search for")}</span>
        <span class="hint">
          ${t("Without names, to compare embedding models with. Switching it off deletes what was kept.")}
        </span>
      </label>
      ${questionList(base)}
    </fieldset>
  `;
}

/** @param {Base} base */
function folderFields(base) {
  const { ignore = [], includeHidden } = base.settings;
  return html`
    <fieldset>
      <legend>${t("Folders")}</legend>
      <label class="field">
        <span>${t("Exclude (.gitignore patterns, one per line)")}</span>
        <textarea name="ignore" rows="4" .value=${(ignore ?? []).join("\n")}></textarea>
      </label>
      <label class="field row">
        <input type="checkbox" name="includeHidden" .checked=${Boolean(includeHidden)}>
        <span>${t("Include hidden files (names that begin with a dot)")}</span>
      </label>
    </fieldset>
  `;
}

/** @param {Base} base */
function portableFields(base) {
  return html`
    <fieldset>
      <legend>${t("Archive")}</legend>
      <p class="dim">
        ${t(
          "One file with everything in the base, to import it elsewhere: documents, texts, vectors and access lists.",
        )}
      </p>
      ${button(t("Export"), () => exportBase(base), { icon: "download" })}
    </fieldset>
  `;
}

/** @param {Base} base @param {Signal<any>} loaded */
function dangerZone(base, loaded) {
  const restoreButton = () => button(t("Restore"), () => restore(base.id, loaded));
  const failure = () => html`<div><p>${problemMessage(base.error)}</p>${restoreButton()}</div>`;
  return html`
    <div class="settings">
      <fieldset class="danger-zone">
        <legend>${t("Danger zone")}</legend>
        ${base.status === "failed" ? failure() : null}
        <div>
          <p>
            <b>${t("Delete this base")}</b><br>
            <span class="dim">${t("Deletes everything in it, immediately and permanently.")}</span>
          </p>
          ${button(t("Delete base"), () => deleteBase(base), { kind: "danger" })}
        </div>
      </fieldset>
    </div>
  `;
}

/** @param {string} id @param {Signal<any>} loaded */
async function restore(id, loaded) {
  try {
    await api.patch(`/knowledge-bases/${id}`, { status: "ready" });
    loaded.value = await api.getWithEtag(`/knowledge-bases/${id}`);
  } catch (error) {
    showError(error);
  }
}

/** @param {Base} base */
async function deleteBase(base) {
  const isConfirmed = await confirm({
    title: t("Delete {name}?", { name: base.name }),
    text: t("Its items, chunks and uploaded files will be deleted. This can't be undone."),
    action: t("Delete base"),
    type: base.name,
  });
  if (!isConfirmed) return;
  try {
    await api.delete(`/knowledge-bases/${base.id}`);
    dropBase(base.id);
    go("/");
    toast(t("Deleted {title}", { title: base.name }));
  } catch (error) {
    showError(error);
  }
}
