// @ts-check
/** What the caller may do with a base: admins own all of them, others what their role and its shares allow. */

import { api } from "../../api.js";
import { computed, effect, signal } from "../../core.js";
import { live } from "../../live.js";
import { allows, session } from "../../session.js";

/** @import { Computed } from "../../core.js" */
/** @typedef {"reader" | "editor" | "owner"} BaseRole */

/** @param {string} base @returns {Computed<BaseRole | null>} null until the server has said so */
export function ownRole(base) {
  const role = signal(/** @type {BaseRole | null} */ (null));
  effect(() => Boolean(session.value?.user) && !allows("admin"), (mustAsk) => {
    if (!mustAsk) return;
    const ask = () =>
      api.get(`/knowledge-bases/${base}/role`).then(
        (answer) => role.value = answer.role,
        () => role.value ??= "reader",
      );
    ask();
    return live.on({ base }, (changes) => {
      if (changes.some((change) => change.type === "reload")) ask(); // after an outage
    });
  });
  return computed(() => {
    if (!session.value) return null;
    if (allows("admin")) return "owner";
    if (session.value.user) return role.value;
    return allows("editor") ? "editor" : "reader"; // a key that acts as no user
  });
}

/** @param {Computed<BaseRole | null>} role @returns {Computed<boolean | null>} null until the server has said so */
export const mayManage = (role) => computed(() => (role.value === null ? null : role.value === "owner"));
