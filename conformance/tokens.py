"""The tokens of the suite's own SASL clients, by mechanism."""

from __future__ import annotations

import base64
import json
import math
import secrets
import time
from typing import Final

from kafka_shim.apis import sasl_tokens
from kafka_shim.apis.sasl_tokens import HASHES as HASHES
from kafka_shim.apis.sasl_tokens import Tokens
from kafka_shim.apis.sasl_tokens import bearer as bearer
from kafka_shim.apis.sasl_tokens import plain as plain
from kafka_shim.conformance.verdict import Failed

TOKEN_SECONDS: Final = 3600


def unsecured_token(user: str, seconds: float = TOKEN_SECONDS) -> str:
    """Return an unsecured token of OAUTHBEARER that ends in `seconds` from now."""
    now = time.time()
    # `iat` in whole seconds: the broker's clock may be read a moment earlier. `exp` in whole milliseconds, rounded down
    # as those of that clock: rounded up, the token would live a millisecond longer.
    end = math.floor((now + seconds) * 1000) / 1000
    parts = ({"alg": "none"}, {"sub": user, "iat": int(now) - 1, "exp": end})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def scram(mechanism: str, user: str, password: str, extensions: str = "") -> Tokens:
    """Take part in an exchange of SCRAM; check the proof of the server. Raises Failed."""
    try:
        yield from sasl_tokens.scram(mechanism, user, password, secrets.token_urlsafe(18), extensions)
    except sasl_tokens.Untrusted as error:
        raise Failed(str(error)) from None


def tokens_of(mechanism: str, user: str, password: str) -> Tokens:
    """Return the tokens of a mechanism for a user."""
    if mechanism in HASHES:
        yield from scram(mechanism, user, password)
    elif mechanism == "OAUTHBEARER":
        yield bearer(unsecured_token(user))
    else:
        yield plain(user, password)
