"""SASL PLAIN (RFC 4616) with the texts of Kafka's `PlainSaslServer`."""

from __future__ import annotations

from typing import Final

from kafka_shim.security.mechanism import Authenticated, Rejected
from kafka_shim.security.users import Users

DIFFERENT_ID: Final = "Authentication failed: Client requested an authorization id that is different from username"


class Plain:
    """One authentication: a single token with the authorization id, the user and the password."""

    def __init__(self, users: Users) -> None:
        self._users = users

    def step(self, token: bytes, epoch: float) -> Authenticated:
        """See `Mechanism.step`."""
        tokens = token.split(b"\0")
        if len(tokens) > 3:
            # As in Kafka a fourth token ends the count.
            tokens = tokens[:4]
        if len(tokens) != 3:
            raise _rejected(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
        authorization_id, user, password = (each.decode(errors="replace") for each in tokens)
        if not user:
            raise _rejected("Authentication failed: username not specified")
        if not password:
            raise _rejected("Authentication failed: password not specified")
        if not self._users.has_password(user, password):
            raise _rejected("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise _rejected(DIFFERENT_ID)
        return Authenticated(b"", f"User:{user}")


def _rejected(text: str) -> Rejected:
    return Rejected(text, text=text)
