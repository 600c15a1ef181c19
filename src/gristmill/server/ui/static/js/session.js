// @ts-check
/**
 * The caller and what they may do, so that pages offer only what the server accepts. Until the server has said who the
 * caller is, pages offer nothing that needs more than a reader's role.
 */

import { api } from "./api.js";
import { signal } from "./core.js";
import { live } from "./live.js";

/** @typedef {"reader" | "editor" | "admin" | "operator"} Audience As in the access rules of the API. */
/**
 * @typedef {{id: string, name: string, email: string, source: string, hasPassword: boolean}} SessionUser
 * @typedef {{role: "reader" | "editor" | "admin", operator: boolean, serverPaths: boolean, keyId: string | null,
 *   principal: {email: string | null} | null, user: SessionUser | null}} Session
 */

const RANKS = { reader: 1, editor: 2, admin: 3 };
/** The caller; null until the server has responded. */
export const session = signal(/** @type {Session | null} */ (null));

/** @param {Audience} audience Whether the caller may use routes for this audience; false while it is not known. */
export function allows(audience) {
  const caller = session.value;
  if (!caller) return false;
  return audience === "operator" ? caller.operator : RANKS[caller.role] >= RANKS[audience];
}

/** Fetches the caller, and again after an outage. Resolves when the first attempt ended. `main.js` calls this once. */
export function loadSession() {
  const load = async () => {
    try {
      session.value = await api.get("/session");
    } catch {
      // without a key, the sign-in page opens; the notice shows an outage, and the next reload tries again
    }
  };
  live.on({}, (changes) => {
    if (!session.peek() && changes.some((change) => change.type === "reload")) load();
  });
  return load();
}
