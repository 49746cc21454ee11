"""The documentation site of `make docs` in a real browser: readable on a phone, by keys and without sight.

It needs Sphinx, which has an environment of its own, so the site is built before the tests and not by them.
"""

from pathlib import Path

import pytest

from tests.browser import Browser

pytestmark = pytest.mark.second_stage("a browser")

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "docs"
PAGES = sorted(path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md"))
LOOKED_AT = [
    ("index", 420, True),
    ("start-testing", 1400, False),
    ("page", 420, False),
    ("share-groups", 1400, True),
    ("pipeline-tables", 1400, False),
    ("semantics/2-classic-group", 420, True),
]
"""Pages that axe looks at, short and long; of the matrix, with 24,000 elements, it takes minutes."""


def changed(path: Path) -> float:
    return path.stat().st_mtime


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    if any(
        not (SITE / page).exists() or changed(SITE / page) < changed(ROOT / "docs" / page.with_suffix(".md"))
        for page in PAGES
    ):
        pytest.skip("the site is missing, or older than its pages: `make docs` builds it")


@pytest.mark.parametrize(("page", "width", "dark"), LOOKED_AT)
def test_every_page_is_accessible(browser: Browser, page: str, width: int, dark: bool) -> None:
    browser.open((SITE / f"{page}.html").as_uri(), width=width, dark=dark)
    assert browser.violations() == []
    assert browser.errors == []


def test_every_page_fits_a_phone_and_its_code_and_tables_are_scrolled_by_keys(browser: Browser) -> None:
    for page in PAGES:
        browser.open((SITE / page).as_uri(), width=420)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 420, page
        hidden = browser.evaluate(
            "[...document.querySelectorAll('pre, .table-wrapper')]"
            ".filter((each) => each.scrollWidth > each.clientWidth && each.tabIndex !== 0).length"
        )
        assert hidden == 0, page
        assert browser.evaluate("document.querySelectorAll('img:not([alt])').length") == 0, page
        assert browser.evaluate("document.querySelectorAll('h1').length") == 1, page
        assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == [], page
        assert browser.errors == [], page


def test_the_search_has_a_title_and_finds(browser: Browser) -> None:
    browser.open((SITE / "search.html").as_uri() + "?q=rebalance", width=1400)
    browser.wait("document.querySelectorAll('#search-results li').length > 5")
    assert browser.evaluate("document.querySelector('h1').textContent") == "Search"
    assert browser.violations("'article'") == []
