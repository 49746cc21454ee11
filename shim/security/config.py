"""The security of a server, from Kafka's settings: listeners, mechanisms, users and lifetimes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_shim.security.authorizer import Acls, Authorizer
from kafka_shim.security.delegation import Tokens
from kafka_shim.security.jwks import NAMES as JWKS_NAMES
from kafka_shim.security.jwks import PREFIX as JWKS_PREFIX
from kafka_shim.security.jwks import Jwks
from kafka_shim.security.listeners import Listener, listeners_of
from kafka_shim.security.mechanism import Mechanism
from kafka_shim.security.oauthbearer import OAuthBearer
from kafka_shim.security.plain import Plain
from kafka_shim.security.scram import Scram
from kafka_shim.security.users import SCRAM_HASHES, Users

MECHANISMS: Final = ("PLAIN", *SCRAM_HASHES, "OAUTHBEARER")
PATTERN_TOPICS: Final = "kafka.shim.regex.topics"
"""Topics that a pattern of a consumer group shows: `member`, those that each member may describe itself, or `group`,
those that one member may describe: the sender of the heartbeat that had the patterns resolved, as in Kafka."""
NAMES: Final = frozenset(
    {
        PATTERN_TOPICS,
        "allow.everyone.if.no.acl.found",
        "authorizer.class.name",
        "super.users",
        "listeners",
        "listener.security.protocol.map",
        "advertised.listeners",
        "sasl.enabled.mechanisms",
        "sasl.server.max.receive.size",
        "connections.max.reauth.ms",
        "inter.broker.listener.name",
        "connection.failed.authentication.delay.ms",
        "delegation.token.expiry.check.interval.ms",
        "delegation.token.expiry.time.ms",
        "delegation.token.max.lifetime.ms",
        "delegation.token.secret.key",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.principal.mapping.rules",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.type",
        *JWKS_NAMES,
    }
)
"""The settings that have an effect here. Those of `ssl.` may have the prefix of a listener."""
MAX_INT: Final = 2**31 - 1
VALIDATOR: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_HIDDEN: Final = frozenset(
    {
        "delegation.token.secret.key",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        PATTERN_TOPICS,
    }
)
"""Secrets, and the setting that Kafka does not have."""
_PREFIXED: Final = re.compile(
    r"listener\.name\.[^.]+\."
    r"(?:(?P<name>ssl\..+)|(?P<limit>max\.connections|max\.connection\.creation\.rate)|(?P<mechanism>[^.]+)\.(?:sasl\.jaas\.config|sasl\.server\.callback\.handler\.class|connections\.max\.reauth\.ms))",
    re.IGNORECASE,
)
_DAY_MS: Final = 24 * 3600 * 1000
_LONGEST_MS: Final = 10**15
_JAAS_USER: Final = re.compile(r'\buser_(?P<user>[^\s=]+)\s*=\s*"(?P<password>(?:[^"\\]|\\.)*)"')


def is_security_setting(name: str) -> bool:
    """Return True for a setting that `SecurityConfig` reads."""
    if name in NAMES:
        return True
    match = _PREFIXED.fullmatch(name)
    if match is None:
        return False
    if match["limit"] is not None:
        return True
    return match["name"] in NAMES if match["mechanism"] is None else match["mechanism"].upper() in MECHANISMS


def public_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that DescribeConfigs may show: those without a secret, and without the prefix of a
    listener."""
    return {
        name: value
        for name, value in settings.items()
        if not is_security_setting(name) or (name in NAMES and name not in _HIDDEN and "ssl.truststore" not in name)
    }


@dataclass(frozen=True, kw_only=True)
class SecurityConfig:
    """The security of a server."""

    listeners: tuple[Listener, ...]
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    mechanisms: tuple[str, ...] = MECHANISMS
    users: Users = field(default_factory=lambda: Users({}))
    max_lifetime: float = 0.0
    """Seconds of a session until its client must authenticate again; 0 for no end. See `lifetimes`."""
    failure_delay: float = 0.1
    """Seconds until the answer to a failed authentication."""
    max_token: int = 524288
    """The largest frame of a client that is not authenticated yet."""

    jwks: Jwks | None = None
    """The keys for signed tokens; without them OAUTHBEARER takes unsecured ones."""
    tokens: Tokens = field(default_factory=lambda: tokens_of({}))
    """The delegation tokens."""
    super_users: frozenset[str] = frozenset()
    has_authorizer: bool = False
    allows_without_acl: bool = False
    members_see_their_own: bool = True
    """See `PATTERN_TOPICS`."""

    @property
    def between_brokers(self) -> Listener:
        """The listener for the connections of processes to each other. Raises ValueError, in one sentence."""
        name = self.settings.get("inter.broker.listener.name", "").upper()
        fit = [each for each in self.listeners if name in ("", each.name)]
        if not fit:
            raise ValueError(f"inter.broker.listener.name is {name}, which is not in listeners.")
        fit = [each for each in fit if not each.protocol.has_sasl]
        if not fit:
            raise ValueError(
                "Processes that share a store reach each other by a listener without SASL, SSL with client certificates"
                " or PLAINTEXT: add one, and name it in inter.broker.listener.name."
            )
        return fit[0]

    def authorizer(self, place: Acls) -> Authorizer | None:
        """Create the authorizer of the ACLs in `place`; None if there is none by the settings."""
        if not self.has_authorizer:
            return None
        return Authorizer(place, self.super_users, allows_without_acl=self.allows_without_acl)

    @property
    def has_scram(self) -> bool:
        """True if clients of some listener may authenticate by SCRAM."""
        return any(each.protocol.has_sasl for each in self.listeners) and not SCRAM_HASHES.keys().isdisjoint(
            self.mechanisms
        )

    def factories(self) -> dict[str, Callable[[], Mechanism]]:
        """Return what creates an authentication, by mechanism."""
        users, tokens = self.users, self.tokens
        validated = None if self.jwks is None else self.jwks.validated
        every: dict[str, Callable[[], Mechanism]] = {
            "PLAIN": lambda: Plain(users),
            "OAUTHBEARER": lambda: OAuthBearer(validated),
        }
        for name in SCRAM_HASHES:
            every[name] = lambda name=name: Scram(users, name, tokens=tokens)  # type: ignore[misc]
        return {name: every[name] for name in self.mechanisms}

    def lifetimes(self, listener: Listener) -> dict[str, float]:
        """Return the longest session of each mechanism on a listener, in seconds; 0 for no end."""
        prefix = f"listener.name.{listener.name.lower()}."
        return {
            name: _seconds(self.settings, f"{prefix}{name.lower()}.connections.max.reauth.ms", self.max_lifetime)
            for name in self.mechanisms
        }

    def limits_of(self, listener: Listener) -> tuple[int, int]:
        """Return the limits of a listener: connections, and new ones in a second. Raises ValueError."""
        prefix = f"listener.name.{listener.name.lower()}."
        names = (f"{prefix}max.connections", f"{prefix}max.connection.creation.rate")
        return _number(self.settings, names[0], MAX_INT), _number(self.settings, names[1], MAX_INT)

    def settings_of(self, listener: Listener) -> dict[str, str]:
        """Return the `ssl.` settings of a listener: its own before those of all."""
        prefix = f"listener.name.{listener.name.lower()}."
        common = {name: value for name, value in self.settings.items() if name.startswith("ssl.")}
        if listener.protocol.has_sasl:
            # As in Kafka a SASL listener asks for a certificate only if its own setting says so.
            common.pop("ssl.client.auth", None)
        own = {name[len(prefix) :]: value for name, value in self.settings.items() if name.startswith(prefix)}
        return common | own


def security_of(settings: Mapping[str, str], users: Mapping[str, str] | None = None) -> SecurityConfig | None:
    """Return the security that these settings describe; None without `listeners`. `users` have passwords for PLAIN and
    SCRAM. Raises ValueError, in one sentence, for an impossible one; it holds no secret."""
    if "listeners" not in settings:
        for name in filter(is_security_setting, settings):
            raise ValueError(f"{name} has no effect without the setting listeners, such as PLAINTEXT://127.0.0.1:9092.")
        return None
    lowered = {_lower_prefix(name): value for name, value in settings.items()}
    listeners = listeners_of(lowered)
    if not listeners:
        raise ValueError("listeners names no listener.")
    mechanisms = tuple(part.strip() for part in lowered.get("sasl.enabled.mechanisms", "").split(",") if part.strip())
    if unknown := [name for name in mechanisms if name not in MECHANISMS]:
        raise ValueError(f"The mechanism {unknown[0]} is not served; these are: {', '.join(MECHANISMS)}.")
    if any(listener.protocol.has_sasl for listener in listeners) and not mechanisms:
        raise ValueError(f"A SASL listener needs sasl.enabled.mechanisms, of {', '.join(MECHANISMS)}.")
    authorizer = lowered.get("authorizer.class.name", "")
    if authorizer not in ("", STANDARD_AUTHORIZER):
        raise ValueError(f"authorizer.class.name is {authorizer!r}; only {STANDARD_AUTHORIZER} is served.")
    passwords = dict(users or {})
    for listener in listeners:
        passwords |= _jaas_users(lowered.get(f"listener.name.{listener.name.lower()}.plain.sasl.jaas.config", ""))
    for name, value in lowered.items():
        if name.endswith(".sasl.server.callback.handler.class") and value != VALIDATOR:
            raise ValueError(f"{name} is {value!r}; only {VALIDATOR} is served.")
        if name.endswith(".sasl.server.callback.handler.class") and f"{JWKS_PREFIX}jwks.endpoint.url" not in lowered:
            raise ValueError(f"{name} needs {JWKS_PREFIX}jwks.endpoint.url.")
    topics_of = lowered.get(PATTERN_TOPICS, "member")
    if topics_of not in ("member", "group"):
        raise ValueError(f"{PATTERN_TOPICS} is {topics_of!r}; it must be member or group.")
    security = SecurityConfig(
        members_see_their_own=topics_of == "member",
        listeners=listeners,
        settings=lowered,
        mechanisms=mechanisms,
        users=Users(passwords),
        jwks=Jwks(lowered) if f"{JWKS_PREFIX}jwks.endpoint.url" in lowered else None,
        tokens=tokens_of(lowered),
        super_users=frozenset(part.strip() for part in lowered.get("super.users", "").split(";") if part.strip()),
        has_authorizer=bool(authorizer),
        allows_without_acl=lowered.get("allow.everyone.if.no.acl.found", "false").lower() == "true",
        max_lifetime=_number(lowered, "connections.max.reauth.ms", 0) / 1000,
        failure_delay=_number(lowered, "connection.failed.authentication.delay.ms", 100) / 1000,
        max_token=_number(lowered, "sasl.server.max.receive.size", 524288),
    )
    for listener in listeners:
        # A number that cannot be one is refused at the start.
        security.lifetimes(listener)
        security.limits_of(listener)
    return security


def tokens_of(settings: Mapping[str, str]) -> Tokens:
    """Return the delegation tokens by these settings. Raises ValueError, in one sentence."""
    prefix = "delegation.token."
    return Tokens(
        settings.get(f"{prefix}secret.key"),
        longest=_duration(settings, f"{prefix}max.lifetime.ms", 7 * _DAY_MS),
        period=_duration(settings, f"{prefix}expiry.time.ms", _DAY_MS),
        interval=_duration(settings, f"{prefix}expiry.check.interval.ms", _DAY_MS // 24),
    )


def _lower_prefix(name: str) -> str:
    parts = name.split(".")
    if name.lower().startswith("listener.name.") and len(parts) > 3:
        lowered = 4 if parts[3].upper() in MECHANISMS else 3
        parts[:lowered] = [part.lower() for part in parts[:lowered]]
    return ".".join(parts)


def _jaas_users(text: str) -> dict[str, str]:
    if text and "PlainLoginModule" not in text:
        raise ValueError("A plain.sasl.jaas.config names another login module than PlainLoginModule.")
    return {match["user"]: re.sub(r"\\(.)", r"\1", match["password"]) for match in _JAAS_USER.finditer(text)}


def _seconds(settings: Mapping[str, str], name: str, default: float) -> float:
    return _number(settings, name, 0) / 1000 if name in settings else default


def _duration(settings: Mapping[str, str], name: str, default: int) -> int:
    """Return a number of ms that is at least 1."""
    value = settings.get(name, str(default)).strip()
    if not value.isascii() or not value.isdecimal() or not 1 <= int(value[:20]) <= _LONGEST_MS:
        raise ValueError(f"{name} is {value!r}, which is not a number from 1 to {_LONGEST_MS}.")
    return int(value)


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    value = settings.get(name)
    if value is None:
        return default
    if not value.strip().isdecimal() or int(value) >= 1 << 31:
        raise ValueError(f"{name} is {value!r}, which is not a number from 0 to 2147483647.")
    return int(value)
