"""The settings of the profile `security`: listeners that authenticate their clients, and an authorizer.

The plain listener stays, for the requests of the suite itself: its principal may do everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_shim.conformance.endpoint import Endpoint

SECURITY: Final = "security"
"""The name of the profile."""

LOGIN: Final = "LOGIN"
"""A listener with SASL."""
BRIEF: Final = "BRIEF"
"""A listener with SASL, on which a session that began by PLAIN ends after `BRIEF_MS`."""

LISTENERS: Final[Mapping[str, str]] = {LOGIN: "SASL_PLAINTEXT", BRIEF: "SASL_PLAINTEXT"}
"""The security protocol of each listener beside the plain one."""

BRIEF_MS: Final = 1_500
TOKEN_LIFE_MS: Final = 7_200_000
"""The longest life of a delegation token."""
TOKEN_PERIOD_MS: Final = 3_600_000
"""The time until a delegation token ends without a renewal."""
TOKEN_CHECK_MS: Final = 3_000
"""The time between two removals of delegation tokens that have ended."""
PASSWORDS: Final[Mapping[str, str]] = {"carol": "carol-secret", "dave": "dave-secret"}
"""The users of PLAIN. Every cell has users of its own by OAUTHBEARER, and these have no ACLs."""

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
FAILURE_DELAY_MS: Final = 700
"""The delay of the answer to a failed authentication: long enough to tell it from an answer at once."""
MAX_FRAME: Final = 524_288
"""Kafka's own limit for a frame before authentication, in bytes."""

_PACKAGE: Final = "org.apache.kafka.common.security"


def settings(plain: Endpoint, secured: Mapping[str, Endpoint]) -> dict[str, str]:
    """Return the settings of a broker with a plain listener and these secured ones."""
    passwords = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    # A broker of Kafka logs in by OAUTHBEARER itself, too.
    oauth = f'{_PACKAGE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    modules = {
        "plain": f"{_PACKAGE}.plain.PlainLoginModule required {passwords};",
        "scram-sha-256": f"{_PACKAGE}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{_PACKAGE}.scram.ScramLoginModule required;",
        "oauthbearer": oauth,
    }
    every = {"PLAINTEXT": plain} | dict(secured)
    protocols = {"PLAINTEXT": "PLAINTEXT"} | {name: LISTENERS[name] for name in secured}
    return {
        "listeners": ",".join(f"{name}://{endpoint}" for name, endpoint in every.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connection.failed.authentication.delay.ms": str(FAILURE_DELAY_MS),
        "delegation.token.secret.key": "a key of the suite",
        "delegation.token.max.lifetime.ms": str(TOKEN_LIFE_MS),
        "delegation.token.expiry.time.ms": str(TOKEN_PERIOD_MS),
        "delegation.token.expiry.check.interval.ms": str(TOKEN_CHECK_MS),
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.min.heartbeat.interval.ms": "50",
        f"listener.name.{BRIEF.lower()}.plain.connections.max.reauth.ms": str(BRIEF_MS),
    } | {
        f"listener.name.{name.lower()}.{mechanism}.sasl.jaas.config": module
        for name in secured
        for mechanism, module in modules.items()
    }
