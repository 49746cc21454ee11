"""A secured coordinator in one line: the listeners, the certificates, and the settings for clients."""

from __future__ import annotations

import base64
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka_shim.security.config import MECHANISMS, security_of
from kafka_shim.security.listeners import Protocol
from kafka_shim.security.users import Users

if TYPE_CHECKING:
    from kafka_shim.security.certificates import TestAuthority

ANYTHING: Final = "anything"
PASSWORD: Final = "secret"
"""The password in settings for clients of a server that accepts anything."""
TOKEN_SECONDS: Final = 3600


class Files(NamedTuple):
    """PEM files of a client: the certificate to trust, and its own certificate with its key."""

    ca: str | None = None
    client: str | None = None


class Security:
    """The security of a coordinator for tests. `ca_file` is the certificate to trust, None without TLS."""

    def __init__(
        self, security: str | None, users: Mapping[str, str] | None, accept: str | None, config: Mapping[str, str]
    ) -> None:
        self.users = dict(users or {})
        self.ca_file: str | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._authority: TestAuthority | None = None
        self._client_files: dict[str, str] = {}
        self._accepts_anything = accept == ANYTHING
        if accept not in (None, ANYTHING):
            raise ValueError(f"accept must be {ANYTHING!r}, not {accept!r}.")
        settings = dict(config)
        if security is not None:
            if security not in Protocol.__members__:
                raise ValueError(f"security must be one of {', '.join(Protocol.__members__)}, not {security!r}.")
            if "listeners" in settings:
                raise ValueError("Choose the listeners by security or by the setting listeners, not by both.")
            settings["listeners"] = f"{security}://127.0.0.1:0"
        elif "listeners" not in settings:
            subject = "users and accept need" if users or accept else f"{next(iter(settings))} needs"
            raise ValueError(f'{subject} security="SASL_SSL" or another protocol, or the setting listeners.')
        settings.setdefault("sasl.enabled.mechanisms", ",".join(MECHANISMS))
        if "SSL" in settings.get("listeners", "") + settings.get("listener.security.protocol.map", ""):
            self._make_certificates(settings)
        chosen = security_of(settings, users)
        if chosen is not None and accept == ANYTHING:
            mechanisms = tuple(name for name in chosen.mechanisms if self.users or not name.startswith("SCRAM"))
            users_of = Users(self.users, accepts_anything=True)
            chosen = replace(chosen, mechanisms=mechanisms, users=users_of)
        self.config = chosen

    def _make_certificates(self, settings: dict[str, str]) -> None:
        if any(name.endswith(("ssl.keystore.location", "ssl.keystore.key")) for name in settings):
            return
        from kafka_shim.security.certificate_files import CA, write_server
        from kafka_shim.security.certificates import TestAuthority

        self._authority = TestAuthority()
        self._folder = tempfile.TemporaryDirectory(prefix="kafka-shim-")
        folder = Path(self._folder.name)
        own = write_server(folder, self._authority, self._authority.server())
        if "ssl.truststore.certificates" in settings:
            own = {name: value for name, value in own.items() if not name.startswith("ssl.truststore.")}
        settings.update(own | settings)
        self.ca_file = str(folder / CA)

    @property
    def has_certificate(self) -> bool:
        """True if the server has a certificate of the kit."""
        return self._authority is not None

    def replace_certificate(self, hosts: Sequence[str], seconds: float | None) -> None:
        """Give the server a certificate with other names, or another end; see `Coordinator.replace_certificate`."""
        if self._authority is None or self._folder is None:
            raise ValueError("There is no certificate of the kit here.")
        from kafka_shim.security.certificate_files import SERVER, write_pem
        from kafka_shim.security.certificates import HOSTS

        lasts = None if seconds is None else timedelta(seconds=seconds)
        folder = Path(self._folder.name)
        write_pem(folder / "new.pem", self._authority.server(hosts or HOSTS, lasts))
        # The server never sees half a file.
        (folder / "new.pem").replace(folder / SERVER)

    def _client_file(self, user: str) -> str | None:
        """Return a certificate with its key for a user, if the listener asks for one and the authority is our own."""
        if self.config is None or self._authority is None or self._folder is None:
            return None
        if self.config.settings_of(self.config.listeners[0]).get("ssl.client.auth", "none") == "none":
            return None
        from kafka_shim.security.certificate_files import write_pem

        if user not in self._client_files:
            path = Path(self._folder.name) / f"client-{len(self._client_files)}.pem"
            write_pem(path, self._authority.client(user))
            self._client_files[user] = str(path)
        return self._client_files[user]

    def client(self, style: str, user: str | None, mechanism: str) -> dict[str, Any]:
        """Return the settings of a client; see `Coordinator.client_settings`."""
        if self.config is None:
            return {}
        if style not in STYLES:
            raise ValueError(f"client must be one of {', '.join(STYLES)}, not {style!r}.")
        if mechanism not in MECHANISMS:
            raise ValueError(f"mechanism must be one of {', '.join(MECHANISMS)}, not {mechanism!r}.")
        protocol = self.config.listeners[0].protocol
        has_password = protocol.has_sasl and mechanism != "OAUTHBEARER" and not self._accepts_anything
        if user is not None and user not in self.users and self.users and has_password:
            raise ValueError(f"user must be one of {', '.join(self.users)}, not {user!r}.")
        user = user or next(iter(self.users), "anybody")
        return settings_of(
            style,
            protocol,
            Files(self.ca_file, self._client_file(user)) if protocol.has_tls else Files(),
            user,
            self.users.get(user, PASSWORD),
            mechanism,
        )


def settings_of(
    style: str, protocol: Protocol, files: Files, user: str = "", password: str = "", mechanism: str = "PLAIN"
) -> dict[str, Any]:
    """Return the settings of a client, one of `STYLES`, without the bootstrap servers."""
    return STYLES[style](protocol, files, user, password, mechanism)


def unsecured_token(user: str, seconds: float = TOKEN_SECONDS) -> str:
    """Return an unsecured token of OAUTHBEARER for a user, with an end in `seconds` from now."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + seconds})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def _java(protocol: Protocol, files: Files, user: str, password: str, mechanism: str) -> dict[str, Any]:
    settings: dict[str, Any] = {"security.protocol": protocol.value}
    if files.ca is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": files.ca}
    if files.client is not None:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": files.client}
    if protocol.has_sasl:
        package = "org.apache.kafka.common.security"
        login = {
            "PLAIN": f'{package}.plain.PlainLoginModule required username="{user}" password="{password}";',
            "OAUTHBEARER": f"{package}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="
            f'"{user}";',
        }.get(mechanism, f'{package}.scram.ScramLoginModule required username="{user}" password="{password}";')
        settings |= {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
    return settings


def _librdkafka(protocol: Protocol, files: Files, user: str, password: str, mechanism: str) -> dict[str, Any]:
    settings: dict[str, Any] = {"security.protocol": protocol.value}
    if files.ca is not None:
        settings["ssl.ca.location"] = files.ca
    if files.client is not None:
        settings |= {"ssl.certificate.location": files.client, "ssl.key.location": files.client}
    if protocol.has_sasl:
        settings["sasl.mechanisms"] = mechanism
        if mechanism == "OAUTHBEARER":
            settings |= {
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={user} lifeSeconds={TOKEN_SECONDS}",
            }
        else:
            settings |= {"sasl.username": user, "sasl.password": password}
    return settings


def _kafka_python(protocol: Protocol, files: Files, user: str, password: str, mechanism: str) -> dict[str, Any]:
    settings: dict[str, Any] = {"security_protocol": protocol.value}
    if files.ca is not None:
        settings["ssl_cafile"] = files.ca
    if files.client is not None:
        settings |= {"ssl_certfile": files.client, "ssl_keyfile": files.client}
    if protocol.has_sasl:
        settings["sasl_mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            from kafka.net.sasl.oauth import AbstractTokenProvider

            class Tokens(AbstractTokenProvider):  # type: ignore[misc]
                def token(self) -> str:
                    return unsecured_token(user)

            settings["sasl_oauth_token_provider"] = Tokens()
        else:
            settings |= {"sasl_plain_username": user, "sasl_plain_password": password}
    return settings


def _aiokafka(protocol: Protocol, files: Files, user: str, password: str, mechanism: str) -> dict[str, Any]:
    settings: dict[str, Any] = {"security_protocol": protocol.value}
    if files.ca is not None:
        import ssl

        context = settings["ssl_context"] = ssl.create_default_context(cafile=files.ca)
        if files.client is not None:
            context.load_cert_chain(files.client)
    if protocol.has_sasl:
        settings["sasl_mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            from aiokafka.abc import AbstractTokenProvider

            class Tokens(AbstractTokenProvider):  # type: ignore[misc]
                async def token(self) -> str:
                    return unsecured_token(user)

            settings["sasl_oauth_token_provider"] = Tokens()
        else:
            settings |= {"sasl_plain_username": user, "sasl_plain_password": password}
    return settings


STYLES: Final = {
    "java": _java,
    "confluent-kafka": _librdkafka,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
}
