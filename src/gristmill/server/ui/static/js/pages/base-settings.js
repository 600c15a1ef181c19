// @ts-check
/** The settings of one base: its name, its model, how it cuts, what its folders leave out; and deleting it. */

import { api } from "../api.js";
import { baseOf, dropBase, putBase } from "../bases.js";
import { html, signal } from "../core.js";
import { t } from "../i18n.js";
import { button } from "../parts/button.js";
import { confirm } from "../parts/dialog.js";
import { titled } from "../parts/status.js";
import { refused, toast } from "../parts/toast.js";
import { go } from "../router.js";

/** @param {import("../router.js").LiveRoute} route */
export function page(route) {
  const id = route.peek().params.base;
  const base = baseOf(() => id);
  titled(() => t("Settings of {name}", { name: base.value?.name ?? "" }));
  const tagged = signal(/** @type {{data: import("../bases.js").Base, etag: string | null} | null} */ (null));
  api.tagged(`/knowledge-bases/${id}`).then(
    (found) => (tagged.value = found),
    (error) => refused(error),
  );
  return html`<div class="page"><div class="top"><h1 class="crumbs"><a href="/">${t("Bases")}</a><span class="sep">/</span><a href="/b/${id}">${() => base.value?.name ?? ""}</a><span class="sep">/</span><span>${t("Settings")}</span></h1></div>
    <div class="scroll">${() => (tagged.value ? settings(tagged.value.data, tagged.value.etag, tagged) : null)}</div></div>`;
}

/** @param {import("../bases.js").Base} base @param {string | null} etag @param {import("../core.js").Signal<any>} tagged */
function settings(base, etag, tagged) {
  const told = signal("");
  const form = /** @type {HTMLFormElement} */ (
    html`<form class="settings" @submit=${async (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      told.value = "";
      const given = new FormData(form);
      const changes = {
        name: String(given.get("name")),
        chunking: { maxTokens: Number(given.get("maxTokens")) },
        onRestart: String(given.get("onRestart")),
        settings: {
          ignore: String(given.get("ignore")).split(/\s*\n\s*/).filter(Boolean),
          includeHidden: given.get("includeHidden") === "on",
          assetReuse: String(given.get("assetReuse")),
        },
      };
      try {
        await api.patch(`/knowledge-bases/${base.id}`, changes, { match: etag ?? undefined });
        const now = await api.tagged(`/knowledge-bases/${base.id}`);
        tagged.value = now;
        putBase(now.data);
        toast(t("Saved"));
      } catch (error) {
        const refusal = /** @type {import("../api.js").Refused} */ (error);
        told.value = [refusal.message, ...refusal.errors.map((/** @type {any} */ one) => one.message ?? "")].join(" ");
      }
    }}>
      <fieldset><legend>${t("General")}</legend>
        <label class="field"><span>${t("Name")}</span><input name="name" required maxlength="200" .value=${base.name}></label>
        <div class="field"><span>${t("Embedding model")}</span><p><code>${base.embedder}</code> <span class="dim">${t("{n} dimensions; a base keeps the model that it was made with", { n: base.dimensions })}</span></p></div>
        <label class="field"><span>${t("After a worker was lost")}</span><select name="onRestart"><option value="resume" ?selected=${base.onRestart === "resume"}>${t("Go on by itself")}</option><option value="park" ?selected=${base.onRestart === "park"}>${t("Wait until somebody recovers it")}</option></select></label>
      </fieldset>
      <fieldset><legend>${t("Cutting")}</legend>
        <label class="field"><span>${t("Longest chunk, in tokens")}</span><input name="maxTokens" type="number" min="32" max="8192" required .value=${String(base.chunking.maxTokens ?? 256)}><span class="hint">${t("Holds for what is indexed from now on. Reindex to cut everything anew.")}</span></label>
        <label class="field"><span>${t("What was said of an equal image before is used")}</span><select name="assetReuse">${[
          ["any", t("from any document")],
          ["document", t("from the same document")],
          ["force", t("never")],
        ].map(([value, label]) => html`<option value="${value}" ?selected=${base.settings.assetReuse === value}>${label}</option>`)}</select></label>
      </fieldset>
      <fieldset><legend>${t("Folders")}</legend>
        <label class="field"><span>${t("Leave out (patterns as in .gitignore, one a line)")}</span><textarea name="ignore" rows="4" .value=${(base.settings.ignore ?? []).join("\n")}></textarea></label>
        <label class="field row"><input type="checkbox" name="includeHidden" .checked=${Boolean(base.settings.includeHidden)}><span>${t("Take in names that begin with a dot")}</span></label>
      </fieldset>
      <p class="bad" role="alert">${() => told.value}</p>
      <div class="save"><button class="button primary">${t("Save")}</button></div>
      <fieldset class="danger-zone"><legend>${t("Danger zone")}</legend>
        ${base.status === "failed" ? html`<div><p>${base.error?.message ?? ""}</p>${button(t("Restore"), () => restore(base.id, tagged))}</div>` : null}
        <div><p><b>${t("Delete this base")}</b><br><span class="dim">${t("Everything in it goes, at once and for good.")}</span></p>${button(t("Delete the base"), () => deleteBase(base), { kind: "danger" })}</div>
      </fieldset>
    </form>`
  );
  return form;
}

/** @param {string} id @param {import("../core.js").Signal<any>} tagged */
async function restore(id, tagged) {
  try {
    await api.patch(`/knowledge-bases/${id}`, { status: "ready" });
    tagged.value = await api.tagged(`/knowledge-bases/${id}`);
  } catch (error) {
    refused(error);
  }
}

/** @param {import("../bases.js").Base} base */
async function deleteBase(base) {
  const sure = await confirm({
    title: t("Delete {name}?", { name: base.name }),
    text: t("Its items, chunks and uploaded files are removed. This can't be undone."),
    action: t("Delete the base"),
    type: base.name,
  });
  if (!sure) return;
  try {
    await api.delete(`/knowledge-bases/${base.id}`);
    dropBase(base.id);
    go("/");
    toast(t("Deleted {title}", { title: base.name }));
  } catch (error) {
    refused(error);
  }
}
