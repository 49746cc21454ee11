"""The check for plain English counts markers, and tells each broken limit."""

from __future__ import annotations

from pathlib import Path

from tests.prose import count, problems

CODE = '''"""Tell what a member does."""

# Nobody hears of it.
found = "what is in a string that is no docstring does not count"


def kept(held: int) -> None:
    """Return `what` stands in code marks."""
    for gone in ():
        gone
'''


def test_markers_of_docstrings_and_comments_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(CODE)
    assert count(path).lines == (1, 3)


def test_functions_parameters_and_variables_are_names(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(CODE)
    assert sorted(count(path).names) == ["found", "gone", "held", "kept"]


def test_code_tables_links_and_titles_of_a_page_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(
        "# What\n\n| who |\n\n```sh\nwhat\n```\n\nA [page](what.md) tells `what` the reader, who looks,\nsees.\n"
    )
    assert count(path).lines == (9,)


def test_each_broken_limit_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "rough").mkdir()
    (tmp_path / "rough/module.py").write_text(CODE)
    (tmp_path / "rough/long.md").write_text("what " * 3 + "word " * 60)
    settings = {"limits": {"rough": 3}, "file": 12, "names": ["rough"], "participles": 3}
    folder, file, names = problems(tmp_path, settings)
    assert folder.startswith("rough: ")
    assert file.startswith("rough/long.md: 47.6 per 1,000 words (lines 1, 1, 1)")
    assert names.startswith("4 participles are names, the limit is 3: ")
