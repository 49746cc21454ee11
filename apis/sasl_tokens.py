"""The tokens of a SASL client: PLAIN (RFC 4616), SCRAM (RFC 5802) and OAUTHBEARER (RFC 7628), as Kafka has them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from binascii import Error as BinasciiError
from collections.abc import Generator
from typing import Final

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Hashes of the mechanisms of SCRAM."""

Tokens = Generator[bytes, bytes, None]
"""Yields the tokens of a client, and receives those of the server between them."""


class Untrusted(Exception):
    """A server without knowledge of the password, or of SCRAM; the message is a clause."""


def plain(user: str, password: str, authorization_id: str = "") -> bytes:
    """Return the token of PLAIN."""
    return f"{authorization_id}\0{user}\0{password}".encode()


def bearer(token: str) -> bytes:
    """Return the first message of OAUTHBEARER with a token."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def scram(mechanism: str, user: str, password: str, nonce: str, extensions: str = "") -> Tokens:
    """Take part in an exchange of SCRAM, with a nonce by chance; check the proof of the server.

    `extensions` are like `,tokenauth=true`. Raises Untrusted.
    """
    name = HASHES[mechanism]
    first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}{extensions}"
    answer = yield f"n,,{first}".encode()
    try:
        server_first = answer.decode()
        fields = dict(part.split("=", 1) for part in server_first.split(","))
        server_nonce, salt, rounds = fields["r"], base64.b64decode(fields["s"]), int(fields["i"])
    except (ValueError, KeyError, BinasciiError):
        raise Untrusted("the server's first message is none of SCRAM") from None
    if not server_nonce.startswith(nonce):
        raise Untrusted("the server's nonce does not begin with that of the client")
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, rounds)
    key = hmac.digest(salted, b"Client Key", name)
    without_proof = f"c=biws,r={server_nonce}"
    message = f"{first},{server_first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(name, key).digest(), message, name)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    server_final = yield f"{without_proof},p={proof}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), message, name)
    if server_final != b"v=" + base64.b64encode(expected):
        raise Untrusted("the server's signature is wrong")
