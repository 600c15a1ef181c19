// @ts-check
/** Whether the caller manages a base: admins manage all of them, others those that are shared with them as owner. */

import { api } from "../../api.js";
import { computed, effect, signal } from "../../core.js";
import { allows, session } from "../../session.js";

/** @import { Computed } from "../../core.js" */

/** @param {string} base @returns {Computed<boolean | null>} null until the server has said so */
export function mayManage(base) {
  const isOwner = signal(/** @type {boolean | null} */ (null));
  effect(() => session.value?.user && !allows("admin"), (mustAsk) => {
    if (!mustAsk) return;
    api.get(`/knowledge-bases/${base}/role`).then(
      ({ role }) => isOwner.value = role === "owner",
      () => isOwner.value = false,
    );
  });
  return computed(() => {
    if (allows("admin")) return true;
    return session.value && !session.value.user ? false : isOwner.value;
  });
}
