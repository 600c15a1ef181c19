// @ts-check
/** Cron expressions in plain words. Times are UTC, as the server reads them; what is too odd for words is told field by field. */

import { t } from "./i18n.js";

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const FIELDS = [
  [0, 59],
  [0, 23],
  [1, 31],
  [1, 12],
  [0, 7],
];
const PART = /^(\*|\d+(-\d+)?)(\/\d+)?$/;

/** @param {string} text Whether it has the form; the server decides whether it ever comes. */
export function isCron(text) {
  const fields = text.trim().split(/\s+/);
  return (
    fields.length === 5 &&
    fields.every((field, i) =>
      field.split(",").every((part) => {
        if (i > 2 && /^[a-z]{3}(-[a-z]{3})?$/i.test(part)) return true;
        const numbers = part.split("/")[0].match(/\d+/g)?.map(Number) ?? [];
        return PART.test(part) && numbers.every((n) => n >= FIELDS[i][0] && n <= FIELDS[i][1]) && !part.endsWith("/0");
      }),
    )
  );
}

/** @param {string} hour @param {string} minute */
const at = (hour, minute) => `${hour.padStart(2, "0")}:${minute.padStart(2, "0")} UTC`;
const isNumber = (/** @type {string} */ text) => /^\d+$/.test(text);

/** @param {string} field @returns {string | null} */
function days(field) {
  if (field === "1-5") return t("On weekdays");
  const named = field.split(",").map((part) => (isNumber(part) ? t(DAYS[Number(part) % 7]) : null));
  return named.includes(null) ? null : t("Every {days}", { days: named.join(t(", ")) });
}

/** @param {string} text */
export function inWords(text) {
  if (!isCron(text)) return t("Not a cron expression: five fields, minute hour day month weekday");
  const [minute, hour, day, month, weekday] = text.trim().split(/\s+/);
  const daily = day === "*" && month === "*";
  const [, everyMinute] = minute.match(/^\*\/(\d+)$/) ?? [];
  const [, everyHour] = hour.match(/^\*\/(\d+)$/) ?? [];
  if (daily && weekday === "*") {
    if (minute === "*" && hour === "*") return t("Every minute");
    if (everyMinute && hour === "*") return t("Every {n} minutes", { n: Number(everyMinute) });
    if (isNumber(minute) && hour === "*") return minute === "0" ? t("Every hour") : t("Every hour, at minute {m}", { m: Number(minute) });
    if (isNumber(minute) && everyHour) return minute === "0" ? t("Every {n} hours", { n: Number(everyHour) }) : t("Every {n} hours, at minute {m}", { n: Number(everyHour), m: Number(minute) });
  }
  if (isNumber(minute) && isNumber(hour)) {
    const time = at(hour, minute);
    if (daily && weekday === "*") return t("Daily at {time}", { time });
    const named = daily ? days(weekday) : null;
    if (named) return t("{days} at {time}", { days: named, time });
    if (isNumber(day) && month === "*" && weekday === "*") return t("On day {day} of every month at {time}", { day: Number(day), time });
  }
  return t("Minute {minute}, hour {hour}, day {day}, month {month}, weekday {weekday} (UTC)", { minute, hour, day, month, weekday });
}
