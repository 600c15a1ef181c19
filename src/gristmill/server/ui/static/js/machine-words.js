// @ts-check
/** The words of connectors, queue, events and settings, fetched with the first of these pages. */

import { language, learn } from "./i18n.js";

if (language === "zh") learn((await import("./words/zh-machine.js")).words);
