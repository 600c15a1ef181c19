// @ts-check
/** Loads the Chinese messages of the reader with it. */

import { addMessages, language } from "./i18n.js";

if (language === "zh") addMessages((await import("./locales/zh-reader.js")).messages);
