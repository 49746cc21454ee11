"""How many connections the process may have."""

from __future__ import annotations


def raise_file_limit() -> int | None:
    """Let the process open as many files as it may at all; how many that is, None where there is no such limit."""
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
