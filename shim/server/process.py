"""A process on its machine: the form of its addresses, the number of its files, its log on standard error.

The log has one line for each message, also with hostile names in it, and of bounded length.
"""

from __future__ import annotations

import errno
import logging
import socket
import sys
from copy import copy
from typing import Any, Final

from kafka_shim.apis.readable import readable

LONGEST: Final = 2000
"""Characters of a message."""
_TRACEBACK: Final = (500, 100)
"""Characters of a line of a traceback, and lines of it."""


def host_and_port(host: str, port: int) -> str:
    """Return `HOST:PORT`, with an IPv6 address in brackets, as clients take it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def not_listening(address: tuple[str, int], error: OSError) -> str:
    """Return the sentence for an address on which no server can listen."""
    if error.errno == errno.EADDRINUSE:
        advice = "end the other server, or choose another port; port 0 is any free port"
    elif error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        advice = "choose an address of this machine, such as 127.0.0.1"
    elif error.errno == errno.EACCES:
        advice = "choose a port from 1024 on"
    else:
        advice = "choose another address"
    return f"{host_and_port(*address)} cannot be listened on: {error.strerror or error}; {advice}."


def raise_file_limit() -> int | None:
    """Let the process open as many files as it may; return the limit, None where there is none. A connection is a
    file."""
    try:
        import resource
    except ImportError:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            return soft
    return hard


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
