"""Delegation tokens: names with a password and an end, by which other clients log in as the owner (KIP-48, KIP-373).

The id of a token is the user of SCRAM, and its HMAC, as base64, the password. The HMAC follows from the id and the
secret key of the server, so nobody keeps it: a place that outlives the process has all of a token but its HMAC.
Times are in ms since the epoch.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from kafka_shim.security.users import SCRAM_HASHES, ScramCredential, credential_of

Principal: TypeAlias = tuple[str, str]
"""The type and the name of a principal, such as User and alice."""
USER: Final = "User"
MAX_BYTES: Final = 1024 * 1024
"""The limit of all tokens together; Kafka has none."""
BYTES_OF_TOKEN: Final = 200
"""The memory of a token without its principals, roughly."""


def principal_of(text: str) -> Principal:
    """Return the type and the name in Kafka's spelling of a principal."""
    kind, _, name = text.partition(":")
    return kind, name


def text_of(principal: Principal) -> str:
    """Return a principal in Kafka's spelling."""
    return f"{principal[0]}:{principal[1]}"


class Token(NamedTuple):
    """One token. `ends` moves with each renewal, never past `latest`."""

    id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued: int
    ends: int
    latest: int

    def changes_by(self, principal: Principal) -> bool:
        """Return True for those who may renew and end the token: the owner and the renewers."""
        return principal == self.owner or principal in self.renewers

    @property
    def size(self) -> int:
        """Return the bytes that count for the limit of all tokens."""
        principals = (self.owner, self.requester, *self.renewers)
        return BYTES_OF_TOKEN + sum(len(kind) + len(name) + 10 for kind, name in principals)

    def has_ended(self, now: int) -> bool:
        """Return True after the end of the token."""
        return self.ends < now or self.latest < now


class Place(Protocol):
    """The place of tokens by id: each change puts another mapping there. `tell` announces a change."""

    tokens: Mapping[str, tuple[Any, ...]]

    def tell(self) -> None: ...


class _Nowhere:
    """The place of the tokens of a server that has not started."""

    def __init__(self) -> None:
        self.tokens: Mapping[str, tuple[Any, ...]] = {}

    def tell(self) -> None: ...


class Tokens:
    """The tokens of a server. Without a `secret_key` there are none. `longest` is the longest life of a token, `period`
    the time until its end without a renewal, `interval` the time between two removals of ended ones, all in ms."""

    def __init__(self, secret_key: str | None, longest: int, period: int, interval: int) -> None:
        self._key = None if secret_key is None else secret_key.encode()
        self.longest = longest
        self.period = period
        self.interval = interval
        self.place: Place = _Nowhere()
        self.wall_offset = 0.0
        """Seconds to add to the time of a request for Unix time."""
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        self._mapping: Mapping[str, tuple[Any, ...]] = {}
        self._by_id: dict[str, Token] = {}
        self._hmacs: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}

    def __repr__(self) -> str:
        return f"<Tokens, {'on' if self.are_on else 'off'}>"

    def at(self, place: Place) -> Tokens:
        """Return the tokens of the same server in another place."""
        tokens = Tokens(None, self.longest, self.period, self.interval)
        tokens._key, tokens.place, tokens.wall_offset = self._key, place, self.wall_offset
        return tokens

    @property
    def are_on(self) -> bool:
        """Return True if the server has a secret key."""
        return self._key is not None

    def all(self) -> Mapping[str, Token]:
        """Return every token by its id, also one that has ended and is not removed yet."""
        if self.place.tokens is not self._mapping:
            self._mapping = self.place.tokens
            self._by_id = {id: _token(id, *fields) for id, fields in self._mapping.items()}
            self._hmacs = {id: self._hmacs.get(id) or self._hmac(id) for id in self._by_id}
            self._ids = {value: id for id, value in self._hmacs.items()}
            self._credentials = {
                key: credential for key, credential in self._credentials.items() if key[0] in self._by_id
            }
        return self._by_id

    def hmac_of(self, token: Token) -> bytes:
        """Return the HMAC of a token."""
        return self._hmac(token.id)

    def with_hmac(self, value: bytes) -> Token | None:
        """Return the token with an HMAC, or None."""
        tokens = self.all()
        return tokens.get(self._ids.get(value, ""))

    def _hmac(self, id: str) -> bytes:
        return b"" if self._key is None else hmac.digest(self._key, id.encode(), "sha512")

    def have_room_for(self, token: Token) -> bool:
        """Return True if all tokens with this one are within the limit."""
        return token.size + sum(each.size for each in self.all().values()) <= MAX_BYTES

    def put(self, token: Token) -> None:
        """Add a token, or replace the one with its id."""
        self._change({**self.place.tokens, token.id: token[1:]})

    def remove(self, ids: set[str]) -> None:
        """Remove tokens. Connections that exist go on."""
        self._change({id: fields for id, fields in self.place.tokens.items() if id not in ids})

    def over(self, now: int) -> set[str]:
        """Return the ids of the tokens that have ended."""
        return {token.id for token in self.all().values() if token.has_ended(now)}

    def _change(self, tokens: Mapping[str, tuple[Any, ...]]) -> None:
        self.place.tokens = tokens
        self.place.tell()

    def credential(self, id: str, mechanism: str) -> tuple[Token, ScramCredential] | None:
        """Return a token with its keys for a mechanism of SCRAM, or None."""
        token = self.all().get(id) if self.are_on else None
        if token is None:
            return None
        credential = self._credentials.get((id, mechanism))
        if credential is None:
            password = b64encode(self.hmac_of(token)).decode()
            credential = self._credentials[id, mechanism] = credential_of(SCRAM_HASHES[mechanism], password)
        return token, credential


def _token(id: str, owner: Any, requester: Any, renewers: Any, issued: int, ends: int, latest: int) -> Token:
    # A store returns lists.
    (kind, name), (asker_kind, asker) = owner, requester
    return Token(id, (kind, name), (asker_kind, asker), tuple((k, n) for k, n in renewers), issued, ends, latest)


class Removal:
    """The regular removal of tokens that have ended; `epoch_ms` turns seconds of a clock into ms since the epoch.
    `remove` takes their ids, and does it for all processes that share them."""

    def __init__(
        self,
        tokens: Tokens,
        epoch_ms: Callable[[float], int],
        now: float,
        remove: Callable[[set[str]], None] | None = None,
    ) -> None:
        self._tokens = tokens
        self._epoch_ms = epoch_ms
        self._next = now + tokens.interval / 1000
        self._remove = remove or tokens.remove

    @property
    def due(self) -> float:
        """Return the time of the next run; infinity without tokens."""
        return self._next if self._tokens.place.tokens else inf

    def look(self, now: float) -> None:
        """Remove the tokens that have ended."""
        self._next = now + self._tokens.interval / 1000
        if over := self._tokens.over(self._epoch_ms(now)):
            self._remove(over)

    def written(self, now: float) -> None:
        """Ignore a change of logs."""
