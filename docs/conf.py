"""How the documentation site is built: `make docs`. Every warning is an error, a link that leads nowhere is one."""

import json
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

project = "kafka-group-shim"
author = "the authors of kafka-group-shim"
extensions = ["myst_parser", "sphinx_design"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "kafka-group-shim"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
templates_path: list[str] = []
suppress_warnings: list[str] = []


REPOSITORY = "https://github.com/kafka-group-shim/kafka-group-shim/blob/main/"
# A picture of the light page stands for both: there is one of the dark page beside it.
_IN_BOTH_THEMES = "\n\n".join(
    f":::{{image}} \\2-{theme}.webp\n:alt: \\1\n:class: only-{theme}\n:::" for theme in ("light", "dark")
)
ROOT = Path(__file__).resolve().parent.parent
log = logging.getLogger(__name__)


def setup(app: Sphinx) -> None:
    """Write the matrix, and change pages before Sphinx reads them."""
    app.connect("builder-inited", write_matrix)
    app.connect("source-read", as_sphinx_reads_it)


def write_matrix(app: Sphinx) -> None:
    """Write docs/matrix.html, to which pages link, from its data."""
    sys.path.insert(0, str(ROOT))
    from kafka_shim.conformance.matrix.page import page_of

    (ROOT / "docs" / "matrix.html").write_text(page_of(json.loads((ROOT / "docs" / "matrix.json").read_text())))


def as_sphinx_reads_it(app: Sphinx, page: str, source: list[str]) -> None:
    """The pages are written to be read in the repository too: links to its other files, and anchors, are as there."""
    folder = (ROOT / "docs" / page).parent

    def to_repository(link: re.Match[str]) -> str:
        target = (folder / link[1]).resolve()
        if not target.exists():
            log.warning("%s: no file %s", page, link[1])
        if target.is_relative_to(ROOT / "docs"):
            return link[0]
        return f"]({REPOSITORY}{target.relative_to(ROOT)}"

    source[0] = re.sub(r"^!\[([^\]]+)\]\((\S+)-light\.webp\)$", _IN_BOTH_THEMES, source[0], flags=re.M)
    text = re.sub(r"\]\(((?:\.\./)+[^)#]+)", to_repository, source[0])
    source[0] = re.sub(r'^<a id="([^"]+)"></a>$', r"(\1)=", text, flags=re.M)
