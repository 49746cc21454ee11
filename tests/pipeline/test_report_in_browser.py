"""The page in a real browser, light and dark, wide and narrow: it shows its plots and loads nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.pipeline.report import write_report
from kafka_shim.pipeline.warehouse import Warehouse
from tests.browser import Browser

pytestmark = pytest.mark.second_stage("a browser")


@pytest.fixture(scope="module")
def page(browser: Browser, warehouse: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(warehouse, tmp_path_factory.mktemp("report") / "report.html", "what was generated")


def luminance(colour: list[float]) -> float:
    """Return the luminance of red, green and blue from 0 to 255, by WCAG's formula."""
    parts = [c / 12.92 if (c := each / 255) <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for each in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


COLOURS = """
(() => {
  const rgb = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const of = (element, name) => rgb(getComputedStyle(element)[name]);
  const paper = of(document.body, 'backgroundColor');
  return {paper, inks: [...document.querySelectorAll('body, .note, td, th, a')].map(each => of(each, 'color')),
          labels: [...document.querySelectorAll('svg text')].map(each => of(each, 'fill'))};
})()
"""


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_loads_nothing_and_is_readable(browser: Browser, page: Path, dark: bool) -> None:
    browser.open(page.as_uri(), dark=dark)
    assert browser.errors == []
    assert [each for each in browser.requests if not each.startswith("data:")] == [page.as_uri()]
    plots: list[dict[str, Any]] = browser.evaluate(
        "[...document.querySelectorAll('.wide svg')].map(each => ({...each.getBoundingClientRect().toJSON(),"
        " drawn: each.querySelectorAll('path, use').length, told: each.textContent.trim().length}))"
    )
    assert len(plots) >= 9
    for plot in plots:
        assert plot["width"] > 600
        assert plot["height"] > 80
        assert plot["drawn"] > 5
        assert plot["told"] > 10
    colours = browser.evaluate(COLOURS)
    paper = luminance(colours["paper"])
    assert (paper < 0.05) == dark
    assert colours["labels"]
    for ink in [*colours["inks"], *colours["labels"]]:
        light, deep = sorted((luminance(ink), paper), reverse=True)
        assert (light + 0.05) / (deep + 0.05) > 4.5, ink


@pytest.mark.parametrize("width", [1100, 420])
def test_the_page_fits_the_window(browser: Browser, page: Path, width: int) -> None:
    browser.open(page.as_uri(), width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_a_telephone_shows_the_narrow_plots(browser: Browser, page: Path) -> None:
    browser.open(page.as_uri(), width=420)
    plots = browser.evaluate(
        "[...document.querySelectorAll('svg')].filter(each => each.checkVisibility()).map(each => ["
        "each.getBoundingClientRect().right, Math.min(...[...each.querySelectorAll('text')].map("
        "text => text.getBoundingClientRect().height))])"
    )
    assert len(plots) >= 9
    for right, least in plots:
        assert right <= 420
        assert least > 7


def test_a_heading_sorts_its_table(browser: Browser, page: Path) -> None:
    browser.open(page.as_uri())
    sort = """
    (() => {
      const table = [...document.querySelectorAll('table')].find(each => each.tBodies[0].rows.length > 4);
      const head = [...table.tHead.rows[0].cells].find(each => each.className == 'number');
      const found = [];
      for (let press = 0; press < 2; press++) {
        head.querySelector('button').click();
        found.push([head.ariaSort, [...table.tBodies[0].rows].map(row => +row.cells[head.cellIndex].dataset.v)]);
      }
      return found;
    })()
    """
    (up, rising), (down, falling) = browser.evaluate(sort)
    assert (up, down) == ("ascending", "descending")
    assert rising == sorted(rising)
    assert falling == sorted(rising, reverse=True)
    assert len(set(rising)) > 1


def test_links_have_targets(browser: Browser, page: Path) -> None:
    browser.open(page.as_uri())
    inside = browser.evaluate(
        "[...document.querySelectorAll('nav a')].map(each => [each.hash, !!document.querySelector(each.hash)])"
    )
    assert len(inside) == 11
    assert all(exists for _, exists in inside)
    rounds = browser.evaluate(
        "[...document.querySelectorAll('details.line')].map(each => {"
        "let head = each; while (head.tagName != 'H3') head = head.previousElementSibling;"
        "return [each.querySelector('pre').textContent, head.textContent]})"
    )
    assert len(rounds) == 6
    for line, heading in rounds:
        event = json.loads(line)
        of_kind = {"round": "generation", "epoch": "epoch"}[event["event"]]
        assert heading.startswith(f"{event['group']}, {of_kind} {event['generation']}: {event['cause'] or 'no cause'}")
