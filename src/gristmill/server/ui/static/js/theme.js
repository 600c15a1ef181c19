// @ts-check
/** Light, dark, or as the system has it; the choice is kept in the browser. */

import { effect, signal } from "./core.js";

const KEPT = "gristmill.theme";
/** @typedef {"auto" | "light" | "dark"} Theme */
const kept = localStorage.getItem(KEPT);
export const theme = signal(/** @type {Theme} */ (kept === "light" || kept === "dark" ? kept : "auto"));

effect(() => {
  const chosen = theme.value;
  if (chosen === "auto") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem(KEPT);
  } else {
    document.documentElement.dataset.theme = chosen;
    localStorage.setItem(KEPT, chosen);
  }
});

/** Whether the page is dark at the moment. */
export const isDark = () =>
  theme.value === "dark" || (theme.value === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
