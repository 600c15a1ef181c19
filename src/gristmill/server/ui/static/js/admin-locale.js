// @ts-check
/** Loads the Chinese messages of connectors, queue, events and settings with the first of these pages. */

import { addErrors, addMessages, language } from "./i18n.js";

if (language === "zh") {
  addMessages((await import("./locales/zh-admin.js")).messages);
  addMessages((await import("./locales/zh-usage.js")).messages);
  addErrors((await import("./locales/zh-admin-errors.js")).errors);
}
