// @ts-check
/** Loads the Chinese messages of the settings of a base with them. */

import { addMessages, language } from "./i18n.js";

if (language === "zh") addMessages((await import("./locales/zh-base-settings.js")).messages);
