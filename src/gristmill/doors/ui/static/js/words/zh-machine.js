// @ts-check
/** Simplified Chinese for connectors, queue, events and settings. @type {import("../i18n.js").Words} */
export const words = {};
