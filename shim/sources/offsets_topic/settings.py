"""Kafka's settings of a client, `client.properties`, as far as a connection needs them: TLS and SASL.

A setting of another kind has no effect on a reader, and is skipped. A setting of security that is not understood ends
the command: a reader must not be less secure than its user meant.

Source: Kafka's documentation of client settings; `java.util.Properties` for the format of the file.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from kafka_shim.apis.sasl_tokens import HASHES

PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", *HASHES)
_UNDERSTOOD: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.jaas.config",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.certificates",
        "ssl.truststore.password",
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "ssl.enabled.protocols",
        "ssl.protocol",
    }
)
_SECURITY: Final = ("security.", "ssl.", "sasl.")
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PAIR: Final = re.compile(r"(?P<key>(?:\\.|[^\\=: \t])+)[ \t]*[=: \t]?[ \t]*(?P<value>.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_JAAS: Final = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)(?P<options>.*?);?\s*")
_OPTION: Final = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;]+))""")


class UnusableSettings(Exception):
    """Unusable settings; the message is one sentence."""


@dataclass(frozen=True)
class Security:
    """The security of connections: TLS, SASL, both or none."""

    context: ssl.SSLContext | None = None
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    extensions: str = ""
    """Those of SCRAM: `,tokenauth=true` for a delegation token."""

    @property
    def protocol(self) -> str:
        """Kafka's name of it, `security.protocol`."""
        transport = PLAINTEXT if self.context is None else "SSL"
        return f"SASL_{transport}" if self.mechanism else transport


def security_of(path: Path | None) -> Security:
    """Return the security that a file of settings has; none without a file. Raises UnusableSettings."""
    if path is None:
        return Security()
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableSettings(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}.") from None
    settings = properties(text)
    unknown = [name for name in settings if name.startswith(_SECURITY) and name not in _UNDERSTOOD]
    if unknown:
        raise UnusableSettings(
            f"{path} has {unknown[0]}, a setting of security that is not understood here: remove it, or read the"
            " partition's segment files with --offsets."
        )
    return _security(settings, path)


def _security(settings: Mapping[str, str], path: Path) -> Security:
    protocol = settings.get("security.protocol", PLAINTEXT).upper()
    if protocol not in PROTOCOLS:
        raise UnusableSettings(f"security.protocol in {path} is {protocol}; it may be {', '.join(PROTOCOLS)}.")
    context = _context(settings, path) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return Security(context)
    mechanism = settings.get("sasl.mechanism", "GSSAPI")
    if mechanism not in MECHANISMS:
        raise UnusableSettings(f"sasl.mechanism in {path} is {mechanism}; only {', '.join(MECHANISMS)} work here.")
    user, password, extensions = _credentials(settings, path, mechanism)
    return Security(context, mechanism, user, password, extensions)


def properties(text: str) -> dict[str, str]:
    """Return the pairs of a file in the format of `java.util.Properties`."""
    pairs: dict[str, str] = {}
    whole = ""
    for line in [*text.splitlines(), ""]:
        part = line.lstrip(" \t\f")
        if not whole and part.startswith(("#", "!")):
            continue
        whole += part
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            whole = whole[:-1]
            continue
        match = _PAIR.fullmatch(whole)
        if match is not None:
            pairs[_unescaped(match["key"])] = _unescaped(match["value"]).strip()
        whole = ""
    return pairs


def _unescaped(text: str) -> str:
    def of(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _CONTROLS.get(code, code)

    return _ESCAPE.sub(of, text)


def _credentials(settings: Mapping[str, str], path: Path, mechanism: str) -> tuple[str, str, str]:
    login = settings.get("sasl.jaas.config", "")
    match = _JAAS.fullmatch(login)
    module = "PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"
    if match is None or not match["module"].endswith(module):
        raise UnusableSettings(
            f'{mechanism} needs sasl.jaas.config in {path}: ...{module} required username="..." password="...";'
        )
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) or single or bare
        for name, quoted, single, bare in _OPTION.findall(match["options"])
    }
    if "username" not in options or "password" not in options:
        raise UnusableSettings(f"sasl.jaas.config in {path} has no username, or no password.")
    by_token = options.get("tokenauth", "").lower() == "true"
    return options["username"], options["password"], ",tokenauth=true" if by_token else ""


def _context(settings: Mapping[str, str], path: Path) -> ssl.SSLContext:
    trusted = settings.get("ssl.truststore.certificates")
    location = settings.get("ssl.truststore.location")
    if trusted is None and location is not None:
        trusted = _pem(settings, "truststore", Path(location), path)
    try:
        context = ssl.create_default_context(cadata=trusted)
    except (ssl.SSLError, ValueError, OSError):
        raise UnusableSettings(f"The certificates of ssl.truststore in {path} cannot be used.") from None
    if not settings.get("ssl.endpoint.identification.algorithm", "https"):
        context.check_hostname = False
    versions = [each.strip() for each in settings.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3").split(",")]
    numbers = sorted(_VERSIONS[each] for each in versions if each in _VERSIONS)
    if not numbers:
        raise UnusableSettings(f"ssl.enabled.protocols in {path} has neither TLSv1.2 nor TLSv1.3.")
    context.minimum_version, context.maximum_version = numbers[0], numbers[-1]
    _load_key(context, settings, path)
    return context


def _load_key(context: ssl.SSLContext, settings: Mapping[str, str], path: Path) -> None:
    key, chain = settings.get("ssl.keystore.key"), settings.get("ssl.keystore.certificate.chain")
    location = settings.get("ssl.keystore.location")
    password = settings.get("ssl.key.password") or None
    if key is not None and chain is not None:
        both = f"{key}\n{chain}\n"
    elif location is not None:
        both = _pem(settings, "keystore", Path(location), path)
    else:
        return
    # OpenSSL reads a key from a file alone; this file is for its owner.
    with NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(both)
        file.flush()
        try:
            context.load_cert_chain(file.name, password=password or "")
        except (ssl.SSLError, OSError):
            wrong = "or ssl.key.password is wrong" if password else "or ssl.key.password is missing"
            raise UnusableSettings(f"The key of ssl.keystore in {path} cannot be used, {wrong}.") from None


def _pem(settings: Mapping[str, str], store: str, location: Path, path: Path) -> str:
    """Return the content of a store, which must be PEM. Raises UnusableSettings."""
    try:
        content = location.read_bytes()
    except OSError as error:
        raise UnusableSettings(
            f"ssl.{store}.location in {path} is {location}, which cannot be read: {error.strerror}."
        ) from None
    if b"-----BEGIN" not in content:
        kind = settings.get(f"ssl.{store}.type", "JKS")
        raise UnusableSettings(
            f"ssl.{store}.location in {path} is {location}, no PEM file but {kind}: write it as PEM, with"
            f" `openssl pkcs12 -in {location.stem}.p12 -nodes -out {location.stem}.pem`, and set ssl.{store}.type=PEM."
        )
    return content.decode("utf-8", "replace")
