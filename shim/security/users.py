"""Users and their credentials: passwords for PLAIN, keys for SCRAM.

SCRAM keys of a user with a password are derived at the first login, because a derivation takes milliseconds. Keys that
administrators set with AlterUserScramCredentials stand in a place that outlives the process, and count before those.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

ITERATIONS: Final = 4096
"""Kafka's least number of iterations of SCRAM."""
MAX_BYTES: Final = 2 << 20
"""The limit for all credentials that administrators set; Kafka has none."""
BYTES_OF_CREDENTIAL: Final = 200
"""The memory of a credential beside its user and its salt, roughly."""
SCRAM_HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash of each mechanism, by its name in `hashlib`."""

MECHANISM_OF_CODE: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The name of each mechanism, by its code in requests of administrators."""
CODE_OF_MECHANISM: Final = {name: code for code, name in MECHANISM_OF_CODE.items()}


class ScramCredential(NamedTuple):
    """The keys of one user for one mechanism (RFC 5802)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def size_of(user: str, salt: bytes) -> int:
    """Return the bytes of a credential, as they count for the limit."""
    return BYTES_OF_CREDENTIAL + len(user) + len(salt)


def credential_of_salted(hash_name: str, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
    """Derive the keys from a salted password, as AlterUserScramCredentials carries it."""
    client_key = hmac.digest(salted_password, b"Client Key", hash_name)
    server_key = hmac.digest(salted_password, b"Server Key", hash_name)
    return ScramCredential(salt, hashlib.new(hash_name, client_key).digest(), server_key, iterations)


def credential_of(hash_name: str, password: str, salt: bytes | None = None) -> ScramCredential:
    """Derive the keys from a password."""
    salt = os.urandom(16) if salt is None else salt
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, ITERATIONS)
    return credential_of_salted(hash_name, salt, salted, ITERATIONS)


class Credentials(Protocol):
    """The place of credentials: each change puts another tuple there. `tell` announces a change.

    An entry has a user, the code of a mechanism, and salt, stored key, server key and iterations of the credential, the
    bytes as hex. One without iterations says that a user with a password has no such credential.
    """

    scram: tuple[tuple[Any, ...], ...]

    def tell(self) -> None: ...


class Users:
    """The users of a server. `accepts_anything` lets PLAIN accept any password of any user. `place` has the credentials
    that administrators have set."""

    def __init__(self, passwords: Mapping[str, str], *, accepts_anything: bool = False) -> None:
        self._passwords = dict(passwords)
        self._scram: dict[tuple[str, str], ScramCredential] = {}
        self.accepts_anything = accepts_anything
        self.place: Credentials | None = None
        self._loaded: tuple[tuple[Any, ...], ...] = ()
        self._set: dict[tuple[str, int], ScramCredential | None] = {}

    def __repr__(self) -> str:
        return f"<Users {', '.join(self._passwords)}>"

    def at(self, place: Credentials) -> Users:
        """Return the same users, with the credentials of administrators in another place."""
        users = Users(self._passwords, accepts_anything=self.accepts_anything)
        users.place = place
        return users

    def has_password(self, user: str, password: str) -> bool:
        """Return True if this is the user's password. The time does not depend on where two passwords differ."""
        if self.accepts_anything:
            return True
        expected = self._passwords.get(user)
        # An unknown user takes the time of a comparison too.
        same = hmac.compare_digest((expected or "").encode(), password.encode())
        return same and expected is not None

    def scram_credential(self, user: str, mechanism: str) -> ScramCredential | None:
        """Return the keys of a user for a mechanism, or None."""
        own = user, CODE_OF_MECHANISM[mechanism]
        if own in (every := self._all_set()):
            return every[own]
        credential = self._scram.get((user, mechanism))
        if credential is None and (password := self._passwords.get(user)) is not None:
            credential = self._scram[user, mechanism] = credential_of(SCRAM_HASHES[mechanism], password)
        return credential

    def scram_iterations(self) -> dict[str, dict[int, int]]:
        """Return the iterations of every credential, by user and the code of its mechanism."""
        credentials: dict[tuple[str, int], int] = {
            (user, code): ITERATIONS for user in self._passwords for code in MECHANISM_OF_CODE
        }
        for own, credential in self._all_set().items():
            credentials[own] = 0 if credential is None else credential.iterations
        by_user: dict[str, dict[int, int]] = {}
        for (user, code), iterations in credentials.items():
            if iterations:
                by_user.setdefault(user, {})[code] = iterations
        return by_user

    def scram_sizes(self) -> dict[tuple[str, int], int]:
        """Return the bytes of the credentials that administrators have set, as they count for the limit."""
        return {
            own: size_of(own[0], b"" if credential is None else credential.salt)
            for own, credential in self._all_set().items()
        }

    def change_scram(self, changed: Mapping[tuple[str, int], ScramCredential | None]) -> None:
        """Set credentials, by user and the code of the mechanism, or delete them (None). Connections that exist go
        on."""
        assert self.place is not None
        credentials = {**self._all_set(), **changed}
        self.place.scram = tuple(
            _entry(*own, credential)
            for own, credential in credentials.items()
            if credential is not None or own[0] in self._passwords
        )
        self.place.tell()

    def _all_set(self) -> Mapping[tuple[str, int], ScramCredential | None]:
        if self.place is not None and self.place.scram is not self._loaded:
            self._loaded = self.place.scram
            self._set = {(entry[0], entry[1]): _credential(*entry[2:]) for entry in self._loaded}
        return self._set


def _entry(user: str, code: int, credential: ScramCredential | None) -> tuple[Any, ...]:
    if credential is None:
        return user, code, "", "", "", 0
    salt, stored_key, server_key, iterations = credential
    return user, code, salt.hex(), stored_key.hex(), server_key.hex(), iterations


def _credential(salt: str, stored_key: str, server_key: str, iterations: int) -> ScramCredential | None:
    if not iterations:
        return None
    return ScramCredential(bytes.fromhex(salt), bytes.fromhex(stored_key), bytes.fromhex(server_key), iterations)
