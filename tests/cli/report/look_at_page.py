"""Opens a report in headless Chromium, and prints what it saw as JSON.

Usage: look_at_page.py BROWSER PAGE drawn|used
drawn: what the page shows when it has drawn its charts. used: also what happens when people click, filter, print or
prefer a dark color scheme, which takes several times as long.
"""
import json
import os
import sys

from playwright.sync_api import sync_playwright

LONG_MS = 600_000  # the longest that one action may take; the browser draws on the CPU, beside other tests
WIDTHS = (1300, 700)

# Pairs of texts and buttons within a figure that overlap by more than a pixel, slanted ones too.
OVERLAPS = """() => {
  const corners = (node) => {
    if (!(node instanceof SVGGraphicsElement)) {
      const { left, right, top, bottom } = node.getBoundingClientRect();
      return [[left, top], [right, top], [right, bottom], [left, bottom]];
    }
    const { x, y, width, height } = node.getBBox(), m = node.getScreenCTM();
    return [[x, y], [x + width, y], [x + width, y + height], [x, y + height]]
      .map(([x, y]) => [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f]);
  };
  // By how much two parallelograms overlap along the normals of their sides.
  const depth = (one, other) => Math.min(...[one, other].flatMap((quad) => [0, 1].map((side) => {
    const [dx, dy] = [0, 1].map((axis) => quad[side + 1][axis] - quad[side][axis]), length = Math.hypot(dx, dy) || 1;
    const spans = [one, other].map((each) => each.map(([x, y]) => (x * -dy + y * dx) / length));
    return Math.min(...spans.map((span) => Math.max(...span))) - Math.max(...spans.map((span) => Math.min(...span)));
  })));
  const named = (node) => node.textContent.trim() || node.className.toString();
  return [...document.querySelectorAll("figure")].flatMap((figure) => {
    const nodes = [...figure.querySelectorAll("h2, .note, .legend li, .plot text, .modebar")]
      .filter((node) => node.getClientRects().length && node.getBoundingClientRect().width > 0);
    const quads = nodes.map(corners);
    return nodes.flatMap((node, i) => nodes.slice(i + 1).flatMap((other, j) =>
      depth(quads[i], quads[i + 1 + j]) > 1 ? [`${figure.id}: ${named(node)} | ${named(other)}`] : []));
  });
}"""


def first_cells(page):
    return page.eval_on_selector_all("tbody tr.row td:first-child", "cells => cells.map(cell => cell.textContent)")


def traces_of(page, chart):
    return page.evaluate(
        "chart => document.querySelector(`#${chart} .plot`).data"
        ".map(({name, x, y, text, marker}) => ({name, x, y, text, symbols: marker?.symbol}))",
        chart,
    )


def look_at_widths(page, seen):
    """Records, at each of WIDTHS, what overlaps in a figure and by how many pixels the page exceeds its window."""
    for width in reversed(WIDTHS):  # ends with the first, which stays set for what follows
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            "[...document.querySelectorAll('.plot')].every(p => !p._fullLayout || Math.abs(p._fullLayout.width - p.clientWidth) < 2)")
        page.evaluate("drawing")
        seen[f"overlaps_{width}"] = page.evaluate(OVERLAPS)
        seen[f"wider_than_{width}"] = page.evaluate("Math.max(0, document.documentElement.scrollWidth - innerWidth)")


def look(page, seen):
    """Records what is drawn."""
    page.wait_for_selector("body[data-drawn]")
    seen["title"] = page.title()
    seen["state"] = page.inner_text("#state")
    seen["headline"] = page.inner_text("#headline")
    seen["how"] = page.inner_text("#how")
    seen["charts"] = page.eval_on_selector_all("figure", "figures => figures.map(figure => figure.id)")
    # A chart is drawn if it holds a plot with points, lines or, for parallel coordinates, a canvas.
    seen["drawn"] = page.eval_on_selector_all(
        "figure",
        "figures => figures.filter(figure => figure.querySelector('.trace path, .bars path, .points path, .parcoords'))"
        ".map(figure => figure.id)",
    )
    seen["curves"] = page.eval_on_selector_all("#metric-by-step .trace", "traces => traces.length")
    for chart in {"pareto-time", "phases"} & set(seen["charts"]):
        seen[chart] = traces_of(page, chart)
    seen["legend"] = page.eval_on_selector_all("#legend li", "items => items.map(item => [item.textContent, item.title])")
    seen["ticks"] = page.eval_on_selector_all(
        "#pareto-time .xtick text", "ticks => ticks.map(tick => [tick.textContent, getComputedStyle(tick).fontSize])")
    seen["phases_ticks"] = page.eval_on_selector_all("#phases .ytick text", "ticks => ticks.map(tick => tick.textContent)")
    look_at_widths(page, seen)
    seen["header"] = page.eval_on_selector_all("th", "cells => cells.map(cell => cell.textContent)")
    seen["rows"] = first_cells(page)
    seen["cells"] = page.eval_on_selector_all(
        "tbody tr.row", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")


def use(page, seen):
    """Sorts, opens a row and filters."""
    by_row = page.locator("th button", has_text="Row")
    by_row.click()
    seen["sorted"] = [first_cells(page), page.get_attribute("th >> nth=0", "aria-sort")]
    by_row.click()
    seen["sorted_back"] = [first_cells(page), page.get_attribute("th >> nth=0", "aria-sort")]
    page.click("tbody tr.row >> nth=0")
    page.locator("tr.detail summary", has_text="Config").first.click()
    seen["detail"] = page.inner_text("tr.detail")
    page.click("tbody tr.row >> nth=0")
    seen["details_left"] = page.locator("tr.detail").count()
    page.fill("#filter", seen["rows"][0].split()[0])
    seen["filtered"] = first_cells(page)
    seen["shown"] = page.inner_text("#shown")
    page.evaluate("drawing")  # a promise, which is awaited
    seen["curves_filtered"] = page.eval_on_selector_all("#metric-by-step .trace", "traces => traces.length")
    page.fill("#filter", "no-such-row")
    seen["none"] = first_cells(page)
    page.fill("#filter", "")
    page.wait_for_selector("figure")


def look_at_print(page, seen):
    page.emulate_media(media="print")
    seen["controls_in_print"] = page.is_visible("#controls")
    page.set_viewport_size({"width": 718, "height": 1046})  # A4 between margins of 1 cm, in CSS pixels
    seen["cut_off_in_print"] = page.evaluate(
        "Math.max(0, ...[...document.querySelectorAll('table')].map(t => t.scrollWidth - document.body.clientWidth))")
    page.emulate_media(media="screen")


def main(browser_program, file, how):
    seen = {"problems": [], "requests": []}
    with sync_playwright() as playwright:
        flags = ["--enable-unsafe-swiftshader"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
        browser = playwright.chromium.launch(executable_path=browser_program, args=flags)
        for scheme in ["light", "dark"] if how == "used" else ["light"]:
            page = browser.new_page(viewport={"width": WIDTHS[0], "height": 900}, color_scheme=scheme)
            page.set_default_timeout(LONG_MS)
            # Without a GPU, the WebGL driver logs warnings about its own speed.
            page.on("console", lambda m: "GL Driver Message" in m.text or seen["problems"].append(f"{m.type}: {m.text}"))
            page.on("pageerror", lambda error: seen["problems"].append(str(error)))
            page.on("request", lambda request: seen["requests"].append(request.url))
            page.goto("file://" + os.path.abspath(file))
            if scheme == "light":
                look(page, seen)
                if how == "used":
                    use(page, seen)
                    look_at_print(page, seen)
            else:
                page.wait_for_selector("body[data-drawn]")
                page.emulate_media(media="print")
                seen["ground_in_print"] = page.evaluate("getComputedStyle(document.body).backgroundColor")
                page.emulate_media(media="screen")
            seen["ground_" + scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
            page.close()
        browser.close()
    json.dump(seen, sys.stdout)


main(*sys.argv[1:])
