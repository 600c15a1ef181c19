// @ts-check
/**
 * Icons: 16 by 16, one stroke, in the colour of the surrounding text. They are decoration: labels carry the meaning.
 */

/** @type {Record<string, string>} */
const PATHS = {
  mill: "M2 5.2 8 2l6 3.2-6 3.2zM2 8.4l6 3.2 6-3.2M2 11.4l6 3.2 6-3.2",
  base: "M2.5 3.8c0-1 2.5-1.8 5.5-1.8s5.5.8 5.5 1.8v8.4c0 1-2.5 1.8-5.5 1.8s-5.5-.8-5.5-1.8z" +
    "M2.5 3.8c0 1 2.5 1.8 5.5 1.8s5.5-.8 5.5-1.8M2.5 8c0 1 2.5 1.8 5.5 1.8s5.5-.8 5.5-1.8",
  plug: "M5.5 2v3.5M10.5 2v3.5M3.8 5.5h8.4v2a4.2 4.2 0 0 1-8.4 0zM8 11.7V14.5",
  queue: "M2 4h12M2 8h8M2 12h5M12 7.5v5.5M9.8 11l2.2 2.2 2.2-2.2",
  pulse: "M1.5 8.5h2.8l2-5.5 3.4 10 2-4.5h2.8",
  gear: "M8 5.8a2.2 2.2 0 1 0 0 4.4 2.2 2.2 0 0 0 0-4.4M8 1.5v2M8 12.5v2M1.5 8h2M12.5 8h2" +
    "M3.4 3.4l1.4 1.4M11.2 11.2l1.4 1.4M3.4 12.6l1.4-1.4M11.2 4.8l1.4-1.4",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15" +
    "M3 3l1.2 1.2M11.8 11.8 13 13M3 13l1.2-1.2M11.8 4.2 13 3",
  moon: "M13.5 9.5A5.8 5.8 0 0 1 6.5 2.5a5.8 5.8 0 1 0 7 7z",
  plus: "M8 3v10M3 8h10",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.4 10.4l3.1 3.1",
  file: "M4 1.8h5l3.5 3.5v8.9H4zM9 1.8v3.5h3.5",
  folder: "M1.8 4.2c0-.6.4-1 1-1h3.4l1.6 1.6h5.4c.6 0 1 .4 1 1v6.4c0 .6-.4 1-1 1H2.8c-.6 0-1-.4-1-1z",
  globe:
    "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8M1.8 8h12.4M8 1.8c3.4 3.4 3.4 9 0 12.4M8 1.8c-3.4 3.4-3.4 9 0 12.4",
  note: "M3 2.5h10v7.2L9.2 13.5H3zM9.2 13.5V9.7H13M5.5 5.5h5M5.5 8h3",
  map: "M8 2v3.5M3.5 14v-3h9v3M3.5 11V8.2h9V11M8 5.5v2.7M6.5 2h3v2.2h-3z",
  record: "M2.5 3h11v10h-11zM2.5 6h11M6 6v7",
  chevron: "M6 4l4 4-4 4",
  back: "M10 4L6 8l4 4",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2v3h-3",
  trash: "M2.8 4.2h10.4M6 4V2.4h4V4M4.2 4.2l.6 9.4h6.4l.6-9.4M6.7 6.8v4.2M9.3 6.8v4.2",
  kebab: "M8 3.2v.1M8 8v.1M8 12.7v.1",
  upload: "M8 10.5v-8M4.8 5.5 8 2.3l3.2 3.2M2.5 10.5v3h11v-3",
  warn: "M8 2 1.5 13.5h13zM8 6.5v3.2M8 11.6v.1",
  close: "M4 4l8 8M12 4l-8 8",
  enter: "M13 4v4.5H4M6.5 5.8 3.8 8.5l2.7 2.7",
  link: "M9.5 2.5h4v4M13.5 2.5 7.5 8.5M11.5 9.5v4h-9v-9h4",
  check: "M3 8.5l3.2 3.2L13 4.8",
  pause: "M5.5 3v10M10.5 3v10",
  play: "M4.5 2.8v10.4L13 8z",
  download: "M8 2.3v8M4.8 7.3 8 10.5l3.2-3.2M2.5 10.5v3h11v-3",
  tag: "M2 2.5h5.5l6 6-5 5-6-6zM5 5.5v.1",
  sort: "M4.5 3v10M2 10.5 4.5 13 7 10.5M9 4h5M9 8h4M9 12h3",
  pin: "M5.5 2h5l-.8 4.5 2.3 2.3H4l2.3-2.3zM8 8.8V14",
  undo: "M5.5 3 2.5 6l3 3M2.5 6H9a4 4 0 0 1 0 8H6",
  ask: "M2.5 3h11v8H7.4l-3.2 2.8V11H2.5zM5.3 6h5.4M5.3 8.2h3.4",
  bookmark: "M4 2.2h8v11.6l-4-3-4 3z",
  filter: "M2 4h12M4.5 8h7M6.8 12h2.4",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  stop: "M4.5 4.5h7v7h-7z",
  agent: "M5.5 2v2.5M10.5 2v2.5M2.5 4.5h11v5.2a3 3 0 0 1-3 3h-5a3 3 0 0 1-3-3zM8 12.7v1.8M5.6 7.7v.9M10.4 7.7v.9",
  key: "M5.2 7.5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M7.4 8.4 13.5 2.3M11 4.8l2 2",
};

/** @param {string} name @param {string} [kind] @returns {SVGElement} */
export function icon(name, kind = "") {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", `icon ${kind}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", PATHS[name] ?? PATHS.file);
  svg.append(path);
  return svg;
}

/** @type {Record<string, string>} */
const TYPES = {
  directory: "folder",
  connector: "plug",
  sitemap: "map",
  site: "map",
  url: "globe",
  note: "note",
  record: "record",
};
/** @param {string} type The icon of an item. */
export const itemIcon = (type) => icon(TYPES[type] ?? "file", "type");
