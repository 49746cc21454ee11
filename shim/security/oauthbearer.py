"""SASL OAUTHBEARER (RFC 7628), by default with unsecured tokens (`alg` is `none`), as Kafka's own validator for tests.

`jwks.py` has the validator of signed tokens.

A refused token is answered by a document of JSON; the client sends one byte, and then the authentication fails with
this document as its text. Sources: Kafka's `OAuthBearerSaslServer`, `OAuthBearerUnsecuredJws`.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from binascii import Error as BinasciiError
from collections.abc import Callable
from typing import Any, Final

from kafka_shim.security.mechanism import Authenticated, Challenge, Rejected

_TOKEN: Final = r"[-_\.~+/A-Za-z0-9]+=*"
_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authzid>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,"
    r"\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(rf"(?i:bearer) +(?P<token>{_TOKEN})")
_LATEST: Final = 1e15
"""A bound for times, in Unix seconds."""
_INVALID: Final = "invalid_token"


Validated = Callable[[str, float], tuple[str, float]]


class InvalidToken(Exception):
    """The token proves nothing."""


class OAuthBearer:
    """One authentication.

    `validated` returns the user of a token and its end, in Unix seconds, or raises InvalidToken; without it tokens have
    no signature.
    """

    def __init__(self, validated: Validated | None = None) -> None:
        self._validated = validated or unsecured
        self._refused: str | None = None

    def step(self, token: bytes, epoch: float) -> Challenge | Authenticated:
        """See `Mechanism.step`."""
        if self._refused is not None:
            raise Rejected("an invalid token", text=self._refused)
        try:
            match = _FIRST.fullmatch(token.decode("utf-8"))
        except UnicodeDecodeError:
            match = None
        if match is None:
            raise Rejected("a malformed first message of OAUTHBEARER")
        pairs = [pair.partition("=")[::2] for pair in match["pairs"].split("\x01") if pair]
        bearers = [value for key, value in pairs if key == "auth"]
        bearer = _BEARER.fullmatch(bearers[0]) if len(bearers) == 1 else None
        if bearer is None:
            raise Rejected("a first message of OAUTHBEARER without one token")
        try:
            user, ends = self._validated(bearer["token"], epoch)
        except InvalidToken:
            self._refused = json.dumps({"status": _INVALID}, separators=(",", ":"))
            return Challenge(self._refused.encode())
        authorization_id = match["authzid"]
        if authorization_id and authorization_id.replace("=2C", ",").replace("=3D", "=") != user:
            text = (
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({user})"
            )
            raise Rejected(text, text=text)
        return Authenticated(b"", f"User:{user}", ends)


def unsecured(token: str, epoch: float) -> tuple[str, float]:
    """Return the user of a token without a signature, and its end. Raises InvalidToken."""
    parts = token.split(".")
    if len(parts) != 3 or parts[2]:
        raise InvalidToken
    if _document(parts[0]).get("alg") != "none":
        raise InvalidToken
    claims = _document(parts[1])
    user, ends, issued = claims.get("sub"), claims.get("exp"), claims.get("iat")
    if not isinstance(user, str) or not user.strip() or time_of(ends) <= epoch:
        raise InvalidToken
    if issued is not None and not time_of(issued) <= min(epoch, time_of(ends)):
        raise InvalidToken
    return user, time_of(ends)


def time_of(value: Any) -> float:
    """Return a time of a claim in Unix seconds. Raises InvalidToken."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < _LATEST:
        raise InvalidToken
    return float(value)


def _document(part: str) -> dict[str, Any]:
    try:
        document = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, BinasciiError, RecursionError):
        raise InvalidToken from None
    if not isinstance(document, dict):
        raise InvalidToken
    return document
