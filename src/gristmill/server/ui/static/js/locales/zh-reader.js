// @ts-check
/** Simplified Chinese for the reader. @type {Messages} */

/** @import { Messages } from "../i18n.js" */
export const messages = {
  "Page {page}": "第 {page} 页",
  "Slide {page}": "第 {page} 张幻灯片",
  "Sheet {page}": "第 {page} 个工作表",
  "page {page} of {n}": "第 {page} 页，共 {n} 页",
  "hit {i} of {n}": "第 {i} 条结果，共 {n} 条",
  "Previous hit": "上一条结果",
  "Next hit": "下一条结果",
  "Side by side": "并排",
  Outline: "大纲",
  "Open reader": "打开阅读器",
  "This page can't be drawn. Read its text instead.": "无法显示此页。请阅读其文本。",
};
