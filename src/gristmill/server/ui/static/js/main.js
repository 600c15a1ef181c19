// @ts-check
/**
 * The entry point: starts the shell, and sends visitors without a valid key to the sign-in page and back afterwards.
 */

import { onUnauthorized } from "./api.js";
import { go } from "./router.js";
import { start } from "./shell.js";

onUnauthorized(() => {
  if (location.pathname === "/sign-in") return;
  go(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`, { replace: true });
});
start();
