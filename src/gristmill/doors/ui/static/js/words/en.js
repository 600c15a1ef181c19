// @ts-check
/** English: only what changes with a number; every other sentence is its own key. @type {import("../i18n.js").Words} */
export const words = {
  "{n} items": { one: "{n} item", other: "{n} items" },
  "{n} chunks": { one: "{n} chunk", other: "{n} chunks" },
  "{n} selected": { one: "{n} selected", other: "{n} selected" },
};
