// @ts-check
/** A sparkline: what happened over time, as one path for the area and its edge. */

const NS = "http://www.w3.org/2000/svg";

/** @param {number[]} values @param {number} width @param {number} height @returns {string} the edge, rounded between points */
export function edge(values, width, height) {
  const most = Math.max(1, ...values);
  const step = width / Math.max(1, values.length - 1);
  const at = values.map((value, i) => [i * step, height - 1 - (value / most) * (height - 3)]);
  let path = `M${at[0][0]} ${at[0][1].toFixed(1)}`;
  for (let i = 1; i < at.length; i++) {
    const [x0, y0] = at[i - 1];
    const [x1, y1] = at[i];
    const mid = ((x0 + x1) / 2).toFixed(1);
    path += `C${mid} ${y0.toFixed(1)} ${mid} ${y1.toFixed(1)} ${x1.toFixed(1)} ${y1.toFixed(1)}`;
  }
  return path;
}

/**
 * @param {number[]} values @param {{width: number, height: number, label: string}} how
 * @returns {SVGElement}
 */
export function spark(values, how) {
  const svg = /** @type {SVGElement} */ (document.createElementNS(NS, "svg"));
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", `0 0 ${how.width} ${how.height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", how.label);
  const line = document.createElementNS(NS, "path");
  const shape = edge(values, how.width, how.height);
  // The area is the edge, closed far below and beside what is seen: one path, and no stroke at its sides.
  line.setAttribute("d", `${shape}H${how.width + 4}V${how.height + 4}H-4V${shape.slice(1).split("C")[0].split(" ")[1]}Z`);
  line.setAttribute("vector-effect", "non-scaling-stroke");
  svg.append(line);
  return svg;
}
