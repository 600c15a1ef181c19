// @ts-check
/** The theme: light, dark, or the system's. The browser remembers the choice. */

import { effect, signal } from "./core.js";

const STORAGE_KEY = "gristmill.theme";
/** @typedef {"auto" | "light" | "dark"} Theme */
const stored = localStorage.getItem(STORAGE_KEY);
export const theme = signal(/** @type {Theme} */ (stored === "light" || stored === "dark" ? stored : "auto"));

effect(() => {
  const choice = theme.value;
  if (choice === "auto") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem(STORAGE_KEY);
  } else {
    document.documentElement.dataset.theme = choice;
    localStorage.setItem(STORAGE_KEY, choice);
  }
});

/** Whether the page is dark now. */
export const isDark = () =>
  theme.value === "dark" || (theme.value === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
