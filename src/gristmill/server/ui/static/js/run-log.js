// @ts-check
/**
 * Lines of a connector's log in the user's language. A line is recognised by its sentence, and an error at its end by
 * its code; what a tool wrote stays as it is.
 */

import { language, problemMessage } from "./i18n.js";

const sentences = language === "zh" ? (await import("./locales/zh-run-log.js")).sentences : [];
const PROBLEM = /^(?:(?<id>.+?) can't be read: )?(?<message>.+) \((?<code>[a-z_]+)\)$/s;

/** @param {string} sentence with `{name}` for what differs @returns {RegExp} */
const patternOf = (sentence) =>
  new RegExp(
    `^${
      sentence.split(/(\{\w+\})/).map((part) =>
        /^\{\w+\}$/.test(part) ? `(?<${part.slice(1, -1)}>.+?)` : part.replace(/[.*+?^$()|[\]\\]/g, "\\$&")
      ).join("")
    }$`,
    "s",
  );

const patterns = sentences.map(([english, chinese]) => ({ pattern: patternOf(english), chinese }));

/** @param {string} line */
export function translateLine(line) {
  if (language !== "zh") return line;
  for (const { pattern, chinese } of patterns) {
    const match = pattern.exec(line);
    if (!match) continue;
    const values = { ...match.groups };
    if (values.reason) values.reason = translateLine(values.reason);
    return chinese.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
  }
  const problem = PROBLEM.exec(line)?.groups;
  if (!problem) return line;
  const message = problemMessage({ code: problem.code, message: problem.message });
  return problem.id ? `无法读取 ${problem.id}：${message}` : message;
}
