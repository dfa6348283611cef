// Charts of the numbers of a page: bars by day, one part of a bar for each series. Drawn by uPlot on a canvas.

import uPlot from "../vendor/uPlot.js";

const HEIGHT = 220;
/** How to stop the chart of an element, when the page shows other numbers in it. */
const stops = new WeakMap();

/** Draw the numbers in `data-chart`: `{days, series: [{name, values}]}`. */
export function start(element) {
  stops.get(element)?.();
  const ended = new AbortController();
  stops.set(element, () => ended.abort());
  const numbers = JSON.parse(element.dataset.chart);
  const shown = { unit: element.dataset.unit, language: element.dataset.language, readout: element.parentElement.querySelector("[data-readout]") };
  let plot = null;
  const draw = () => {
    plot?.destroy();
    plot = new uPlot(options(element, numbers, shown), stacked(numbers), element);
  };
  ended.signal.addEventListener("abort", () => plot.destroy());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw, { signal: ended.signal });
  const resized = new ResizeObserver(() => {
    if (!element.isConnected) ended.abort();
    else if (plot && plot.width !== element.clientWidth) plot.setSize({ width: element.clientWidth, height: HEIGHT });
  });
  resized.observe(element);
  ended.signal.addEventListener("abort", () => resized.disconnect());
  draw();
}

/** The columns of uPlot: the days, then the sums up to each series, the highest first so that the lower cover it. */
function stacked({ days, series }) {
  const sums = days.map(() => 0);
  const columns = series.map(({ values }) => values.map((value, day) => (sums[day] += value)));
  return [days.map((day) => new Date(`${day}T00:00`).getTime() / 1000), ...columns.reverse()];
}

function options(element, { days, series }, { unit, language, readout }) {
  const number = new Intl.NumberFormat(language, unit === "$" ? { style: "currency", currency: "USD", maximumFractionDigits: 4 } : {});
  const day = new Intl.DateTimeFormat(language, { day: "numeric", month: "short" });
  const colour = (name) => resolved(element, name);
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  const bars = uPlot.paths.bars({ size: [0.7, 48], align: 0, radius: 0.1 });
  const text = (value) => (unit === "$" ? number.format(value) : `${number.format(value)} ${unit}`);
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: { x: { range: (_, least, most) => [least - 43_200, most + 43_200] }, y: { range: (_, __, most) => [0, (most || 1) * 1.08] } },
    axes: [
      { ...axis, grid: { show: false }, size: 28, space: 64, incrs: [86_400, 2 * 86_400, 5 * 86_400, 7 * 86_400, 14 * 86_400, 28 * 86_400], values: (_, times) => times.map((time) => day.format(time * 1000)) },
      { ...axis, size: 64, values: (_, values) => values.map((value) => number.format(value)) },
    ],
    series: [
      {},
      ...series.map((_, index) => {
        const drawn = colour(`--series-${series.length - index}`);
        return { fill: drawn, stroke: drawn, width: 0, paths: bars, points: { show: false } };
      }),
    ],
    hooks: {
      setCursor: [
        ({ cursor: { idx } }) => {
          if (idx == null) readout.textContent = "";
          else readout.textContent = [day.format(new Date(`${days[idx]}T00:00`)), ...series.filter(({ values }) => values[idx]).map(({ name, values }) => `${name}: ${text(values[idx])}`)].join(" · ");
        },
      ],
    },
  };
}

/** The colour that a variable of the style sheet has now, in the light or in the dark scheme. */
function resolved(element, name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
