"""Escapes in texts of clients, as people see them."""

import pytest

from kafka_shim.apis.readable import LONGEST, readable, readable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("Bestellungen-für-Zürich, 注文", "Bestellungen-für-Zürich, 注文"),
        ("\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"),
        ("a\r\nb", "a\\r\\nb"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("\u202etxt\u2066", "\\u202etxt\\u2066"),
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("[red]", "[red]"),
    ],
)
def test_terminal_controls_show_as_escapes(text: str, shown: str) -> None:
    assert readable(text) == shown


def test_an_ellipsis_ends_a_long_text() -> None:
    assert readable("x" * LONGEST) == "x" * LONGEST
    assert readable("x" * 30_000) == "x" * (LONGEST - 1) + "…"
    assert readable("x" * 30, 10) == "xxxxxxxxx…"
    assert readable("\x1b" * 10, 10) == "\\x1b\\x1b\\…"
    assert readable("\x1b" * 2, 8) == "\\x1b\\x1b"


def test_line_feeds_of_our_own_stay() -> None:
    assert readable_lines("one\n\x1btwo\n") == "one\n\\x1btwo\n"
