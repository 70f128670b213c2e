// The charts: each row of kCharts draws rows as traces of plotly.js, or returns null if there is nothing to
// show.

const isDark = () => !matchMedia("print").matches && matchMedia("(prefers-color-scheme: dark)").matches;
const colorOf = (index) => (data.rows[index].baseline ? (isDark() ? "#ffffff" : "#000000") : kColors[index % kColors.length]);
const dashOf = (index) =>
  kDashes[(data.rows[index].baseline ? baselines.indexOf(index) : Math.floor(index / kColors.length)) % kDashes.length];

// Text for plotly.js, which interprets some HTML.
const inPlot = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("\n", "<br>");

// An axis whose numbers have a unit: "5ms", "20ms".
const inUnit = (unit) => (unit ? { tickformat: "~s", hoverformat: ".4~s", ticksuffix: unit } : {});

// A log axis with plain numbers. Without a format, plotly.js would write the ticks between powers of ten as
// small single digits; with more ticks, all from 1 to 9.
const kLogScale = { type: "log", nticks: 3, tickformat: "~g", hoverformat: ".4~g" };

const kButtonsHeight = 34; // of plotly.js's buttons, which sit above the plot

function layout(x, y, more = {}) {
  const ink = isDark() ? "#c6d0dc" : "#333d49";
  const line = isDark() ? "#2d3642" : "#dde3ea";
  const axis = (title, extra = {}) => ({
    title: { text: title }, gridcolor: line, linecolor: line, zeroline: false, automargin: true, exponentformat: "power", ...extra,
  });
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12 },
    margin: { l: 60, r: 15, t: kButtonsHeight, b: 45 }, hovermode: "closest", showlegend: false,
    modebar: { bgcolor: "rgba(0,0,0,0)", color: line, activecolor: ink }, // on touch screens, plotly.js always shows it
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
      type: "scatter", mode: points.value.length > 60 ? "lines" : "lines+markers", name: inPlot(data.rows[index].name),
      meta: inPlot(settingOf(data.rows[index])), hovertemplate: "%{meta}<br>%{x}, %{y}<extra></extra>",
      x: points[x], y: points.value, line: { color: colorOf(index), dash: dashOf(index), width: data.rows[index].baseline ? 3 : 1.7 },
      marker: { size: 5 },
    }];
  });
}

// `x` in the unit that suits the largest value, and `y` as it is.
function points(rows, x, y) {
  const known = rows.filter((index) => data.rows[index][x.name] && data.rows[index][y.name]);
  const [size, unit] = inUnits(Math.max(...known.map((index) => data.rows[index][x.name].mean)), x.units);
  const scaled = (column, member) => known.map((index) => data.rows[index][column.name][member] / (column === x ? size : 1));
  const valuesOf = (column) => scaled(column, "mean");
  const spreadOf = (column) => ({
    type: "data", array: scaled(column, "spread"), width: 3, thickness: 1, color: isDark() ? "#7d8a9b" : "#8b95a3",
  });
  return { known, unit, xs: valuesOf(x), ys: valuesOf(y), x_spread: spreadOf(x), y_spread: spreadOf(y) };
}

// Those of `candidates`, which index `xs` and `ys`, that no other beats in both.
function paretoFront(candidates, xs, ys, x, y) {
  const signed = (value, column) => (column.better === "low" ? value : -value);
  const order = [...candidates].sort((a, b) => signed(xs[a], x) - signed(xs[b], x) || signed(ys[a], y) - signed(ys[b], y));
  let best = Infinity;
  return order.filter((i) => signed(ys[i], y) < best && ((best = signed(ys[i], y)), true));
}

function pareto(rows, x, y) {
  const { known, unit, xs, ys, x_spread, y_spread } = points(rows, x, y);
  if (!known.length) return null;
  const ofRows = known.map((index) => data.rows[index]);
  // A choice on one network is not available on another, so each sweep has its own front.
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
  return {
    traces: [
      {
        type: "scatter", mode: "markers", name: "rows", showlegend: false, x: xs, y: ys, error_x: x_spread, error_y: y_spread,
        text: ofRows.map((row) => inPlot(settingOf(row) + (isWhole(row) ? "" : `\nin no front: ${columnNamed("trials").text(row)}`))),
        hovertemplate: `%{text}<br>%{x} ${unit}, %{y}<extra></extra>`,
        marker: { size: 10, color: known.map(colorOf), symbol: ofRows.map((row) => (isWhole(row) ? "circle" : "circle-open")) },
      },
      ...fronts.map((front) => ({ ...front, name: inPlot(front.name) })),
    ],
    layout: layout(`${x.axis}, ${unit}`, y.title, { xaxis: xs.every((value) => value > 0) ? kLogScale : {} }),
    legend: sweeps.length > 1 ? fronts.map(legendOf) : [],
    // For pictures: the point colours, which the page's own legend explains.
    keys: drawnRows(known).map((index) => ({
      type: "scatter", mode: "markers", name: inPlot(data.rows[index].name), x: [null], y: [null], marker: { size: 10, color: colorOf(index) },
    })),
  };
}

const kPhases = [
  ["forward", "forward"], ["backward", "backward"], ["exposed_communication", "exposed communication"], ["optimizer", "optimizer"],
  ["other", "other (data, evaluation)"],
];

// Like the table, this counts trials that are done: others have measures of only a part of a run, or of an
// earlier one.
const measuresOf = (trial) => (trial.status === "done" ? trial.measures : {});

// The entry for a trace in a figure's own legend.
const legendOf = (trace) => ({ name: trace.name, color: trace.marker?.color ?? trace.line.color, dash: trace.line?.dash ?? "solid" });

// Horizontal bars, `width` of them for each of `names`, with every name shown.
function bars(traces, names, { width = 1, mode, xTitle, unit, more = {} }) {
  const isUpward = mode === "group"; // the last trace is drawn at the top
  return {
    traces: traces.map((trace) => ({ type: "bar", orientation: "h", y: names.map(inPlot), ...trace, name: inPlot(trace.name) })),
    legend: (isUpward ? [...traces].reverse() : traces).map(legendOf),
    layout: layout(xTitle, "", {
      layout: { barmode: mode, legend: { traceorder: isUpward ? "reversed" : "normal" }, ...more },
      xaxis: inUnit(unit), yaxis: { type: "category", dtick: 1 },
    }),
    height: 100 + names.length * (12 + 10 * width),
  };
}

// One bar for each row, made of the parts of its trials' `measure`. `parts`: [name, title] pairs.
function stackedBars(rows, measure, parts, xTitle, unit) {
  const measuredOf = (index) => trialsOf[index].map((trial) => measuresOf(trial)[measure]).filter(Boolean);
  const known = drawnRows(rows).filter((index) => measuredOf(index).length).reverse(); // the first is drawn lowest
  if (!known.length) return null;
  const mean = (index, part) => measuredOf(index).reduce((sum, each) => sum + (each[part] ?? 0), 0) / measuredOf(index).length;
  const names = known.map((index) => data.rows[index].name);
  const traces = parts.map(([part, title], i) => ({
    name: title, x: known.map((index) => mean(index, part)), marker: { color: kColors[i % kColors.length] },
    customdata: known.map((index) => inPlot(settingOf(data.rows[index]))), hovertemplate: "%{customdata}<br>%{fullData.name}: %{x}<extra></extra>",
  }));
  return bars(traces, names, { mode: "stack", xTitle, unit });
}

const phases = (rows) => stackedBars(rows, "phase_seconds", kPhases, "time of a step", "s");

// Shown if any hook sends in more than one stage.
function stages(rows) {
  const names = new Set(data.trials.flatMap((trial) => Object.keys(measuresOf(trial).stage_bytes ?? {})));
  return names.size > 1 ? stackedBars(rows, "stage_bytes", [...names].map((name) => [name, name]), "what a rank sends in a step", "B") : null;
}

// For the best row whose hook was chosen during the run: each candidate's predicted step time, and the
// measured time of those that were used.
function predictions(rows) {
  const chosen = rows.flatMap((index) => trialsOf[index].flatMap((trial) => (measuresOf(trial).models ?? []).flatMap((model) => model.choice ?? [])));
  const settings = (chosen.find((choice) => choice.chosen)?.settings ?? []).slice().reverse(); // the first is drawn lowest
  if (!settings.length) return null;
  const traceOf = (name, field, color) => ({ name, x: settings.map((setting) => setting[field]), marker: { color } });
  const traces = [traceOf("measured", "measured_seconds", kColors[1]), traceOf("predicted", "predicted_seconds", kColors[0])];
  return bars(traces, settings.map((setting) => setting.name), { width: 2, mode: "group", xTitle: "time of a step", unit: "s" });
}

// For several sweeps: where each row wins. Rows with the same values form a group, with one bar for each
// sweep.
function speedups(rows) {
  const known = rows.map((index) => data.rows[index]).filter((row) => row.speedup && row.values.sweep !== undefined);
  if (new Set(known.map((row) => row.values.sweep)).size < 2) return null;
  const names = [...new Set(known.map((row) => row.own_name))].slice(0, kMostCurves).reverse(); // the first is drawn lowest
  const traces = sweeps.map((sweep, i) => {
    const ofNames = names.map((name) => known.find((row) => row.values.sweep === sweep && row.own_name === name));
    return {
      name: sweep, x: ofNames.map((row) => row?.speedup.mean ?? null), marker: { color: kColors[i % kColors.length] },
      error_x: { type: "data", array: ofNames.map((row) => row?.speedup.spread ?? 0), thickness: 1 },
      customdata: ofNames.map((row) => (row ? inPlot(settingOf(row)) : "")), hovertemplate: "%{customdata}<br>%{x} times<extra></extra>",
    };
  });
  const one = { type: "line", x0: 1, x1: 1, y0: 0, y1: 1, yref: "paper", line: { width: 1, dash: "dot" } };
  return bars(traces.reverse(), names, { width: sweeps.length, mode: "group", xTitle: "times the speed of the sweep's baseline", more: { shapes: [one] } });
}

const kNoWebGl = "This browser has no WebGL, which this chart needs.";
const hasWebGl = (() => {
  const canvas = document.createElement("canvas");
  return Boolean(canvas.getContext("webgl2") || canvas.getContext("webgl"));
})();

// Pixels in parallel coordinates: the least distance between axes, the width of a letter, and the space
// beside a text.
const kLeastDistance = 85, kLetterWidth = 7, kBesideText = 20;
const kBesideAxes = 140; // for the scale of colours
const widthOf = (text) => kLetterWidth * text.length + kBesideText;

// Wide enough for labels, which are centred on their axes, and for tick texts, which are left of theirs.
function axisDistance(dimensions) {
  const ofLabels = dimensions.slice(1).map(({ label }, i) => (widthOf(label) + widthOf(dimensions[i].label)) / 2);
  const ofTicks = dimensions.slice(1).flatMap(({ ticktext = [] }) => ticktext.map(widthOf));
  return Math.max(kLeastDistance, ...ofLabels, ...ofTicks);
}

// Values that are equal in all rows get no axis.
function coordinates(rows) {
  const keys = [...new Set(data.rows.flatMap((row) => Object.keys(row.values)))].filter(
    (key) => new Set(data.rows.map((row) => row.values[key]).filter((value) => value !== undefined)).size > 1);
  const tried = rows.filter((index) => data.rows[index].done);
  if (!keys.length || tried.length < 2) return null;
  const ofOptions = keys.map((key) => {
    const texts = tried.map((index) => data.rows[index].values[key] ?? "–");
    const label = inPlot(key.split(".").pop());
    if (texts.every((text) => text !== "" && Number.isFinite(Number(text)))) return { label, values: texts.map(Number) };
    const names = [...new Set(texts)].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    return {
      label, values: texts.map((text) => names.indexOf(text)), tickvals: names.map((_, i) => i), ticktext: names.map(inPlot),
      range: [-0.2, names.length - 0.8],
    };
  });
  const ofResults = kColumns.filter((column) => !column.text && column.name !== "trial_seconds").flatMap((column) => {
    if (!tried.every((index) => data.rows[index][column.name])) return [];
    const values = tried.map((index) => data.rows[index][column.name].mean);
    const [size, unit] = column.units ? inUnits(Math.max(...values), column.units) : [1, ""];
    return [{ label: column.title + (unit ? `, ${unit}` : ""), values: values.map((value) => value / size) }];
  });
  const colored = ofResults[0] ?? ofOptions[0];
  const dimensions = [...ofOptions, ...ofResults].map((each) => ({ tickformat: "~g", ...each }));
  const left = Math.max(...(dimensions[0].ticktext ?? []).concat(dimensions[0].label).map(widthOf));
  return {
    traces: [{
      type: "parcoords", dimensions, labelfont: { size: 12 },
      line: {
        color: colored.values, colorscale: "Viridis", reversescale: smallerIsBetter, showscale: true,
        colorbar: { title: { text: colored.label, side: "right" } },
      },
    }],
    layout: layout("", "", { layout: { margin: { l: left, r: 40, t: kButtonsHeight + 40, b: 30 } } }),
    needsWebGl: true,
    minWidth: left + axisDistance(dimensions) * (dimensions.length - 1) + kBesideAxes,
  };
}

const columnNamed = (name) => kColumns.find((column) => column.name === name);
const curveChart = (metric, x, xTitle, more = {}) => (rows) => {
  const traces = curves(rows, metric(), x);
  return traces.length ? { traces, layout: layout(xTitle, metric(), more) } : null;
};
const paretoChart = (x) => (rows) => (columnNamed(x) && columnNamed("metric") ? pareto(rows, columnNamed(x), columnNamed("metric")) : null);
const kOfBest = "the best trial of each row";
const kOfFront = "dotted: rows that no other of their sweep beats in both; open circles: rows in no front, since not all their trials are done";

const kCharts = [
  { id: "metric-by-time", isOfSome: true, title: () => `${state.metric} by time`, note: kOfBest, draw: curveChart(() => state.metric, "seconds", "seconds since the start", { xaxis: { exponentformat: "none" } }) },
  { id: "metric-by-bytes", isOfSome: true, title: () => `${state.metric} by bytes sent`, note: kOfBest, draw: curveChart(() => state.metric, "bytes_sent", "what a rank has sent", { xaxis: inUnit("B") }) },
  { id: "metric-by-step", isOfSome: true, title: () => `${state.metric} by step`, note: kOfBest, draw: curveChart(() => state.metric, "step", "step", { xaxis: { exponentformat: "none" } }) },
  { id: "compression-error", isOfSome: true, title: () => "Compression error by step", note: "‖averaged by the hook − exact average‖ / ‖exact average‖, on sampled steps", draw: curveChart(() => "compression_error", "step", "step", { xaxis: { exponentformat: "none" } }) },
  { id: "speedups", isOfSome: true, title: () => "Where each row wins", note: "speed-up over the baseline of the same sweep, by the time of a step, or of a trial if steps were not measured", draw: speedups, isBroad: true },
  { id: "pareto-time", title: () => `${metricTitle} and the time of a step`, note: kOfFront, draw: paretoChart("step_seconds") },
  { id: "pareto-bytes", title: () => `${metricTitle} and bytes sent a step`, note: kOfFront, draw: paretoChart("bytes_per_step") },
  { id: "phases", isOfSome: true, title: () => "Where the time of a step goes", note: "means over a run's steps, while the table's Step column is based on the median step; exposed communication: time in which a rank only waits for communication", draw: phases, isBroad: true },
  { id: "stages", isOfSome: true, title: () => "What a step sends", note: "by the stages of a hook's collectives; on average over all steps, including those before the hook compresses", draw: stages, isBroad: true },
  { id: "predictions", title: () => "What auto predicted", note: "of the best row with comm_hook = \"auto\", as its last choice was made; measured: settings that were in use", draw: predictions, isBroad: true },
  { id: "parallel", title: () => "Options and results", note: "drag along an axis to choose a part of it", draw: coordinates, isBroad: true },
];
