// The page as a whole: what it says, and what happens when somebody filters or chooses.

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
