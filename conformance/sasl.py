"""SASL on the side of the client: the requests that carry the tokens of a mechanism."""

from __future__ import annotations

from typing import Any

from kafka_shim.apis.sasl_authenticate import SaslAuthenticateRequest
from kafka_shim.apis.sasl_handshake import SaslHandshakeRequest
from kafka_shim.conformance.tokens import tokens_of
from kafka_shim.conformance.wire import Connection


def handshake(wire: Connection, mechanism: str, version: int = 1) -> Any:
    """Send SaslHandshake and wait for the answer."""
    return wire.call(SaslHandshakeRequest(mechanism), version)


def authenticate(wire: Connection, token: bytes, version: int = 2) -> Any:
    """Send SaslAuthenticate and wait for the answer."""
    return wire.call(SaslAuthenticateRequest(token), version)


def log_in(wire: Connection, mechanism: str, user: str, password: str, version: int = 2) -> Any:
    """Authenticate; return the last answer. Stops at the first refusal."""
    answer = handshake(wire, mechanism)
    if answer.error_code:
        return answer
    tokens = tokens_of(mechanism, user, password)
    token = next(tokens)
    while True:
        answer = authenticate(wire, token, version)
        if answer.error_code:
            return answer
        try:
            token = tokens.send(answer.auth_bytes)
        except StopIteration:
            return answer
