"""Options of every command that connects to a broker as a client: TLS and SASL.

The password of a user is never an option: every user of a machine may read the options of its processes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    import ssl

PASSWORD: Final = "KAFKA_SHIM_SASL_PASSWORD"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SYSTEM: Final = "system"

F = TypeVar("F", bound=Callable[..., Any])


def tls_options(command: F) -> F:
    """Add the options of TLS to a command that connects to a broker."""
    file = click.Path(exists=True, dir_okay=False)
    for option in (
        click.option("--tls-key", type=file, help="Private key of --tls-cert, PEM, if that file has none."),
        click.option("--tls-cert", type=file, help="Certificate of this client, PEM."),
        click.option(
            "--tls-ca",
            metavar="FILE",
            help="Connect to the broker by TLS, and trust these authorities, PEM; `system` is those of this machine.",
        ),
    ):
        command = option(command)
    return command


def sasl_options(command: F) -> F:
    """Add the options of SASL to a command that connects to a broker."""
    for option in (
        click.option(
            "--sasl-password-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help=f"File with the password; without it {PASSWORD} has the password, or the terminal asks for it.",
        ),
        click.option(
            "--sasl",
            metavar="MECHANISM:USER",
            help=f"Authenticate to the broker by one of {', '.join(MECHANISMS)}.",
        ),
    ):
        command = option(command)
    return command


def context_of(ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return the TLS context for these options; None without. Raises UsageError."""
    import ssl

    if ca is None:
        if certificate or key:
            raise click.UsageError("--tls-cert and --tls-key need --tls-ca")
        return None
    try:
        context = ssl.create_default_context(cafile=None if ca == SYSTEM else ca)
    except OSError as error:
        raise click.UsageError(f"--tls-ca {ca} cannot be used: {_reason(error)}") from error
    if key and not certificate:
        raise click.UsageError("--tls-key needs --tls-cert")
    if certificate:
        try:
            context.load_cert_chain(certificate, key)
        except OSError as error:
            raise click.UsageError(f"--tls-cert and --tls-key cannot be used: {_reason(error)}") from error
    return context


def _reason(error: OSError) -> str:
    return str(getattr(error, "reason", None) or error.strerror or "no PEM")
