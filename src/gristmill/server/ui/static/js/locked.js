// @ts-check
/** Who is not let in is led to where a key is asked for, and afterwards back. */

import { onLockedOut } from "./api.js";
import { go } from "./router.js";

export function leadToSignIn() {
  onLockedOut(() => {
    if (location.pathname === "/sign-in") return;
    go(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`, { replace: true });
  });
}
