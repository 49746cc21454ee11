"""Escaped text of clients for people: in a log, on a terminal, in a story.

A printable character stays. All others become escapes, such as `\\x1b` and `\\u202e`: terminals obey some of them, some
end a line and so forge the next one, some turn the direction of the following text, and some have no encoding. A name
of a client may have 32,767 bytes; people see 200 characters of it at most. JSON and other text for programs stays as
it is.
"""

from __future__ import annotations

from typing import Final

LONGEST: Final = 200
"""Limit of a name, in characters."""
LONGEST_LINE: Final = 10_000
"""Limit of a line with names, in characters."""


def readable(text: str, most: int = LONGEST) -> str:
    """Return the text with escapes; an ellipsis cuts it at `most` characters, escapes included."""
    escaped = _escaped(text[: most + 1])
    return escaped if len(escaped) <= most else f"{escaped[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def readable_lines(text: str) -> str:
    """Return a text of several lines with escapes within each line; lines may have any length."""
    return "\n".join(map(_escaped, text.split("\n")))


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
