"""Signed tokens of OAUTHBEARER: JWTs that the keys of a JSON Web Key Set verify, as Kafka's `BrokerJwtValidator` does.

The package joserfc checks the signature. An unknown key id asks for the keys again, and the token with it is refused
until then. Sources: RFC 7517, RFC 7519; Kafka's `BrokerJwtValidator`, `RefreshingHttpsJwks`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka_shim.security.oauthbearer import InvalidToken, time_of

SCHEMES: Final = ("file", "http", "https")
TIMEOUT: Final = 10.0
MAX_BYTES: Final = 1024 * 1024
"""The longest set of keys."""
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Signatures by a private key alone: with a secret, whoever may read it could make tokens."""
MAX_KEY_ID: Final = 1000
ASK_AGAIN: Final = 60.0
"""Seconds until an unknown key id asks for the keys again."""
LEAST_PAUSE: Final = 1.0
"""Seconds between two questions for keys, since a stranger chooses the key ids."""
PREFIX: Final = "sasl.oauthbearer."
NAMES: Final = frozenset(
    PREFIX + name
    for name in (
        "clock.skew.seconds",
        "expected.audience",
        "expected.issuer",
        "jwks.endpoint.refresh.ms",
        "jwks.endpoint.url",
        "scope.claim.name",
        "sub.claim.name",
    )
)


def read(url: str) -> bytes:
    """Return the keys behind a URL. Raises OSError, ValueError."""
    from urllib.request import urlopen  # slow to import, and few servers have keys

    try:
        with urlopen(url, timeout=TIMEOUT) as answer:
            data: bytes = answer.read(MAX_BYTES + 1)
    except (OSError, ValueError):
        raise
    except Exception as error:
        # An answer that is no HTTP raises neither.
        raise ValueError("the answer is no HTTP") from error
    if len(data) > MAX_BYTES:
        raise ValueError("the set of keys is too long")
    return data


class Jwks:
    """The keys of an issuer, and the claims that its tokens must have.

    `wanted` is called when other keys are needed.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        try:
            import joserfc  # noqa: F401 — a missing package is one sentence at the start
        except ModuleNotFoundError:
            raise ValueError(
                "sasl.oauthbearer.jwks.endpoint.url needs a package more: pip install 'kafka-group-shim[security]'."
            ) from None
        self.url = settings[f"{PREFIX}jwks.endpoint.url"]
        if self.url.partition(":")[0].lower() not in SCHEMES:
            raise ValueError(f"{PREFIX}jwks.endpoint.url is {self.url!r}: it begins with {', '.join(SCHEMES)}.")
        self.refresh_s = _number(settings, "jwks.endpoint.refresh.ms", 3_600_000) / 1000
        self._skew = _number(settings, "clock.skew.seconds", 30)
        self._audience = {part.strip() for part in settings.get(f"{PREFIX}expected.audience", "").split(",")} - {""}
        self._issuer = settings.get(f"{PREFIX}expected.issuer")
        self._subject = settings.get(f"{PREFIX}sub.claim.name", "sub")
        self._scope = settings.get(f"{PREFIX}scope.claim.name", "scope")
        self._keys: list[Any] = []
        self._unknown: dict[str, float] = {}
        self._last_question = float("-inf")
        self.wanted: Callable[[], None] = lambda: None

    def load(self) -> None:
        """Read the keys. Raises ValueError, in one sentence; then those before stay."""
        try:
            document = json.loads(read(self.url))
            entries = document["keys"]
            if not isinstance(entries, list):
                raise TypeError(entries)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            cause = getattr(error, "reason", error)
            reason = getattr(cause, "strerror", None) or (
                cause if isinstance(error, OSError) else "no JSON Web Key Set"
            )
            raise ValueError(f"The keys of {PREFIX}jwks.endpoint.url cannot be read: {reason}.") from None
        keys = [key for entry in entries if (key := _key(entry)) is not None]
        if not keys:
            raise ValueError(f"{PREFIX}jwks.endpoint.url has no key for signatures.")
        self._keys = keys

    def validated(self, token: str, epoch: float) -> tuple[str, float]:
        """Return the user of a token and its end. Raises InvalidToken."""
        claims = self._verified(token)
        ends, issued = time_of(claims.get("exp")), time_of(claims.get("iat"))
        user = claims.get(self._subject)
        if not isinstance(user, str) or not user.strip():
            raise InvalidToken
        if ends + self._skew <= epoch or issued - self._skew > epoch or issued > ends:
            raise InvalidToken
        if claims.get("nbf") is not None and time_of(claims["nbf"]) - self._skew > epoch:
            raise InvalidToken
        if self._issuer is not None and claims.get("iss") != self._issuer:
            raise InvalidToken
        if self._audience:
            audience = claims.get("aud")
            audiences = {audience} if isinstance(audience, str) else set(map(str, audience or ()))
            if audiences.isdisjoint(self._audience):
                raise InvalidToken
        scope = claims.get(self._scope)
        if scope is not None and not isinstance(scope, str | list):
            raise InvalidToken
        return user, ends

    def _verified(self, token: str) -> Mapping[str, Any]:
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jws import extract_compact

        try:
            header = extract_compact(token.encode()).headers()
        except (JoseError, ValueError, KeyError, TypeError, RecursionError):
            raise InvalidToken from None
        key_id = header.get("kid")
        candidates = [key for key in self._keys if key_id is None or key.kid == key_id]
        if not candidates:
            self._ask_for(key_id)
        for key in candidates:
            try:
                claims: Mapping[str, Any] = jwt.decode(token, key, algorithms=list(ALGORITHMS)).claims
                return claims
            except (JoseError, ValueError, KeyError, TypeError, RecursionError):
                continue
        raise InvalidToken

    def _ask_for(self, key_id: object) -> None:
        if not isinstance(key_id, str) or len(key_id) > MAX_KEY_ID:
            return
        now = time.monotonic()
        if now - self._unknown.get(key_id, float("-inf")) < ASK_AGAIN or now - self._last_question < LEAST_PAUSE:
            return
        while len(self._unknown) >= 16:
            del self._unknown[next(iter(self._unknown))]
        self._unknown[key_id] = self._last_question = now
        self.wanted()


def _key(entry: Any) -> Any:
    """Return a key for signatures; None for one of another use or an unknown type."""
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry

    if not isinstance(entry, dict) or entry.get("kty") not in ("RSA", "EC") or entry.get("use", "sig") != "sig":
        return None
    try:
        return JWKRegistry.import_key(entry)
    except (JoseError, ValueError, KeyError, TypeError):
        return None


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    value = settings.get(PREFIX + name, str(default))
    if not value.strip().isdecimal() or int(value) >= 1 << 31:
        raise ValueError(f"{PREFIX}{name} is {value!r}, which is not a number from 0 to 2147483647.")
    return int(value)
