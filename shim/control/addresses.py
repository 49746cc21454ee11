"""Check for loopback addresses, which only this machine can reach.

The name localhost counts as loopback; any other name does not, whatever it resolves to today.
"""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
