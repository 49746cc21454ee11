"""SASL SCRAM (RFC 5802) as Kafka's `ScramSaslServer` speaks it: without channel binding, and without preparation of
names."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from typing import Final

from kafka_shim.security.delegation import Token, Tokens, text_of
from kafka_shim.security.mechanism import Authenticated, Challenge, Rejected
from kafka_shim.security.plain import DIFFERENT_ID
from kafka_shim.security.users import ITERATIONS, SCRAM_HASHES, ScramCredential, Users

_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[^,\x00]+)*"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,(?P<bare>(?:m=[^,\x00]+,)?n=(?P<user>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_BASE64: Final = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_FINAL: Final = re.compile(
    rf"(?P<without_proof>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)


class Scram:
    """One authentication by one of the mechanisms in `SCRAM_HASHES`, as a user or, with the extension `tokenauth=true`,
    by a delegation token. The principal of the latter is the owner of the token."""

    def __init__(self, users: Users, mechanism: str, nonce: str | None = None, *, tokens: Tokens | None = None) -> None:
        self._users = users
        self._tokens = tokens
        self._mechanism = mechanism
        self._hash = SCRAM_HASHES[mechanism]
        self._server_nonce = secrets.token_urlsafe(18) if nonce is None else nonce
        self._credential: ScramCredential | None = None
        self._user = self._nonce = self._message = ""
        self._token: Token | None = None

    def step(self, token: bytes, epoch: float) -> Challenge | Authenticated:
        """See `Mechanism.step`."""
        try:
            text = token.decode("utf-8")
        except UnicodeDecodeError:
            raise Rejected("a SCRAM message that is not UTF-8") from None
        return self._first(text) if self._credential is None else self._final(text, self._credential)

    def _first(self, text: str) -> Challenge:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise Rejected("a malformed first message of SCRAM")
        self._user = _unescaped(match["user"])
        authorization_id = _unescaped(match["authzid"] or "")
        if _is_by_token(match["extensions"]):
            by_token = None if self._tokens is None else self._tokens.credential(self._user, self._mechanism)
            if by_token is None:
                raise Rejected("no such delegation token")
            self._token, credential = by_token
        else:
            of_user = self._users.scram_credential(self._user, self._mechanism)
            if of_user is None:
                raise Rejected("no such user for this mechanism")
            credential = of_user
        if authorization_id not in ("", self._user):
            raise Rejected(DIFFERENT_ID, text=DIFFERENT_ID)
        if credential.iterations < ITERATIONS:
            raise Rejected(f"a credential of fewer than {ITERATIONS} iterations")
        self._credential = credential
        self._nonce = match["nonce"] + self._server_nonce
        first = f"r={self._nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        self._message = f"{match['bare']},{first}"
        return Challenge(first.encode())

    def _final(self, text: str, credential: ScramCredential) -> Authenticated:
        match = _FINAL.fullmatch(text)
        if match is None:
            raise Rejected("a malformed final message of SCRAM")
        if not hmac.compare_digest(match["nonce"], self._nonce):
            raise Rejected("another nonce in the final message of SCRAM")
        message = f"{self._message},{match['without_proof']}".encode()
        signature = hmac.digest(credential.stored_key, message, self._hash)
        try:
            proof = b64decode(match["proof"], validate=True)
        except BinasciiError:
            raise Rejected("a malformed proof") from None
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        stored_key = hashlib.new(self._hash, client_key).digest()
        if len(proof) != len(signature) or not hmac.compare_digest(stored_key, credential.stored_key):
            raise Rejected("a wrong password")
        answer = b64encode(hmac.digest(credential.server_key, message, self._hash)).decode()
        token = self._token
        if token is not None:
            return Authenticated(f"v={answer}".encode(), text_of(token.owner), token.ends / 1000, by_token=True)
        return Authenticated(f"v={answer}".encode(), f"User:{self._user}")


def _is_by_token(extensions: str) -> bool:
    values = dict(part.split("=", 1) for part in extensions.split(",") if part)
    return values.get("tokenauth", "").lower() == "true"


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
