"""The log of a server: one line of bounded length for each message, also with hostile names."""

from __future__ import annotations

import logging
import sys

from kafka_shim.server.process import LONGEST, LogLines

HOSTILE = "\x1b[2Jgroup\n2026-11-28 ERROR forged\u202e" * 1000


def record(**fields: object) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": "group %s", "args": (HOSTILE,), "levelname": "INFO"} | fields)


def test_a_message_is_one_line_of_bounded_length() -> None:
    line = LogLines("%(message)s").format(record())
    assert len(line) == LONGEST == 2000
    assert line.isprintable()
    assert line.startswith("group ")
    assert line.endswith("…")


def test_a_traceback_is_indented_and_bounded() -> None:
    def deeper(levels: int) -> None:
        if levels:
            deeper(levels - 1)
        raise ValueError(HOSTILE)

    try:
        deeper(200)
    except ValueError:
        first, *lines = LogLines("%(message)s").format(record(exc_info=sys.exc_info())).split("\n")
    assert len(first) == 2000
    assert 10 < len(lines) <= 100
    assert all(line.startswith("  ") and line.isprintable() and len(line) <= 502 for line in lines)
