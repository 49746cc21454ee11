"""TLS contexts of listeners by Kafka's `ssl.*` settings with PEM, and the principal of a client certificate.

Source: Kafka's `SslConfigs`, `DefaultSslEngineFactory`, `SslPrincipalMapper`.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

# RFC 2253 has short names for these types alone, in Java.
_SHORT: Final = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_SPECIAL: Final = re.compile(r'([,+"\\<>;])')
_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")


class Certified(Protocol):
    """A connection that may show the certificate of its client."""

    def getpeercert(self) -> Any: ...


class Tls:
    """The TLS settings of a listener. `context` is for new connections; it is made again when a file has changed.

    `make` reads `files`, and raises ValueError, in one sentence.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Iterable[str] = ()) -> None:
        self._make = make
        self._files = tuple(files)
        self._seen = self._stamps()
        self.context = make()

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        stamps: list[tuple[int, int, int] | None] = []
        for file in self._files:
            try:
                status = os.stat(file)
            except OSError:
                stamps.append(None)
            else:
                stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return stamps

    @property
    def is_watched(self) -> bool:
        """True if there are files that may change."""
        return bool(self._files)

    def look(self) -> bool:
        """Make the context again if a file has changed; return True if so. Raises ValueError, once for each change, if
        the files cannot be used; then the context stays."""
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps
        self.context = self._make()
        return True


def tls_of(settings: Mapping[str, str]) -> Tls:
    """Create the TLS settings of a listener. Raises ValueError."""
    return Tls(lambda: context_of(settings), _files_of(settings))


def peer_tls_of(settings: Mapping[str, str]) -> Tls:
    """Create the TLS settings of connections to the same listener of other processes. Raises ValueError."""
    return Tls(lambda: _peer_context_of(settings), _files_of(settings))


def _files_of(settings: Mapping[str, str]) -> list[str]:
    names = ("ssl.keystore.location", "ssl.truststore.location")
    return [settings[name] for name in names if name in settings]


def context_of(settings: Mapping[str, str]) -> ssl.SSLContext:
    """Create the context of a listener. Raises ValueError, in one sentence, for settings that do not fit; it holds no
    key."""
    for store in ("keystore", "truststore"):
        kind = settings.get(f"ssl.{store}.type", "PEM")
        if kind.upper() != "PEM":
            raise ValueError(f"ssl.{store}.type is {kind}: only PEM is served.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    names = [name.strip() for name in settings.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3").split(",")]
    if unknown := [name for name in names if name not in _VERSIONS]:
        raise ValueError(f"ssl.enabled.protocols has {unknown[0]}: TLSv1.2 and TLSv1.3 are served.")
    versions = sorted(_VERSIONS[name] for name in names)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_key(context, settings)
    authorities = settings.get("ssl.truststore.certificates")
    location = settings.get("ssl.truststore.location")
    client_auth = settings.get("ssl.client.auth", "none")
    if client_auth not in _CLIENT_AUTH:
        raise ValueError(f"ssl.client.auth is {client_auth!r}: it is none, requested or required.")
    try:
        if authorities is not None:
            context.load_verify_locations(cadata=authorities)
        elif location is not None:
            context.load_verify_locations(cafile=location)
        elif client_auth != "none":
            raise ValueError("Client certificates need ssl.truststore.location or ssl.truststore.certificates.")
    except (ssl.SSLError, OSError) as error:
        raise ValueError(f"The certificates of ssl.truststore cannot be used: {_reason(error)}.") from None
    context.verify_mode = _CLIENT_AUTH[client_auth]
    if client_auth != "none":
        # A resumed session would not look at the certificate again, which may have ended.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return context


def _peer_context_of(settings: Mapping[str, str]) -> ssl.SSLContext:
    # Each side shows the certificate of the listener, and takes one of an authority that the listener trusts.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.get("ssl.endpoint.identification.algorithm", "https").lower() == "https"
    _load_key(context, settings)
    authorities, location = settings.get("ssl.truststore.certificates"), settings.get("ssl.truststore.location")
    if authorities is None and location is None:
        raise ValueError(
            "Processes that share a store check each other's certificates: the listener needs ssl.truststore.location"
            " or ssl.truststore.certificates."
        )
    try:
        context.load_verify_locations(cafile=location if authorities is None else None, cadata=authorities)
    except (ssl.SSLError, OSError) as error:
        raise ValueError(f"The certificates of ssl.truststore cannot be used: {_reason(error)}.") from None
    return context


def _load_key(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    key, chain = settings.get("ssl.keystore.key"), settings.get("ssl.keystore.certificate.chain")
    location, password = settings.get("ssl.keystore.location"), settings.get("ssl.key.password")
    try:
        if location is not None:
            context.load_cert_chain(location, password=password or "")
        elif key is not None and chain is not None:
            # OpenSSL loads a chain from a file alone. Only this user may read it, and it is gone at once.
            handle, name = tempfile.mkstemp(suffix=".pem")
            try:
                with os.fdopen(handle, "w") as file:
                    file.write(f"{key}\n{chain}\n")
                context.load_cert_chain(name, password=password or "")
            finally:
                Path(name).unlink()
        else:
            raise ValueError(
                "TLS needs ssl.keystore.location, or ssl.keystore.key with ssl.keystore.certificate.chain, as PEM."
            )
    except (ssl.SSLError, OSError) as error:
        raise ValueError(f"The key and certificate of ssl.keystore cannot be used: {_reason(error)}.") from None


def _reason(error: OSError) -> str:
    return str(getattr(error, "reason", None) or error.strerror or "no PEM")


def name_of(certificate: Mapping[str, Any]) -> str:
    """Return the subject of a certificate, as `ssl` describes it, in the text of RFC 2253: the last part first."""
    parts = []
    for pairs in reversed(certificate.get("subject", ())):
        parts.append("+".join(f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in pairs))
    return ",".join(parts)


def _escaped(value: str) -> str:
    value = _SPECIAL.sub(r"\\\1", value)
    if value.startswith(("#", " ")):
        value = "\\" + value
    if value.endswith(" ") and len(value) > 1:
        value = value[:-1] + "\\ "
    return value


def mapping(rules: str) -> Callable[[str], str | None]:
    """Return the function of `ssl.principal.mapping.rules`: from a name to that of the principal, or None if no rule
    fits. Raises ValueError for rules that cannot be read."""
    steps: list[Callable[[str], str | None]] = []
    position, text = 0, rules.strip() or "DEFAULT"
    while position < len(text):
        if match := re.compile(r"[,\s]+").match(text, position):
            position = match.end()
        elif match := re.compile(r"DEFAULT(?=[,\s]|$)").match(text, position):
            steps.append(lambda name: name)
            position = match.end()
        elif match := _RULE.match(text, position):
            steps.append(_rule(match[1].replace("\\/", "/"), match[2].replace("\\/", "/"), match[3]))
            position = match.end()
        else:
            raise ValueError(f"ssl.principal.mapping.rules cannot be read from {text[position : position + 40]!r} on.")

    def principal(name: str) -> str | None:
        return next((result for step in steps if (result := step(name)) is not None), None)

    return principal


def _rule(pattern: str, replacement: str, case: str) -> Callable[[str], str | None]:
    import re2  # a pattern of an operator must not take exponential time on the name in a client's certificate

    try:
        compiled = re2.compile(pattern)
    except re2.error as error:
        raise ValueError(f"A pattern of ssl.principal.mapping.rules cannot be read: {error}.") from None

    def step(name: str) -> str | None:
        match = compiled.fullmatch(name)
        if match is None:
            return None

        def group(reference: re.Match[str]) -> str:
            number = int(reference[1])
            return (match.group(number) or "") if number <= compiled.groups else reference[0]

        result = re.sub(r"\$(\d)", group, replacement)
        return {"L": result.lower(), "U": result.upper()}.get(case, result)

    return step
