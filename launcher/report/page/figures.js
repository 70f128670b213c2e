// Where charts are drawn: on the page, each in a figure, and as pictures.

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
