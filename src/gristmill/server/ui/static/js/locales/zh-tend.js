// @ts-check
/** Simplified Chinese for changing items: rename, move, tag, sort, edit, undo. @type {Messages} */

/** @import { Messages } from "../i18n.js" */
export const messages = {
  Undo: "撤销",
  "You can undo this for a few seconds.": "几秒钟内可以撤销。",
  "Everything inside is deleted too, and is no longer found by search.": "其中的全部内容也会删除，并且不再能被搜索到。",
  "What is deleted is no longer found by search.": "删除后不再能被搜索到。",
  "Reindex {n} items?": "重建 {n} 项的索引？",
  Rename: "重命名",
  Title: "标题",
  "Searches find it by its new title in a moment.": "片刻之后即可用新标题搜索到。",
  "New folder": "新建文件夹",
  Create: "创建",
  Move: "移动",
  "Move {n} items": "移动 {n} 项",
  "Moved {n} items": "已移动 {n} 项",
  "Moving {n} items to the other base": "正在把 {n} 项移到另一个知识库",
  "They stay here until the other base has them. With the same embedder nothing is embedded again.":
    "在另一个知识库就绪之前，它们留在这里。嵌入模型相同时，不会重新生成向量。",
  "Top of the base": "知识库顶层",
  Tags: "标签",
  "Add tags": "添加标签",
  "Remove tags": "移除标签",
  "Separate several tags by commas. Searches can filter by them.": "多个标签用逗号分隔。搜索可以按标签筛选。",
  "Changed the tags of {n} items": "已更改 {n} 项的标签",
  "Remove the filter {tag}": "移除筛选“{tag}”",
  "Edit note": "编辑笔记",
  Text: "文本",
  Save: "保存",
  "Search uses the old text until the new one is indexed.": "新文本建好索引之前，搜索使用旧文本。",
  "Someone changed this note meanwhile. Copy your text, close this, and edit the new version.":
    "有人在此期间修改了这条笔记。请复制您的文本，关闭此窗口，再编辑新版本。",
  Sort: "排序",
  "Sort by {column}": "按{column}排序",
  "Sorted by {column}, ascending": "按{column}升序",
  "Sorted by {column}, descending": "按{column}降序",
  "Order of adding": "添加顺序",
  Type: "类型",
  "Select all": "全选",
  "Select up to here": "选择到此处",
};
