// @ts-check
/** A base as one file: export it to an archive that the browser downloads, and create one from an archive. */

import { api, ApiError, upload } from "../../api.js";
import { showError, toast } from "../../components/toast.js";
import { signal } from "../../core.js";
import { t } from "../../i18n.js";
import { go } from "../../router.js";

/** @import { Base } from "../../bases.js" */

const POLL_MS = 500;

/** @param {string} jobId @returns {Promise<any>} The result of a job, once it is done. */
async function resultOf(jobId) {
  for (;;) {
    const job = await api.get(`/jobs/${jobId}`).catch((error) => {
      if (error.code !== "offline") throw error; // else the job goes on when the server is back
    });
    if (job?.state === "done") return job.result;
    if (["dead", "cancelled", "dismissed"].includes(job?.state)) {
      const error = job.errors.at(-1) ?? { code: "cancelled", message: t("The job was cancelled.") };
      throw new ApiError(409, { code: error.code, detail: error.message });
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** @param {Base} base */
export async function exportBase(base) {
  const text = t("The archive is being written. The download begins when it is ready.");
  const closeMessage = toast(text, { lasting: true });
  try {
    const { jobId } = await api.post(`/knowledge-bases/${base.id}/export`);
    const { fileId, name } = await resultOf(jobId);
    const link = document.createElement("a");
    link.href = `/v1/files/${fileId}/content`;
    link.download = name;
    link.click();
  } catch (error) {
    showError(error);
  } finally {
    closeMessage();
  }
}

/** Asks for an archive, and opens the base that is made from it. */
export function importBase() {
  const input = document.createElement("input");
  input.type = "file";
  input.accept = ".gristmill";
  input.onchange = () => {
    const file = input.files?.[0];
    if (file) sendArchive(file);
  };
  input.click();
}

/** @param {File} file */
async function sendArchive(file) {
  const form = new FormData();
  form.append("file", file, file.name);
  const percent = signal(0);
  const text = () => `${t("{name} is being imported.", { name: file.name })} ${percent.value}%`;
  const closeMessage = toast(text, { lasting: true });
  try {
    const { jobId } = await upload("/knowledge-bases/import", form, (sent, total) => {
      percent.value = Math.round((100 * sent) / (total || 1));
    });
    const { baseId, name } = await resultOf(jobId);
    go(`/b/${baseId}`);
    toast(t("Imported {name}", { name }));
  } catch (error) {
    showError(error);
  } finally {
    closeMessage();
  }
}
