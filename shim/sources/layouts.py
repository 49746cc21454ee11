"""`Layouts`: strips the layout around the text of a line: stamps, levels, loggers, and wrappers of containers.

Each line shows its layout by its own form, so that files of mixed layouts work. Only lines selected by a scan come here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple


class Line(NamedTuple):
    """A line: its place, its time, and its text without layout.

    `time` is milliseconds since 1970, None without a stamp; `resolution` is that of the stamp in milliseconds. `zoned`
    is True if the stamp has a zone, or a wrapper shows it. `fields` are other values of a line of JSON.
    """

    file: str
    number: int
    time: int | None
    resolution: int
    zoned: bool
    level: str
    logger: str
    text: str
    fields: Mapping[str, str] = {}

    @property
    def where(self) -> str:
        """Return the file and the number of the line, `server.log:4711`."""
        return f"{self.file}:{self.number}"


_KAFKA: Final = re.compile(r"\[(?P<stamp>[^\]]{19,30})\] (?P<level>[A-Z]{4,5}) +(?P<text>.*)", re.DOTALL)
_LOGGER: Final = re.compile(r" \((?P<logger>[\w.$]+)(?::\d+)?\)\s*$")


class Layouts:
    """Reader of layouts. Stamps without a zone are read in `zone`."""

    def __init__(self, zone: tzinfo = UTC) -> None:
        self._zone = zone

    def line(self, file: str, number: int, raw: bytes, before: bytes = b"") -> Line:
        """Return a line without its layout; `before` is the line before it, which has the stamp of some layouts."""
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        match = _KAFKA.match(text)
        if match is None:
            return Line(file, number, None, 1, False, "", "", text)
        time = round(datetime.fromisoformat(match["stamp"]).replace(tzinfo=self._zone).timestamp() * 1000)
        text, logger = match["text"], ""
        end = _LOGGER.search(text)
        if end is not None:
            text, logger = text[: end.start()], end["logger"]
        return Line(file, number, time, 1, False, match["level"], logger, text)
