"""TLS and SASL of the suite's own connections to a target.

A connection authenticates before the first frame of a cell, so no evidence has its password.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from kafka_shim.apis.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_shim.apis.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafka_shim.apis.wire import DecodeError, Message
from kafka_shim.conformance.broker_options import MECHANISMS, PASSWORD
from kafka_shim.conformance.plain import error_name
from kafka_shim.conformance.tokens import bearer, tokens_of
from kafka_shim.conformance.verdict import Failed

_CLIENT_ID: Final = b"conformance"
_HANDSHAKE: Final = 17
_AUTHENTICATE: Final = 36
_VERSION: Final = 1
_LARGEST: Final = 1 << 20


class Unauthenticated(ConnectionError):
    """The broker refuses the user, or its answers are none of SASL."""


@dataclass(frozen=True, eq=False)
class Secure:
    """The security of connections: TLS, SASL or both."""

    context: ssl.SSLContext | None = None
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)

    def over(self, connection: socket.socket, host: str) -> socket.socket:
        """Return the socket with TLS, and authenticated. Raises OSError, and closes it then."""
        try:
            if self.context is not None:
                connection = self.context.wrap_socket(connection, server_hostname=host)
            if self.mechanism:
                self._log_in(connection)
        except Failed as error:
            connection.close()
            raise Unauthenticated(str(error)) from error
        except OSError:
            connection.close()
            raise
        return connection

    def _log_in(self, connection: socket.socket) -> None:
        request = SaslHandshakeRequest(self.mechanism)
        chosen = _ask(connection, _HANDSHAKE, request, SaslHandshakeResponse)
        if chosen.error_code:
            raise Unauthenticated(f"{self.mechanism} is refused; the broker has {', '.join(chosen.mechanisms)}")
        tokens = tokens_of(self.mechanism, self.user, self.password)
        # A password of OAUTHBEARER is a token; without one the token is unsecured.
        token = bearer(self.password) if self.mechanism == "OAUTHBEARER" and self.password else next(tokens)
        while True:
            answer = _ask(connection, _AUTHENTICATE, SaslAuthenticateRequest(token), SaslAuthenticateResponse)
            if answer.error_code:
                raise Unauthenticated(f"{error_name(answer.error_code)}: {answer.error_message}")
            if self.mechanism == "OAUTHBEARER":
                if answer.auth_bytes:
                    raise Unauthenticated("the broker refuses the token")
                return
            try:
                token = tokens.send(answer.auth_bytes)
            except StopIteration:
                return


def _ask(connection: socket.socket, key: int, request: Message, response: type[Message]) -> Any:
    head = struct.pack(">hhih", key, _VERSION, 1, len(_CLIENT_ID)) + _CLIENT_ID
    frame = head + request.encode(_VERSION)
    connection.sendall(len(frame).to_bytes(4) + frame)
    size = int.from_bytes(_read(connection, 4))
    if not 4 <= size <= _LARGEST:
        raise Unauthenticated("the broker gives no answer of SASL")
    data = _read(connection, size)
    try:
        return response.decoder(_VERSION)(data, 4)[0]
    except DecodeError as error:
        raise Unauthenticated(f"the broker gives no answer of SASL: {error}") from error


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise Unauthenticated("the broker closed the connection before it was authenticated")
        data += more
    return data


def secure_of(context: ssl.SSLContext | None, sasl: str | None, password_file: Path | None) -> Secure | None:
    """Return the security of connections for these options; None for plain ones. Raises UsageError."""
    if sasl is None:
        if password_file is not None:
            raise click.UsageError("--sasl-password-file needs --sasl")
        return None if context is None else Secure(context)
    mechanism, colon, user = sasl.partition(":")
    if not colon or not user or mechanism not in MECHANISMS:
        raise click.UsageError(f"--sasl {sasl} is not MECHANISM:USER, with a mechanism of {', '.join(MECHANISMS)}")
    return Secure(context, mechanism, user, _password(mechanism, user, password_file))


def _password(mechanism: str, user: str, password_file: Path | None) -> str:
    """Return the password: from the file, the environment or the terminal. Raises UsageError."""
    if password_file is not None:
        try:
            return password_file.read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise click.UsageError(f"--sasl-password-file {password_file} cannot be read") from error
    if PASSWORD in os.environ or mechanism == "OAUTHBEARER":
        return os.environ.get(PASSWORD, "")
    if not sys.stdin.isatty():
        raise click.UsageError(f"--sasl needs a password: set {PASSWORD}, or name --sasl-password-file")
    password: str = click.prompt(f"Password of {user}", hide_input=True, err=True)
    return password
