// @ts-check
/** Simplified Chinese, in two files: what is about contents, and what is about the machine. */
import { words as contents } from "./zh-contents.js";
import { words as machine } from "./zh-machine.js";

/** @type {import("../i18n.js").Words} */
export const words = { ...contents, ...machine };
