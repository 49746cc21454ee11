"""A SASL mechanism on the side of the server: tokens of a client in, tokens of the server out, at the end a principal.

A mechanism knows no sockets, frames or clocks. `login.py` puts its tokens into Kafka's requests.
"""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple, Protocol

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that did not authenticate."""


class Challenge(NamedTuple):
    """The answer to a token when the client must send another one."""

    token: bytes


class Authenticated(NamedTuple):
    """The last answer. `ends` is the end of the credential in Unix seconds; `by_token`: it is a delegation token."""

    token: bytes
    principal: str
    ends: float = inf
    by_token: bool = False


class Rejected(Exception):
    """The client did not prove its name. `text` is the reason for the client; without it, the client gets a general
    text, so that it does not learn whether the user exists."""

    def __init__(self, reason: str, text: str | None = None) -> None:
        super().__init__(reason)
        self.text = text


class Mechanism(Protocol):
    """One authentication by one mechanism."""

    def step(self, token: bytes, epoch: float) -> Challenge | Authenticated:
        """Take a token of the client at `epoch`, Unix seconds. Raises Rejected."""
