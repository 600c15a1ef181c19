// @ts-check
/** Lines of a run's log in Chinese. */

Object.defineProperty(globalThis, "localStorage", { value: { getItem: () => "zh" } });
const { translateLine } = await import("../../src/gristmill/server/ui/static/js/run-log.js");

Deno.test("a line is translated with its values, and a reason within it too", () => {
  for (
    const [line, chinese] of [
      ["Would add 1, change 2, prune 3.", "将新增 1 个，更改 2 个，移除 3 个。"],
      [
        "Shared (EU) is listed completely: the last complete listing was more than 7 days ago.",
        "完整列出 Shared (EU)：距上次完整列出已超过 7 天。",
      ],
      [
        "INBOX: 3 messages are larger than 10,000 bytes and were left out.",
        "INBOX：3 封邮件大于 10,000 字节，未收录。",
      ],
      ["What a tool wrote", "What a tool wrote"],
    ]
  ) {
    const text = translateLine(line);
    if (text !== chinese) throw new Error(`${line} became ${text}`);
  }
});
