// @ts-check
/** Loads the Chinese messages of search over all bases, answers, new bases and connecting, with the first of them. */

import { addMessages, language } from "./i18n.js";

if (language === "zh") addMessages((await import("./locales/zh-find.js")).messages);
