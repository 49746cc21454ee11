"""Listening of a process: the form of its addresses, the sentence for one that it cannot have, and files for its
connections.
"""

from __future__ import annotations

import errno
import socket


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
