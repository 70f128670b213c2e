// The table of rows, each of which opens to show its trials.

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
  if (trial.metric !== null) facts.push(`${metricTitle} ${rounded(trial.metric, 6)}`);
  if (trial.seconds !== null) facts.push(durationText(trial.seconds));
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
