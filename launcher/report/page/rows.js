"use strict";
// The data of the page. #data is the sweep: `rows` of trials that are compared, and `trials` with curves,
// configs and logs.

const data = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);
const smallerIsBetter = data.goal !== "max";
const kMostCurves = 24; // more in one chart would be unreadable
const kColors = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c6bb1", "#a6761d", "#66a61e", "#e7298a"];
const kDashes = ["solid", "dash", "dot", "dashdot"];

function made(tag, text = "", attributes = {}) {
  const result = document.createElement(tag);
  result.textContent = text;
  for (const [name, value] of Object.entries(attributes)) result.setAttribute(name, value);
  return result;
}

// --- numbers for people, as the launcher writes them ----------------------------------------------------------------

// As rounded() of base/text/number_text does: an integer with more digits is written in full.
const rounded = (value, digits) =>
  String(Math.abs(value) >= 10 ** digits ? Math.round(value) : Number(value.toPrecision(digits)));

// As count_text() of base/text/count_text does.
const countText = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;

// The largest unit in which the value, in three digits, is at least 1.
const inUnits = (value, units) => units.find(([size]) => value >= 0.9995 * size) ?? units[units.length - 1];
const kByteUnits = [[1e15, "PB"], [1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
const kTimeUnits = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]];

// As duration_text() of base/text/duration_text does.
function durationText(seconds) {
  const inTwo = (time, size, large, small) =>
    `${Math.floor(time / size)} ${large}${time % size ? ` ${time % size} ${small}` : ""}`;
  if (seconds >= 3599.5) return inTwo(Math.round(seconds / 60), 60, "h", "min");
  if (seconds >= 59.95) return inTwo(Math.round(seconds), 60, "min", "s");
  const [size, name] = seconds ? inUnits(seconds, kTimeUnits) : kTimeUnits[0];
  return `${rounded(seconds / size, 3)} ${name}`;
}

function measured(value, units, digits) {
  if (!value) return "";
  const [size, name] = units ? inUnits(Math.abs(value.mean), units) : [1, ""];
  const spread = value.spread > 1e-9 * Math.abs(value.mean) ? ` ± ${rounded(value.spread / size, 2)}` : "";
  return `${rounded(value.mean / size, digits)}${spread}${name ? " " + name : ""}`;
}

const labelOf = (row) => row.label || "(as the config has it)";

// All values that not all rows have, one a line. A row's name is a short form of this.
const settingOf = (row) => Object.entries(row.values).filter(([key, value]) => data.same[key] !== value)
  .map(([key, value]) => `${key} = ${value}`).join("\n") || labelOf(row);

// Are all trials done? Otherwise the mean of those that are done would make the row look too good.
const isWhole = (row) => row.failed + row.stopped + row.waiting === 0;

// --- the columns of the table, which are the axes of charts too -------------------------------------------------------

const metricTitle = data.metric ? data.metric + (data.metric_value === "best" ? ", best" : "") : "metric";
const kColumns = [
  { name: "row", title: "Row", text: labelOf, sort: labelOf },
  { name: "metric", title: metricTitle, digits: 5, better: smallerIsBetter ? "low" : "high" },
  { name: "step_seconds", title: "Step", units: kTimeUnits, better: "low", axis: "time of a step" },
  { name: "trial_seconds", title: "Trial", units: kTimeUnits, better: "low", axis: "time of a trial" },
  { name: "bytes_per_step", title: "Sent per step", units: kByteUnits, better: "low", axis: "what a rank sends in a step" },
  { name: "compression", title: "Compression", suffix: "×", better: "high", axis: "compression" },
  { name: "peak_memory_bytes", title: "Memory", units: kByteUnits, better: "low", axis: "peak memory of a rank" },
  {
    name: "peak_gpu_memory_bytes", title: "GPU memory", units: kByteUnits, better: "low",
    axis: "peak memory of a rank's tensors on its GPU",
  },
  { name: "speedup", title: "Speed-up", suffix: "×", better: "high", axis: "speed-up over the baseline" },
  {
    name: "trials", title: "Trials",
    text: (row) => [[row.done, "done"], [row.failed, "failed"], [row.stopped, "stopped early"], [row.waiting, "to come"]]
      .filter(([count]) => count).map(([count, what]) => `${count} ${what}`).join(", "),
    sort: (row) => row.done,
    isBad: (row) => row.failed > 0,
  },
].filter((column) => column.text || data.rows.some((row) => row[column.name]));

const cellText = (column, row) =>
  column.text ? column.text(row) : measured(row[column.name], column.units, column.digits ?? 3) + (row[column.name] && column.suffix ? column.suffix : "");
const cellValue = (column, row) => (column.sort ? column.sort(row) : row[column.name]?.mean);

// --- what is shown -----------------------------------------------------------------------------------------------------

const sweeps = [...new Set(data.rows.map((row) => row.values.sweep))].sort();
const trialsOf = data.rows.map(() => []);
for (const trial of data.trials) trialsOf[trial.row].push(trial);
const logged = [...new Set(data.trials.flatMap((trial) => Object.keys(trial.series)))].sort();
const state = {
  filter: "",
  metric: logged.includes(data.metric) ? data.metric : logged.find((name) => name !== "compression_error") ?? "",
  sort: null, // null: best first
  open: new Set(),
};

const searched = data.rows.map((row) =>
  [labelOf(row), row.name, ...Object.entries(row.values).map(([key, value]) => `${key}=${value}`), row.baseline ? "baseline" : ""]
    .join(" ").toLowerCase());

function shownRows() {
  const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
  return data.rows.map((_, index) => index).filter((index) => words.every((word) => searched[index].includes(word)));
}

// Rows that are drawn as curves: the best ones and the baseline, or each sweep's baseline.
const baselines = data.rows.map((_, index) => index).filter((index) => data.rows[index].baseline);
function drawnRows(rows) {
  const first = rows.slice(0, kMostCurves);
  return [...first, ...rows.filter((index) => baselines.includes(index) && !first.includes(index))];
}
