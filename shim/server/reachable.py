"""Check for loopback addresses, which only this machine can reach, and the warning about others.

The name localhost counts as loopback; any other name does not, because it may have another address tomorrow.
"""

from __future__ import annotations

from ipaddress import ip_address

from kafka_shim.server.process import host_and_port


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def warning_about(host: str, port: int, guard: str) -> str:
    """Return a warning about an address that other machines can reach, else an empty text; `guard` protects it."""
    if is_loopback(host):
        return ""
    return f"other machines can reach {host_and_port(host, port)}, which has {guard}: they may change everything"
