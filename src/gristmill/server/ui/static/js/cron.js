// @ts-check
/**
 * Describes cron expressions in words. Times are UTC, as on the server. Unusual expressions are described field by
 * field.
 */

import { t } from "./i18n.js";

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const FIELDS = [
  [0, 59],
  [0, 23],
  [1, 31],
  [1, 12],
  [0, 7],
];
const FIELD_PART = /^(\*|\d+(-\d+)?)(\/\d+)?$/;

/** @param {string} text Whether the syntax is right; only the server knows whether the schedule ever fires. */
export function isCron(text) {
  const fields = text.trim().split(/\s+/);
  return (
    fields.length === 5 &&
    fields.every((field, i) =>
      field.split(",").every((part) => {
        if (i > 2 && /^[a-z]{3}(-[a-z]{3})?$/i.test(part)) return true;
        const numbers = part.split("/")[0].match(/\d+/g)?.map(Number) ?? [];
        return FIELD_PART.test(part) && numbers.every((n) => n >= FIELDS[i][0] && n <= FIELDS[i][1]) &&
          !part.endsWith("/0");
      })
    )
  );
}

/** @param {string} hour @param {string} minute */
const formatTime = (hour, minute) => `${hour.padStart(2, "0")}:${minute.padStart(2, "0")} UTC`;
const isNumber = (/** @type {string} */ text) => /^\d+$/.test(text);

/** @param {string} field @returns {string | null} */
function describeDays(field) {
  if (field === "1-5") return t("On weekdays");
  const names = field.split(",").map((part) => (isNumber(part) ? t(DAYS[Number(part) % 7]) : null));
  return names.includes(null) ? null : t("Every {days}", { days: names.join(t(", ")) });
}

/** @param {string} text */
export function describeCron(text) {
  if (!isCron(text)) return t("Not a cron expression. It needs five fields: minute hour day month weekday");
  const [minute, hour, day, month, weekday] = text.trim().split(/\s+/).map((field) => field.replace(/^\*\/1$/, "*"));
  const isEveryDay = day === "*" && month === "*";
  const [, everyMinute] = minute.match(/^\*\/(\d+)$/) ?? [];
  const [, everyHour] = hour.match(/^\*\/(\d+)$/) ?? [];
  if (isEveryDay && weekday === "*") {
    if (minute === "*" && hour === "*") return t("Every minute");
    if (everyMinute && hour === "*") return t("Every {n} minutes", { n: Number(everyMinute) });
    if (isNumber(minute) && hour === "*") {
      return minute === "0" ? t("Every hour") : t("Every hour, at minute {m}", { m: Number(minute) });
    }
    if (isNumber(minute) && everyHour) {
      return minute === "0"
        ? t("Every {n} hours", { n: Number(everyHour) })
        : t("Every {n} hours, at minute {m}", { n: Number(everyHour), m: Number(minute) });
    }
  }
  if (isNumber(minute) && isNumber(hour)) {
    const time = formatTime(hour, minute);
    if (isEveryDay && weekday === "*") return t("Daily at {time}", { time });
    const days = isEveryDay ? describeDays(weekday) : null;
    if (days) return t("{days} at {time}", { days: days, time });
    if (isNumber(day) && month === "*" && weekday === "*") {
      return t("On day {day} of every month at {time}", { day: Number(day), time });
    }
  }
  return t("Minute {minute}, hour {hour}, day {day}, month {month}, weekday {weekday} (UTC)", {
    minute,
    hour,
    day,
    month,
    weekday,
  });
}
