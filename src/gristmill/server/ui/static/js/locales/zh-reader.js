// @ts-check
/** Simplified Chinese for the reader. @type {Messages} */

/** @import { Messages } from "../i18n.js" */
export const messages = {
  "Page {page}": "第 {page} 页",
  "Slide {page}": "第 {page} 张幻灯片",
  "Sheet {page}": "第 {page} 个工作表",
  "page {page} of {n}": "第 {page} 页，共 {n} 页",
  "slide {page} of {n}": "第 {page} 张幻灯片，共 {n} 张",
  "sheet {page} of {n}": "第 {page} 个工作表，共 {n} 个",
  "Previous page": "上一页",
  "Next page": "下一页",
  "Back to the text": "返回正文",
  "This image can't be shown: {text}": "无法显示此图片：{text}",
  "This document has no text.": "此文档没有文本。",
  "hit {i} of {n}": "第 {i} 条结果，共 {n} 条",
  "Previous hit": "上一条结果",
  "Next hit": "下一条结果",
  "Side by side": "并排",
  Outline: "大纲",
  "The document has changed since this link was copied: its passage is no longer there.":
    "复制此链接后文档已更改，链接中的段落已不存在。",
  "The document has changed meanwhile. This is its new text.": "文档刚刚更改，这里是新的文本。",
  "Copy link to this place": "复制此处的链接",
  "This page can't be drawn. Read its text instead.": "无法显示此页。请阅读其文本。",
};
