"use strict";
// Shows what is in #data: the sweep, `rows` of trials that are compared, and `trials` with their curves, configs and logs.

const data = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);
const smallerIsBetter = data.goal !== "max";
const kMostCurves = 24; // more in one chart tell nobody anything
const kColors = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c6bb1", "#a6761d", "#66a61e", "#e7298a"];
const kDashes = ["solid", "dash", "dot", "dashdot"];

// --- numbers for people ---------------------------------------------------------------------------------------------

const digits = (value, count = 4) => String(Number(value.toPrecision(count)));

function inUnits(value, units) {
  const [size, name] = units.find(([least]) => value >= least) ?? units[units.length - 1];
  return [size, name];
}
const kByteUnits = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
const kTimeUnits = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]];

function measured(value, units) {
  if (!value) return "";
  const [size, name] = units ? inUnits(Math.abs(value.mean), units) : [1, ""];
  const spread = value.spread > 1e-9 * Math.abs(value.mean) ? ` ± ${digits(value.spread / size, 2)}` : "";
  return `${digits(value.mean / size)}${spread}${name ? " " + name : ""}`;
}

const labelOf = (row) => row.label || "(as the config has it)";

// All its trials are done: the mean of those that are left of others would flatter them.
const isWhole = (row) => row.failed + row.stopped + row.waiting === 0;

// --- the columns of the table, which are the axes of charts too -------------------------------------------------------

const metricTitle = data.metric ? data.metric + (data.metric_value === "best" ? ", best" : "") : "metric";
const kColumns = [
  { name: "row", title: "Row", text: labelOf, sort: labelOf },
  { name: "metric", title: metricTitle, better: smallerIsBetter ? "low" : "high" },
  { name: "step_seconds", title: "Step", units: kTimeUnits, better: "low", axis: "seconds a step" },
  { name: "trial_seconds", title: "Trial", units: kTimeUnits, better: "low", axis: "seconds a trial" },
  { name: "bytes_per_step", title: "Sent a step", units: kByteUnits, better: "low", axis: "bytes a rank sends in a step" },
  { name: "compression", title: "Compression", suffix: "×", better: "high", axis: "compression" },
  { name: "peak_memory_bytes", title: "Memory", units: kByteUnits, better: "low", axis: "peak memory of a rank, bytes" },
  {
    name: "peak_gpu_memory_bytes", title: "GPU memory", units: kByteUnits, better: "low",
    axis: "peak memory of a rank's tensors on its GPU, bytes",
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
  column.text ? column.text(row) : measured(row[column.name], column.units) + (row[column.name] && column.suffix ? column.suffix : "");
const cellValue = (column, row) => (column.sort ? column.sort(row) : row[column.name]?.mean);

// --- what is shown -----------------------------------------------------------------------------------------------------

const trialsOf = data.rows.map(() => []);
for (const trial of data.trials) trialsOf[trial.row].push(trial);
const logged = [...new Set(data.trials.flatMap((trial) => Object.keys(trial.series)))].sort();
const state = {
  filter: "",
  metric: logged.includes(data.metric) ? data.metric : logged.find((name) => name !== "compression_error") ?? "",
  sort: null, // {column, ascending}; null: the best first
  open: new Set(),
};

const searched = data.rows.map((row) =>
  [labelOf(row), ...Object.entries(row.values).map(([key, value]) => `${key}=${value}`), row.baseline ? "baseline" : ""]
    .join(" ").toLowerCase());

function shownRows() {
  const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
  return data.rows.map((_, index) => index).filter((index) => words.every((word) => searched[index].includes(word)));
}

// Rows as curves: the best ones, and the baseline, or each sweep's.
const baselines = data.rows.map((_, index) => index).filter((index) => data.rows[index].baseline);
function drawnRows(rows) {
  const first = rows.slice(0, kMostCurves);
  return [...first, ...rows.filter((index) => baselines.includes(index) && !first.includes(index))];
}

// --- charts --------------------------------------------------------------------------------------------------------------

const isDark = () => !matchMedia("print").matches && matchMedia("(prefers-color-scheme: dark)").matches;
const colorOf = (index) => (data.rows[index].baseline ? (isDark() ? "#ffffff" : "#000000") : kColors[index % kColors.length]);
const dashOf = (index) =>
  kDashes[(data.rows[index].baseline ? baselines.indexOf(index) : Math.floor(index / kColors.length)) % kDashes.length];

function layout(x, y, more = {}) {
  const ink = isDark() ? "#c6d0dc" : "#333d49";
  const line = isDark() ? "#2d3642" : "#dde3ea";
  const axis = (title, extra = {}) => ({
    title: { text: title }, gridcolor: line, linecolor: line, zeroline: false, automargin: true, exponentformat: "SI", ...extra,
  });
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12 },
    margin: { l: 60, r: 15, t: 10, b: 45 }, hovermode: "closest", showlegend: false,
    modebar: { bgcolor: "rgba(0,0,0,0)", color: line, activecolor: ink }, // always there where nothing hovers
    xaxis: axis(x, more.xaxis), yaxis: axis(y, more.yaxis), ...more.layout,
  };
}

// One curve a row: that of its best trial, or else of the first that logged anything.
function curves(rows, metric, x) {
  return drawnRows(rows).flatMap((index) => {
    const trials = trialsOf[index].filter((trial) => trial.series[metric]?.[x].some((value) => value !== null));
    const trial = trials.find((each) => each.id === data.rows[index].best_id) ?? trials[0];
    if (!trial) return [];
    const points = trial.series[metric];
    return [{
      type: "scatter", mode: points.value.length > 60 ? "lines" : "lines+markers", name: labelOf(data.rows[index]),
      x: points[x], y: points.value, line: { color: colorOf(index), dash: dashOf(index), width: data.rows[index].baseline ? 3 : 1.7 },
      marker: { size: 5 },
    }];
  });
}

function points(rows, x, y) {
  const known = rows.filter((index) => data.rows[index][x.name] && data.rows[index][y.name]);
  const valuesOf = (column) => known.map((index) => data.rows[index][column.name].mean);
  const spreadOf = (column) => ({
    type: "data", array: known.map((index) => data.rows[index][column.name].spread), width: 3, thickness: 1, color: isDark() ? "#7d8a9b" : "#8b95a3",
  });
  return { known, xs: valuesOf(x), ys: valuesOf(y), x_spread: spreadOf(x), y_spread: spreadOf(y) };
}

// Of `candidates`, places in `xs` and `ys`, those that none beats in both.
function paretoFront(candidates, xs, ys, x, y) {
  const signed = (value, column) => (column.better === "low" ? value : -value);
  const order = [...candidates].sort((a, b) => signed(xs[a], x) - signed(xs[b], x) || signed(ys[a], y) - signed(ys[b], y));
  let best = Infinity;
  return order.filter((i) => signed(ys[i], y) < best && ((best = signed(ys[i], y)), true));
}

function pareto(rows, x, y) {
  const { known, xs, ys, x_spread, y_spread } = points(rows, x, y);
  if (!known.length) return null;
  const ofRows = known.map((index) => data.rows[index]);
  // What one network allows is no choice on another: each sweep has its own front.
  const fronts = sweeps.flatMap((sweep, i) => {
    const candidates = ofRows.flatMap((row, at) => (row.values.sweep === sweep && isWhole(row) ? [at] : []));
    if (!candidates.length) return [];
    const front = paretoFront(candidates, xs, ys, x, y);
    const color = sweeps.length > 1 ? kColors[i % kColors.length] : isDark() ? "#9aa7b8" : "#5b6675";
    return [{
      type: "scatter", mode: "lines", name: sweeps.length > 1 ? `Pareto front, ${sweep}` : "Pareto front",
      x: front.map((at) => xs[at]), y: front.map((at) => ys[at]),
      line: { shape: x.better === "low" ? "hv" : "vh", color, dash: "dot" }, hoverinfo: "skip",
    }];
  });
  const legend = { showlegend: true, legend: { orientation: "h", y: 1.12 } };
  return {
    traces: [
      {
        type: "scatter", mode: "markers", name: "rows", x: xs, y: ys, error_x: x_spread, error_y: y_spread,
        text: ofRows.map((row) => (isWhole(row) ? labelOf(row) : `${labelOf(row)}<br>in no front: ${columnNamed("trials").text(row)}`)),
        hovertemplate: "%{text}<br>%{x}, %{y}<extra></extra>",
        marker: { size: 10, color: known.map(colorOf), symbol: ofRows.map((row) => (isWhole(row) ? "circle" : "circle-open")) },
      },
      ...fronts,
    ],
    layout: layout(x.axis, y.title, {
      xaxis: { type: xs.every((value) => value > 0) ? "log" : "linear" }, layout: sweeps.length > 1 ? legend : {},
    }),
  };
}

const kPhases = [
  ["forward", "forward"], ["backward", "backward"], ["exposed_communication", "exposed communication"], ["optimizer", "optimizer"],
  ["other", "other (data, evaluation)"],
];

// As the table has them: what others than those that are done have measured is of a part of a run, or of the one before.
const measuresOf = (trial) => (trial.status === "done" ? trial.measures : {});

// A bar a row, of the parts of what its trials have measured as `measure`; `parts`: [name, title] of each.
function stackedBars(rows, measure, parts, xTitle) {
  const measuredOf = (index) => trialsOf[index].map((trial) => measuresOf(trial)[measure]).filter(Boolean);
  const known = drawnRows(rows).filter((index) => measuredOf(index).length).reverse(); // the first is drawn lowest
  if (!known.length) return null;
  const mean = (index, part) => measuredOf(index).reduce((sum, each) => sum + (each[part] ?? 0), 0) / measuredOf(index).length;
  return {
    traces: parts.map(([part, title], i) => ({
      type: "bar", orientation: "h", name: title, y: known.map((index) => labelOf(data.rows[index])),
      x: known.map((index) => mean(index, part)), marker: { color: kColors[i] },
    })),
    layout: layout(xTitle, "", { layout: { barmode: "stack", showlegend: true, legend: { orientation: "h", y: 1.12 } }, yaxis: { type: "category" } }),
  };
}

const phases = (rows) => stackedBars(rows, "phase_seconds", kPhases, "seconds a step");

// If any hook sends in more than one stage.
function stages(rows) {
  const names = new Set(data.trials.flatMap((trial) => Object.keys(measuresOf(trial).stage_bytes ?? {})));
  return names.size > 1 ? stackedBars(rows, "stage_bytes", [...names].map((name) => [name, name]), "bytes that a rank sends in a step") : null;
}

// Of the best row whose hook was chosen in the run: what a step was predicted to take with each, and what it took with those that were used.
function predictions(rows) {
  const chosen = rows.flatMap((index) => trialsOf[index].flatMap((trial) => (measuresOf(trial).models ?? []).flatMap((model) => model.choice ?? [])));
  const settings = (chosen.find((choice) => choice.chosen)?.settings ?? []).slice().reverse(); // the first is drawn lowest
  if (!settings.length) return null;
  const bars = (name, field, color) => ({
    type: "bar", orientation: "h", name, y: settings.map((setting) => setting.name), x: settings.map((setting) => setting[field]), marker: { color },
  });
  return {
    traces: [bars("measured", "measured_seconds", kColors[1]), bars("predicted", "predicted_seconds", kColors[0])],
    layout: layout("seconds a step", "", {
      layout: { barmode: "group", showlegend: true, legend: { orientation: "h", y: 1.12, traceorder: "reversed" } }, yaxis: { type: "category" },
    }),
  };
}

// Of several sweeps: where each row wins. Rows of the same values are one group, a bar a sweep.
function speedups(rows) {
  const known = rows.map((index) => data.rows[index]).filter((row) => row.speedup && row.values.sweep !== undefined);
  if (new Set(known.map((row) => row.values.sweep)).size < 2) return null;
  const nameOf = (row) => row.own_label || "(as the config has it)";
  const names = [...new Set(known.map(nameOf))].slice(0, kMostCurves).reverse(); // the first is drawn lowest
  return {
    traces: sweeps.map((sweep, i) => {
      const of = (name) => known.find((row) => row.values.sweep === sweep && nameOf(row) === name)?.speedup;
      return {
        type: "bar", orientation: "h", name: sweep, y: names, x: names.map((name) => of(name)?.mean ?? null),
        error_x: { type: "data", array: names.map((name) => of(name)?.spread ?? 0), thickness: 1 }, marker: { color: kColors[i % kColors.length] },
      };
    }).reverse(),
    layout: layout("times the speed of the sweep's baseline", "", {
      layout: { barmode: "group", showlegend: true, legend: { orientation: "h", y: 1.12, traceorder: "reversed" },
        shapes: [{ type: "line", x0: 1, x1: 1, y0: 0, y1: 1, yref: "paper", line: { width: 1, dash: "dot" } }] },
      yaxis: { type: "category" },
    }),
  };
}

const kNoWebGl = "This browser has no WebGL, which this chart needs.";
const hasWebGl = (() => {
  const canvas = document.createElement("canvas");
  return Boolean(canvas.getContext("webgl2") || canvas.getContext("webgl"));
})();

// What is the same in all rows is no axis.
function coordinates(rows) {
  const keys = [...new Set(data.rows.flatMap((row) => Object.keys(row.values)))].filter(
    (key) => new Set(data.rows.map((row) => row.values[key]).filter((value) => value !== undefined)).size > 1);
  const tried = rows.filter((index) => data.rows[index].done);
  if (!keys.length || tried.length < 2) return null;
  const ofOptions = keys.map((key) => {
    const texts = tried.map((index) => data.rows[index].values[key] ?? "–");
    const label = key.split(".").pop();
    if (texts.every((text) => text !== "" && Number.isFinite(Number(text)))) return { label, values: texts.map(Number) };
    const names = [...new Set(texts)].sort();
    return { label, values: texts.map((text) => names.indexOf(text)), tickvals: names.map((_, i) => i), ticktext: names, range: [-0.2, names.length - 0.8] };
  });
  const ofResults = kColumns.filter((column) => !column.text && column.name !== "trial_seconds").flatMap((column) => {
    if (!tried.every((index) => data.rows[index][column.name])) return [];
    return [{ label: column.axis ?? column.title, values: tried.map((index) => data.rows[index][column.name].mean) }];
  });
  const colored = ofResults[0] ?? ofOptions[0];
  return {
    traces: [{
      type: "parcoords", dimensions: [...ofOptions, ...ofResults],
      line: { color: colored.values, colorscale: "Viridis", reversescale: smallerIsBetter, showscale: true, colorbar: { title: { text: colored.label } } },
      labelfont: { size: 12 }, labelangle: -12,
    }],
    layout: layout("", "", { layout: { margin: { l: 110, r: 40, t: 90, b: 30 } } }),
    needsWebGl: true,
  };
}

const columnNamed = (name) => kColumns.find((column) => column.name === name);
const curveChart = (metric, x, xTitle, more = {}) => (rows) => {
  const traces = curves(rows, metric(), x);
  return traces.length ? { traces, layout: layout(xTitle, metric(), more) } : null;
};
const paretoChart = (x) => (rows) => (columnNamed(x) && columnNamed("metric") ? pareto(rows, columnNamed(x), columnNamed("metric")) : null);
const kOfBest = "of each row its best trial";
const kOfFront = "dotted: rows that no other of their sweep beats in both; open circles: rows in no front, since not all their trials are done";

const kCharts = [
  { id: "metric-by-time", isOfSome: true, title: () => `${state.metric} by time`, note: kOfBest, draw: curveChart(() => state.metric, "seconds", "seconds since the start", { xaxis: { exponentformat: "none" } }) },
  { id: "metric-by-bytes", isOfSome: true, title: () => `${state.metric} by bytes sent`, note: kOfBest, draw: curveChart(() => state.metric, "bytes_sent", "bytes that a rank has sent") },
  { id: "metric-by-step", isOfSome: true, title: () => `${state.metric} by step`, note: kOfBest, draw: curveChart(() => state.metric, "step", "step", { xaxis: { exponentformat: "none" } }) },
  { id: "compression-error", isOfSome: true, title: () => "Compression error by step", note: "‖averaged by the hook − exact average‖ / ‖exact average‖, on sampled steps", draw: curveChart(() => "compression_error", "step", "step", { xaxis: { exponentformat: "none" } }) },
  { id: "speedups", isOfSome: true, title: () => "Where each row wins", note: "speed-up by the time of a step, over the baseline of the same sweep", draw: speedups, isBroad: true },
  { id: "pareto-time", title: () => `${metricTitle} and the time of a step`, note: kOfFront, draw: paretoChart("step_seconds") },
  { id: "pareto-bytes", title: () => `${metricTitle} and bytes sent a step`, note: kOfFront, draw: paretoChart("bytes_per_step") },
  { id: "phases", isOfSome: true, title: () => "Where the time of a step goes", note: "means, where the table has medians; exposed communication: the ranks wait for nothing else", draw: phases, isBroad: true },
  { id: "stages", isOfSome: true, title: () => "What a step sends", note: "by the stages of a hook's collectives; on average over all steps, those before it compresses too", draw: stages, isBroad: true },
  { id: "predictions", title: () => "What auto predicted", note: "of the best row with comm_hook = \"auto\", as its last choice was made; measured: settings that were in use", draw: predictions, isBroad: true },
  { id: "parallel", title: () => "Options and results", note: "drag along an axis to choose a part of it", draw: coordinates, isBroad: true },
];

const kPlotOptions = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };

// The place of a chart, made or taken away as it has something to show.
function figureOf(chart, isShown) {
  const known = element(chart.id);
  if (known || !isShown) {
    if (!isShown && known) Plotly.purge(known.querySelector(".plot")), known.remove();
    return known;
  }
  const figure = made("figure", "", { id: chart.id, class: chart.isBroad ? "broad" : "" });
  figure.append(made("h2"), made("p", "", { class: "note" }), made("div", "", { class: "plot" }));
  const after = kCharts.slice(kCharts.indexOf(chart) + 1).map((each) => element(each.id)).find(Boolean);
  element("charts").insertBefore(figure, after ?? null);
  return figure;
}

// One legend for all curves and points.
function drawLegend(rows) {
  const swatch = (index) => {
    const item = made("li");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const dashes = { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };
    line.setAttribute("viewBox", "0 0 30 6");
    line.innerHTML = `<path d="M0 3H30" stroke="${colorOf(index)}" stroke-width="3" stroke-dasharray="${dashes[dashOf(index)]}"/>`;
    item.append(line, made("span", labelOf(data.rows[index])));
    return item;
  };
  element("legend").replaceChildren(...drawnRows(rows).map(swatch));
}

async function drawCharts(rows) {
  drawLegend(rows);
  const drawings = kCharts.map((chart) => ({ chart, drawn: chart.draw(rows) }));
  const figures = drawings.map(({ chart, drawn }) => figureOf(chart, Boolean(drawn))); // all first: they share the width
  for (const [i, { chart, drawn }] of drawings.entries()) {
    if (!drawn) continue;
    figures[i].querySelector("h2").textContent = chart.title();
    const isCut = chart.isOfSome && drawnRows(rows).length < rows.length;
    figures[i].querySelector(".note").textContent =
      chart.note + (isCut ? `; the ${drawnRows(rows).length} best of ${rows.length} rows: filter to see others` : "");
    const plot = figures[i].querySelector(".plot");
    if (drawn.needsWebGl && !hasWebGl) plot.textContent = kNoWebGl;
    else await Plotly.react(plot, drawn.traces, drawn.layout, kPlotOptions);
  }
}

// --- the table -------------------------------------------------------------------------------------------------------------

function made(tag, text = "", attributes = {}) {
  const result = document.createElement(tag);
  result.textContent = text;
  for (const [name, value] of Object.entries(attributes)) result.setAttribute(name, value);
  return result;
}

function sorted(rows) {
  if (!state.sort) return rows;
  const { column, ascending } = state.sort;
  return [...rows].sort((a, b) => {
    const [left, right] = [cellValue(column, data.rows[a]), cellValue(column, data.rows[b])];
    if (left === undefined || right === undefined) return (left === undefined) - (right === undefined); // last, either way
    const order = typeof left === "string" ? left.localeCompare(right, "en", { numeric: true }) : left - right;
    return ascending ? order : -order;
  });
}

function headerCell(column) {
  const cell = made("th", "", { scope: "col" });
  const button = made("button", column.title, { type: "button" });
  const isSorted = state.sort?.column === column;
  cell.setAttribute("aria-sort", isSorted ? (state.sort.ascending ? "ascending" : "descending") : "none");
  button.addEventListener("click", () => {
    state.sort = { column, ascending: isSorted ? !state.sort.ascending : column.better !== "high" };
    drawTable(shownRows());
    element("table").querySelectorAll("th button")[kColumns.indexOf(column)].focus();
  });
  cell.append(button);
  return cell;
}

function disclosed(title, text) {
  const details = made("details");
  details.append(made("summary", title), made("pre", text));
  return details;
}

function trialDetail(trial) {
  const result = made("div");
  const facts = [`${trial.id}: ${trial.status}`];
  if (trial.values["training.seed"] !== undefined) facts.push(`seed ${trial.values["training.seed"]}`);
  if (trial.metric !== null) facts.push(`${metricTitle} ${digits(trial.metric, 6)}`);
  if (trial.seconds !== null) facts.push(`${digits(trial.seconds, 3)} s`);
  result.append(made("strong", facts.join(", ")));
  if (trial.reason) result.append(made("div", trial.reason, { class: "failed" }));
  result.append(made("div"));
  result.lastChild.append(made("code", trial.program.join(" ")));
  if (trial.config) result.append(disclosed("Config", trial.config));
  if (trial.log) result.append(disclosed("End of the log", trial.log));
  return result;
}

function tableRows(index) {
  const row = data.rows[index];
  const isOpen = state.open.has(index);
  const line = made("tr", "", { class: "row" + (row.baseline ? " baseline" : ""), tabindex: "0", "aria-expanded": String(isOpen) });
  for (const column of kColumns) line.append(made("td", cellText(column, row), column.isBad?.(row) ? { class: "failed" } : {}));
  const toggle = () => {
    isOpen ? state.open.delete(index) : state.open.add(index);
    const before = [line, ...(isOpen ? [line.nextSibling] : [])];
    const after = tableRows(index);
    line.replaceWith(...after);
    before.slice(1).forEach((each) => each.remove());
    after[0].focus();
  };
  line.addEventListener("click", toggle);
  line.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    toggle();
  });
  if (!isOpen) return [line];
  const detail = made("tr", "", { class: "detail" });
  const cell = made("td", "", { colspan: String(kColumns.length) });
  cell.append(...trialsOf[index].map(trialDetail));
  detail.append(cell);
  return [line, detail];
}

function drawTable(rows) {
  const header = made("tr");
  header.append(...kColumns.map(headerCell));
  element("table").tHead.replaceChildren(header);
  element("table").tBodies[0].replaceChildren(...sorted(rows).flatMap(tableRows));
}

// --- the page -----------------------------------------------------------------------------------------------------------------

// With its spread, which one trial does not have.
function withSpread(value, row) {
  const text = measured(value);
  return text.includes("±") || row.done < 2 ? text : `${text} ± 0`;
}

// What speaks for a row of a sweep.
function merits(row, baseline) {
  const parts = [`${metricTitle} ${withSpread(row.metric, row)}`];
  if (baseline && baseline !== row && baseline.metric) parts[0] += ` (baseline ${withSpread(baseline.metric, baseline)})`;
  if (row.speedup) parts.push(`${withSpread(row.speedup, row)} times the baseline's speed`);
  if (row.compression && row.compression.mean > 1.005) parts.push(`${withSpread(row.compression, row)} times fewer bytes than the gradients have`);
  return `${labelOf(row)}${row.done === 1 ? " (one trial, so no spread is known)" : ""}: ${parts.join("; ")}.`;
}

// Of one sweep.
function verdictOf(rows) {
  const best = rows.find((row) => row.best_id);
  if (!best) return "";
  const baseline = rows.find((row) => row.baseline);
  const fastest = rows.find((row) => row.fastest);
  const lines = [`Best: ${merits(best, baseline)}`];
  if (fastest && fastest !== best) lines.push(`As good, within the best's spread, and the fastest: ${merits(fastest, baseline)}`);
  return lines.join("\n");
}

const sweeps = [...new Set(data.rows.map((row) => row.values.sweep))].sort();

function verdict() {
  if (!data.trials.length) return "The sweep has no trials.";
  const verdicts = sweeps.map((sweep) => verdictOf(data.rows.filter((row) => row.values.sweep === sweep)));
  const lines = verdicts.filter(Boolean);
  if (!lines.length) lines.push("No trial has a value of the metric.");
  return [...lines, ...data.remarks.map((remark) => `Note: ${remark}.`)].join("\n");
}

function count(number, what) {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function describe() {
  element("name").textContent = data.name || "Sweep";
  const by = (status) => data.trials.filter((trial) => trial.status === status).length;
  const states = [["done", "done"], ["failed", "failed"], ["stopped", "stopped early"], ["running", "running"], ["interrupted", "interrupted"], ["waiting", "to come"]];
  element("state").textContent = [count(data.trials.length, "trial"), ...states.filter(([status]) => by(status))
    .map(([status, title]) => `${by(status)} ${title}`)].join(", ") +
    (by("interrupted") ? ". Nobody runs the sweep any more: the same command continues it." : "");
  element("verdict").textContent = verdict();
  const same = Object.entries(data.same).map(([key, value]) => `${key} = ${value}`).join(", ");
  const how = [
    ["Command", data.command], ["Machine", data.machine], ["Begun", data.began && data.began + " UTC"],
    ["Compared by", data.metric && `${metricTitle}, ${smallerIsBetter ? "the smaller" : "the greater"} the better`],
    ["In every trial", same], ["Report made", data.made], ["hookline", data.version],
  ];
  for (const [title, text] of how) if (text) element("how").append(made("dt", title), made("dd", text));
  element("metric-choice").hidden = logged.length < 2;
  for (const name of logged) element("metric").append(made("option", name));
  element("metric").value = state.metric;
}

let drawing = Promise.resolve();
function draw() {
  const rows = shownRows();
  element("shown").textContent = rows.length === data.rows.length ? count(rows.length, "row") : `${rows.length} of ${count(data.rows.length, "row")}`;
  drawTable(rows);
  drawing = drawing.then(() => drawCharts(rows));
  return drawing;
}

// For `hookline report --plots`: every chart as a picture, in an element that is read from the page's text.
async function writePlots(format) {
  const pictures = {};
  for (const figure of document.querySelectorAll("figure")) {
    const plot = figure.querySelector(".plot");
    if (!plot.data) continue;
    const layout = {
      ...plot.layout, title: { text: figure.querySelector("h2").textContent }, paper_bgcolor: "#fff",
      margin: { ...plot.layout.margin, t: plot.layout.margin.t + 50 }, showlegend: true,
      legend: { orientation: "v", x: 0, y: -0.17, yanchor: "top", traceorder: plot.layout.legend?.traceorder },
    };
    const height = 520 + 20 * plot.data.filter((trace) => trace.name).length;
    const picture = { data: plot.data, layout };
    pictures[figure.id] = await Plotly.toImage(picture, { format, width: 1000, height, scale: format === "png" ? 2 : 1 });
  }
  document.body.replaceChildren(made("pre", btoa(JSON.stringify(pictures)), { id: "plots" }));
}

element("filter").addEventListener("input", (event) => {
  state.filter = event.target.value;
  draw();
});
element("metric").addEventListener("change", (event) => {
  state.metric = event.target.value;
  draw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
matchMedia("print").addEventListener("change", draw);
describe();
draw().then(() => {
  const asked = location.hash.match(/^#plots=(png|svg)$/);
  if (asked) return writePlots(asked[1]);
  document.body.dataset.drawn = "true";
});
