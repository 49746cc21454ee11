"""The tokens of a SASL client, by mechanism."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Generator
from typing import Final

from kafka_shim.conformance.verdict import Failed

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
TOKEN_SECONDS: Final = 3600

Tokens = Generator[bytes, bytes, None]
"""Yields the tokens of a client, and receives those of the server between them."""


def plain(user: str, password: str, authorization_id: str = "") -> bytes:
    """Return the token of PLAIN."""
    return f"{authorization_id}\0{user}\0{password}".encode()


def unsecured_token(user: str, seconds: float = TOKEN_SECONDS) -> str:
    """Return an unsecured token of OAUTHBEARER that ends in `seconds` from now."""
    now = time.time()
    # Whole seconds: the broker's clock may be read a moment earlier.
    parts = ({"alg": "none"}, {"sub": user, "iat": int(now) - 1, "exp": now + seconds})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def bearer(token: str) -> bytes:
    """Return the first message of OAUTHBEARER with a token."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def scram(mechanism: str, user: str, password: str, extensions: str = "") -> Tokens:
    """Take part in an exchange of SCRAM; check the proof of the server. `extensions` are like `,tokenauth=true`."""
    name = HASHES[mechanism]
    nonce = secrets.token_urlsafe(18)
    first = f"n={user},r={nonce}{extensions}"
    server_first = (yield f"n,,{first}".encode()).decode()
    fields = dict(part.split("=", 1) for part in server_first.split(","))
    if not fields["r"].startswith(nonce):
        raise Failed("the server's nonce does not begin with that of the client")
    salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", name)
    without_proof = f"c=biws,r={fields['r']}"
    message = f"{first},{server_first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(name, key).digest(), message, name)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    server_final = yield f"{without_proof},p={proof}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), message, name)
    if server_final != b"v=" + base64.b64encode(expected):
        raise Failed("the server's signature is wrong")


def tokens_of(mechanism: str, user: str, password: str) -> Tokens:
    """Return the tokens of a mechanism for a user."""
    if mechanism in HASHES:
        yield from scram(mechanism, user, password)
    elif mechanism == "OAUTHBEARER":
        yield bearer(unsecured_token(user))
    else:
        yield plain(user, password)
