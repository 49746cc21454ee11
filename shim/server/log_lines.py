"""The log on standard error: one line for each message, also with hostile names in it, and of bounded length.

Decides the form of messages and tracebacks. It does not decide their level.
"""

from __future__ import annotations

import logging
import sys
from copy import copy
from typing import Any, Final

from kafka_shim.apis.readable import readable

LONGEST: Final = 2000
"""Characters of a message."""
_TRACEBACK: Final = (500, 100)
"""Characters of a line of a traceback, and lines of it."""


class LogLines(logging.Formatter):
    """Writes a message as one line, and indents the lines of a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        record = copy(record)
        record.msg, record.args = readable(record.getMessage(), LONGEST), None
        return super().format(record)

    def formatException(self, ei: Any) -> str:
        longest, most = _TRACEBACK
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"  {readable(line, longest)}" for line in lines[-most:])


def log_to_stderr(level: str) -> None:
    """Write messages of this level and above to standard error, with their times."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
