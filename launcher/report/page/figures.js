// Where charts are drawn: on the page, each in a figure, and as pictures.

const kPlotOptions = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };

// A chart's figure, which is added or removed depending on whether there is something to show.
function figureOf(chart, isShown) {
  const known = element(chart.id);
  if (known || !isShown) {
    if (!isShown && known) Plotly.purge(known.querySelector(".plot")), known.remove();
    return known;
  }
  const figure = made("figure", "", { id: chart.id, class: chart.isBroad ? "broad" : "" });
  const frame = made("div", "", { class: "wide" });
  frame.append(made("div", "", { class: "plot" }));
  figure.append(made("h2"), made("p", "", { class: "note" }), made("ul", "", { class: "legend" }), frame);
  const after = kCharts.slice(kCharts.indexOf(chart) + 1).map((each) => element(each.id)).find(Boolean);
  element("charts").insertBefore(figure, after ?? null);
  return figure;
}

function legendItem({ name, color, dash }, title = "") {
  const item = made("li", "", title ? { title } : {});
  const line = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const dashes = { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };
  line.setAttribute("viewBox", "0 0 30 6");
  line.innerHTML = `<path d="M0 3H30" stroke="${color}" stroke-width="3" stroke-dasharray="${dashes[dash]}"/>`;
  item.append(line, made("span", name));
  return item;
}

// The legend that all curves and points share.
function drawLegend(rows) {
  const ofRow = (index) => ({ name: data.rows[index].name, color: colorOf(index), dash: dashOf(index) });
  element("legend").replaceChildren(...drawnRows(rows).map((index) => legendItem(ofRow(index), settingOf(data.rows[index]))));
}

const kLeastHeight = 352; // of a plot on the page, in pixels

async function drawCharts(rows) {
  drawLegend(rows);
  const drawings = kCharts.map((chart) => ({ chart, drawn: chart.draw(rows) }));
  const figures = drawings.map(({ chart, drawn }) => figureOf(chart, Boolean(drawn))); // all first: they share the width
  for (const [i, { chart, drawn }] of drawings.entries()) {
    if (!drawn) continue;
    figures[i].querySelector("h2").textContent = chart.title();
    const isCut = chart.isOfSome && drawnRows(rows).length < rows.length;
    figures[i].querySelector(".note").textContent =
      chart.note + (isCut ? `; the ${kMostCurves} best of ${rows.length} rows, and any baseline: filter to see others` : "");
    figures[i].querySelector(".legend").replaceChildren(...(drawn.legend ?? []).map((each) => legendItem(each)));
    const plot = figures[i].querySelector(".plot");
    plot.style.height = `${Math.max(kLeastHeight, drawn.height ?? 0)}px`;
    plot.style.minWidth = drawn.minWidth ? `${drawn.minWidth}px` : "";
    plot.keys = drawn.keys ?? [];
    if (drawn.needsWebGl && !hasWebGl) plot.textContent = kNoWebGl;
    else await Plotly.react(plot, drawn.traces, drawn.layout, kPlotOptions);
  }
}

const kLeastPictureHeight = 480, kTitleHeight = 40, kLegendGap = 20, kLegendLine = 20; // of a picture, in pixels

// For `hookline report --plots`: writes every chart as a picture into an element that is read from the page's
// text.
async function writePlots(format) {
  const pictures = {};
  for (const figure of document.querySelectorAll("figure")) {
    const plot = figure.querySelector(".plot");
    if (!plot.data) continue;
    const { l, r, t, b } = plot.layout.margin;
    const traces = [...plot.data, ...plot.keys];
    const names = traces.filter((trace) => trace.name && trace.showlegend !== false).length;
    const plotHeight = Math.max(kLeastPictureHeight, plot.clientHeight) - t - b;
    const margin = { l, r, t: t + kTitleHeight, b: b + kLegendGap + kLegendLine * names };
    const layout = {
      ...plot.layout, title: { text: figure.querySelector("h2").textContent }, paper_bgcolor: "#fff", margin, showlegend: true,
      legend: { orientation: "v", x: 0, y: -(b + kLegendGap) / plotHeight, yanchor: "top", traceorder: plot.layout.legend?.traceorder },
    };
    const size = { width: Math.max(1000, parseInt(plot.style.minWidth || "0")), height: plotHeight + margin.t + margin.b };
    pictures[figure.id] = await Plotly.toImage({ data: traces, layout }, { format, ...size, scale: format === "png" ? 2 : 1 });
  }
  document.body.replaceChildren(made("pre", btoa(JSON.stringify(pictures)), { id: "plots" }));
}
