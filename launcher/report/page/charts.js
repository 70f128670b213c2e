// The charts: a row of kCharts each, which draws rows as traces of plotly.js, or null if there is nothing to show.

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
