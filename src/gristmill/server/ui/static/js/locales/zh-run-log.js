// @ts-check
/**
 * Simplified Chinese for the lines of a run's log. The server writes them in English when they happen; a test compares
 * the sentences here with those that it writes.
 * @type {[string, string][]}
 */
export const sentences = [
  [
    "Nothing is followed: there is no {kind} that these credentials can see. Set {settings}.",
    "没有可同步的内容：这些凭据看不到任何 {kind}。请设置 {settings}。",
  ],
  ["Nothing is followed: there is no file here that matches `files`.", "没有可同步的内容：没有与 files 相符的文件。"],
  [
    "#{channel} is archived, which removes apps from it. What was read of it stays.",
    "#{channel} 已归档，应用因此被移出该频道。已读取的内容会保留。",
  ],
  [
    "{place} is left as it is: it may be one that can't be read at present.",
    "{place} 保持原样：它可能暂时无法读取。",
  ],
  ["Started.", "已开始。"],
  ["The connector was changed; the run goes on with its new settings.", "连接器已更改，此次运行将按新设置继续。"],
  ["Cancelled.", "已取消。"],
  ["The job of this run is gone.", "此次运行的任务已不存在。"],
  ["{place} no longer exists, or these credentials can't read it.", "{place} 已不存在，或这些凭据无权访问。"],
  ["Skipped: {message}", "已跳过：{message}"],
  ["Would add {add}, change {change}, prune {prune}.", "将新增 {add} 个，更改 {change} 个，移除 {prune} 个。"],
  ["{count} documents were moved; they keep their records.", "{count} 个文档已移动，其记录保持不变。"],
  [
    "{gone} of {total} documents seem to be gone: not deleted, because they are so many.",
    "{total} 个文档中似乎有 {gone} 个已不存在：数量过多，因此没有删除。",
  ],
  [
    "Who may see {place} could not be found out: only admins see its documents ({count}).",
    "无法确定谁可以查看 {place}：只有管理员能看到其文档（{count} 个）。",
  ],
  [
    "Who is in the group {name} could not be found out: documents that only this group may see are hidden.",
    "无法确定群组 {name} 的成员：只有该群组可以查看的文档已隐藏。",
  ],
  ["The time budget is used up; continuing ({count}).", "本轮时间已用完，继续运行（第 {count} 次）。"],
  [
    "Stopped after {count} continuations. The next run continues from here.",
    "继续 {count} 次后停止。下次运行从这里继续。",
  ],
  ["{place} is listed completely: {reason}.", "完整列出 {place}：{reason}。"],
  ["the people who may see the whole drive have changed", "可以查看整个云端硬盘的人员已变更"],
  ["the tool no longer accepts the position of the last run", "该工具不再接受上次运行的位置"],
  ["the tool reports a change that affects the whole drive", "该工具报告了影响整个云端硬盘的更改"],
  [
    "the tool returns the same page of changes again and again",
    "该工具一再返回同一页更改",
  ],
  ["the last complete listing was more than {days} days ago", "距上次完整列出已超过 {days} 天"],
  [
    "{count} objects were left out: their names have empty parts, a dot for a part, or control characters.",
    "{count} 个对象未收录：其名称含有空的部分、仅由点组成的部分或控制字符。",
  ],
  [
    "{reason} The files below it are left out. ({code})",
    "{reason} 其中的文件未收录。（{code}）",
  ],
  [
    "{count} files are larger than {limit} bytes and were left out.",
    "{count} 个文件大于 {limit} 字节，未收录。",
  ],
  [
    "{place}: {count} messages are larger than {limit} bytes and were left out.",
    "{place}：{count} 封邮件大于 {limit} 字节，未收录。",
  ],
  [
    "{count} entries have the feed's own text, because their pages can't be read: {reasons}",
    "{count} 个条目使用订阅源自带的文字，因为无法读取其页面：{reasons}",
  ],
  ["{count} documents could not be indexed.", "{count} 个文档未能建立索引。"],
  ["{count} documents got no response; they are read again.", "{count} 个文档没有得到响应，将重新读取。"],
  [
    "{read} read, {changed} new or changed, {pruned} pruned, {failed} failed.",
    "读取 {read} 个，新增或更改 {changed} 个，移除 {pruned} 个，失败 {failed} 个。",
  ],
];
