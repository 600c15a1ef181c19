// @ts-check
/** A sparkline: values over time, drawn as one path for the line and the area below it. */

const NS = "http://www.w3.org/2000/svg";

/**
 * @param {number[]} values @param {number} width @param {number} height
 * @returns {string} the line, smoothed between points
 */
export function linePath(values, width, height) {
  const max = Math.max(1, ...values);
  const step = width / Math.max(1, values.length - 1);
  const points = values.map((value, i) => [i * step, height - 1 - (value / max) * (height - 3)]);
  let path = `M${points[0][0]} ${points[0][1].toFixed(1)}`;
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1];
    const [x1, y1] = points[i];
    const mid = ((x0 + x1) / 2).toFixed(1);
    path += `C${mid} ${y0.toFixed(1)} ${mid} ${y1.toFixed(1)} ${x1.toFixed(1)} ${y1.toFixed(1)}`;
  }
  return path;
}

/**
 * @param {number[]} values @param {{width: number, height: number, label: string}} options
 * @returns {SVGElement}
 */
export function sparkline(values, options) {
  const svg = /** @type {SVGElement} */ (document.createElementNS(NS, "svg"));
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", `0 0 ${options.width} ${options.height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", options.label);
  const line = document.createElementNS(NS, "path");
  const shape = linePath(values, options.width, options.height);
  // The path is closed outside the visible box, so that one path draws the area without a stroke at its sides.
  line.setAttribute(
    "d",
    `${shape}H${options.width + 4}V${options.height + 4}H-4V${shape.slice(1).split("C")[0].split(" ")[1]}Z`,
  );
  line.setAttribute("vector-effect", "non-scaling-stroke");
  svg.append(line);
  return svg;
}
