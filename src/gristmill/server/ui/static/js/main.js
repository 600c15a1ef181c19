// @ts-check
/**
 * The entry point: starts the shell, and sends visitors without a valid key to the sign-in page and back afterwards.
 */

import { onUnauthorized } from "./api.js";
import { watchBases } from "./bases.js";
import { pages } from "./pages.js";
import { go, preloadPage } from "./router.js";
import { loadSession } from "./session.js";
import { start } from "./shell.js";

// Milliseconds. The page and its first data usually arrive sooner; one paint with them is quicker than several.
const MAX_DELAY = 300;

onUnauthorized(() => {
  if (location.pathname === "/sign-in") return;
  go(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`, { replace: true });
});
const delay = new Promise((resolve) => setTimeout(resolve, MAX_DELAY));
await Promise.race([delay, Promise.all([preloadPage(pages), loadSession(), watchBases()])]);
start();
