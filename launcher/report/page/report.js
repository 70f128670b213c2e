// The page as a whole: what it shows, and what happens when somebody filters or selects.

// The headline, in which hovering over a row's name shows its settings.
function headline() {
  const partOf = (part) => (typeof part === "number" ? made("abbr", data.rows[part].own_name, { title: settingOf(data.rows[part]) }) : part);
  const lines = [...data.headline.map((parts) => parts.map(partOf)), ...data.remarks.map((remark) => [`Note: ${remark}.`])];
  return lines.flatMap((line, i) => (i ? ["\n", ...line] : line));
}

function describe() {
  element("name").textContent = data.name || "Sweep";
  const by = (status) => data.trials.filter((trial) => trial.status === status).length;
  const states = [["done", "done"], ["failed", "failed"], ["stopped", "stopped early"], ["running", "running"], ["interrupted", "interrupted"], ["waiting", "to come"]];
  element("state").textContent = [countText(data.trials.length, "trial"), ...states.filter(([status]) => by(status))
    .map(([status, title]) => `${by(status)} ${title}`)].join(", ") +
    (by("interrupted") ? ". Nobody runs the sweep any more: the same 'hookline sweep' command continues it." : "");
  element("headline").replaceChildren(...headline());
  const same = Object.entries(data.same).map(([key, value]) => `${key} = ${value}`).join(", ");
  const how = [
    ["Command", data.command], ["Machine", data.machine], ["Begun", data.began],
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
  element("shown").textContent = rows.length === data.rows.length ? countText(rows.length, "row") : `${rows.length} of ${countText(data.rows.length, "row")}`;
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
