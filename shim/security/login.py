"""The states of SASL on one connection, without frames and sockets (KIP-43, KIP-152, KIP-368).

`AUTHENTICATE` takes tokens, in SaslAuthenticate requests or, after version 0 of SaslHandshake, without any header.
A connection that is `COMPLETE` may authenticate again while its session has an end. Source: Kafka's
`SaslServerAuthenticator`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from math import inf
from typing import Final

from kafka_shim.security.mechanism import Authenticated, Mechanism, Rejected

AGAIN_AFTER: Final = 1.0
"""Seconds between the starts of two repeated authentications."""


class LoginState(Enum):
    """What the next frame may be."""

    VERSIONS = "versions"
    """ApiVersions or SaslHandshake."""
    HANDSHAKE = "handshake"
    """SaslHandshake."""
    AUTHENTICATE = "authenticate"
    """A token of the mechanism."""
    COMPLETE = "complete"
    """Any request."""
    FAILED = "failed"
    """None: the connection ends."""


class Reply:
    """A token for the client. `lifetime_ms` is that of its session, 0 without an end."""

    __slots__ = ("lifetime_ms", "token")

    def __init__(self, token: bytes, lifetime_ms: int = 0) -> None:
        self.token = token
        self.lifetime_ms = lifetime_ms


class LoginFailed(Exception):
    """The authentication failed. `text` is for the client; None to close without an answer. `at_once`: the connection
    ends without the delay."""

    def __init__(self, reason: str, text: str | None, *, at_once: bool = False) -> None:
        super().__init__(reason)
        self.text = text
        self.at_once = at_once


class Login:
    """The authentication of one connection. `mechanisms` create one authentication each. `lifetimes` bound a
    session by its mechanism, in seconds; 0 means no bound."""

    __slots__ = (
        "_began_again",
        "_first_mechanism",
        "_lifetimes",
        "_mechanism",
        "_name",
        "by_token",
        "ends",
        "mechanisms",
        "principal",
        "raw",
        "state",
    )

    def __init__(self, mechanisms: Mapping[str, Callable[[], Mechanism]], lifetimes: Mapping[str, float]) -> None:
        self.mechanisms = mechanisms
        self.state = LoginState.VERSIONS
        self.raw = False
        """True if tokens come without a header."""
        self.principal: str | None = None
        self.ends = inf
        """The end of the session, in the caller's monotonic seconds."""
        self.by_token = False
        """True if the client has authenticated by a delegation token."""
        self._lifetimes = lifetimes
        self._mechanism: Mechanism | None = None
        self._name = self._first_mechanism = ""
        self._began_again = -inf

    def handshake(self, name: str, *, raw: bool) -> bool:
        """Choose a mechanism; return False for one that is not enabled, which ends the connection."""
        make = self.mechanisms.get(name)
        if make is None:
            self.state = LoginState.FAILED
            return False
        self._mechanism = make()
        self._name = name
        self.raw = raw
        self.state = LoginState.AUTHENTICATE
        return True

    def may_begin_again(self, now: float) -> bool:
        """Return True if a handshake now begins another authentication of a complete connection, and note it."""
        if self.ends == inf or now - self._began_again < AGAIN_AFTER:
            return False
        self._began_again = now
        return True

    def token(self, token: bytes, now: float, epoch: float) -> Reply:
        """Take a token of the mechanism at `now`, monotonic seconds, which is `epoch` in Unix seconds. Raises
        LoginFailed."""
        assert self._mechanism is not None
        is_again = self.principal is not None
        if is_again and self._name != self._first_mechanism:
            self.state = LoginState.FAILED
            raise LoginFailed(f"authentication again by {self._name}, not {self._first_mechanism}", None)
        try:
            outcome = self._mechanism.step(token, epoch)
        except Rejected as error:
            self.state = LoginState.FAILED
            text = error.text
            if text is None:
                text = (
                    f"Authentication failed during {'re-authentication' if is_again else 'authentication'} due to "
                    f"invalid credentials with SASL mechanism {self._name}"
                )
            # In Kafka this is no failed authentication, but a failed connection: there is no request to answer.
            raise LoginFailed(str(error), text, at_once=self.raw and error.text is None) from None
        if not isinstance(outcome, Authenticated):
            return Reply(outcome.token)
        if is_again and outcome.principal != self.principal:
            self.state = LoginState.FAILED
            # Kafka writes a dot between type and name here.
            old, new = (name.replace(":", ".", 1) for name in (self.principal or "", outcome.principal))
            text = f"Cannot change principals during re-authentication from {old}: {new}"
            raise LoginFailed(text, text)
        return Reply(outcome.token, self._complete(outcome, now, epoch))

    def _complete(self, outcome: Authenticated, now: float, epoch: float) -> int:
        self.state = LoginState.COMPLETE
        self.principal = outcome.principal
        self.by_token = outcome.by_token
        self._first_mechanism = self._name
        self._mechanism = None
        lifetime = min(self._lifetimes.get(self._name) or inf, max(outcome.ends - epoch, 0.0))
        self.ends = now + lifetime
        return 0 if lifetime == inf else int(lifetime * 1000)
