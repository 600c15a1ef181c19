// @ts-check
/** Tests of the descriptions of cron expressions. */

/** @type {any} */ (globalThis).localStorage ??= { getItem: () => null };
const { describeCron, isCron } = await import("../../src/gristmill/server/ui/static/js/cron.js");

Deno.test("common expressions are described in words", () => {
  /** @type {[string, string][]} */
  const descriptions = [
    ["* * * * *", "Every minute"],
    ["*/1 * * * *", "Every minute"],
    ["0 */1 * * *", "Every hour"],
    ["*/15 * * * *", "Every 15 minutes"],
    ["0 * * * *", "Every hour"],
    ["20 * * * *", "Every hour, at minute 20"],
    ["0 */6 * * *", "Every 6 hours"],
    ["0 2 * * *", "Daily at 02:00 UTC"],
    ["30 4 * * 1-5", "On weekdays at 04:30 UTC"],
    ["0 9 * * 1,4", "Every Monday, Thursday at 09:00 UTC"],
    ["0 9 * * 7", "Every Sunday at 09:00 UTC"],
    ["5 0 1 * *", "On day 1 of every month at 00:05 UTC"],
    ["1-5 0 1 1 *", "Minute 1-5, hour 0, day 1, month 1, weekday * (UTC)"],
  ];
  for (const [cron, words] of descriptions) {
    if (describeCron(cron) !== words) throw new Error(`${cron}: ${describeCron(cron)}`);
  }
});

Deno.test("other texts are not cron expressions", () => {
  for (
    const text of ["", "* * * *", "60 * * * *", "* 24 * * *", "0 0 0 * *", "*/0 * * * *", "a b c d e", "* * * * * *"]
  ) {
    if (isCron(text)) throw new Error(text);
    if (!describeCron(text).startsWith("Not a cron expression")) throw new Error(text);
  }
});
