"""`Connection`: one connection to a broker, with TLS and SASL, and requests one after the other.

It blocks. Errors are sentences for the command line, with a remedy.
"""

from __future__ import annotations

import secrets
import socket
import ssl
from struct import Struct
from typing import Any, Final, TypeVar

from kafka_shim.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.sasl_authenticate import SaslAuthenticateRequest
from kafka_shim.apis.sasl_handshake import SaslHandshakeRequest
from kafka_shim.apis.sasl_tokens import HASHES, Tokens, Untrusted, plain, scram
from kafka_shim.apis.wire import DecodeError, Message
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import decode_response_header, encode_request_header
from kafka_shim.sources.offsets_topic.settings import Security

R = TypeVar("R", bound=Message)

CLIENT_ID: Final = "kafka-shim-why"
PATIENCE_S: Final = 30.0
"""Seconds to wait for a connection, and for each answer."""
_LARGEST: Final = 1 << 30
_SIZE: Final = Struct(">i")
_TLS_ALERT: Final = b"\x15\x03"


class Unreadable(Exception):
    """An unreadable source; the message is one sentence with a remedy."""


class Disconnected(Unreadable):
    """A connection that ended: the broker may have stopped."""


class Connection:
    """A connection to the broker at this address. Raises Unreadable."""

    def __init__(self, host: str, port: int, security: Security) -> None:
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._security = security
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._socket = self._connected(host, port)
        try:
            self._learn_versions()
            if security.mechanism:
                self._log_in()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def ask(self, request: Message, response: type[R], newest: int) -> R:
        """Send a request in the newest version that both sides have, at most `newest`; return the answer. Raises
        Unreadable.
        """
        assert request.api_key is not None
        lowest, highest = self._versions.get(request.api_key, (0, -1))
        version = min(newest, highest, request.versions[-1])
        if version < max(lowest, request.versions[0]):
            name = APIS[request.api_key].name
            raise Unreadable(f"{self.address} has no version of {name} in common with this command.")
        return self._exchange(request, response, version)

    def _exchange(self, request: Message, response: type[R], version: int) -> R:
        assert request.api_key is not None
        self._correlation_id += 1
        header = encode_request_header(request.api_key, version, self._correlation_id, CLIENT_ID)
        try:
            self._socket.sendall(frame(header + request.encode(version)))
            size = self._size()
            answer = self._read(size)
        except TimeoutError:
            raise Disconnected(f"{self.address} did not answer for {PATIENCE_S:.0f} s.") from None
        except (OSError, EOFError):
            raise Disconnected(self._closed()) from None
        try:
            _, begin = decode_response_header(answer, request.api_key, version)
            return response.decode(answer[begin:], version)
        except DecodeError as error:
            raise Unreadable(f"{self.address} gives an answer that is none of Kafka: {error}.") from None

    def _size(self) -> int:
        head = self._read(_SIZE.size)
        if head.startswith(_TLS_ALERT):
            raise Unreadable(
                f"{self.address} wants TLS: set security.protocol=SSL or SASL_SSL in a file, and name it with"
                " --command-config."
            )
        size: int = _SIZE.unpack(head)[0]
        if not 0 <= size <= _LARGEST:
            raise Unreadable(f"{self.address} is no broker of Kafka: it gives an answer that is none of Kafka.")
        return size

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def _closed(self) -> str:
        if not self._versions and self._security.context is None:
            return (
                f"{self.address} closed the connection at once: it is no broker of Kafka, or it wants TLS"
                " (security.protocol in the file of --command-config)."
            )
        if not self._security.mechanism:
            return (
                f"{self.address} closed the connection: it may want SASL (security.protocol, sasl.mechanism and"
                " sasl.jaas.config in the file of --command-config), or it has stopped."
            )
        return f"{self.address} closed the connection: it has stopped, or refuses this client."

    def _connected(self, host: str, port: int) -> socket.socket:
        try:
            plain_socket = socket.create_connection((host, port), timeout=PATIENCE_S)
        except socket.gaierror:
            raise Unreadable(f"There is no host {host}: name a broker as HOST:PORT.") from None
        except TimeoutError:
            raise Unreadable(f"{self.address} does not answer: is it the address of a broker?") from None
        except ConnectionRefusedError:
            raise Unreadable(f"Nothing listens at {self.address}: is it the address of a broker?") from None
        except OSError as error:
            raise Unreadable(f"{self.address} cannot be reached: {error.strerror or error}.") from None
        plain_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._security.context is None:
            return plain_socket
        try:
            return self._security.context.wrap_socket(plain_socket, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            plain_socket.close()
            raise Unreadable(
                f"The certificate of {self.address} is not trusted ({error.verify_message}): set"
                " ssl.truststore.location to the certificates of its authority, as PEM."
            ) from None
        except OSError as error:
            plain_socket.close()
            reason = getattr(error, "reason", None) or error.strerror or "it closed the connection"
            raise Unreadable(
                f"{self.address} does not take part in TLS ({reason}): is it the port of a listener with SSL, and does"
                " it want the certificate of a client (ssl.keystore.location)?"
            ) from None

    def _learn_versions(self) -> None:
        # Version 0 is answered by every broker, before SASL too.
        answer = self._exchange(ApiVersionsRequest(), ApiVersionsResponse, 0)
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def _log_in(self) -> None:
        security = self._security
        handshake: Any = self._of_sasl(SaslHandshakeRequest(security.mechanism))
        if handshake.error_code:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise Unreadable(f"{self.address} has no {security.mechanism}: sasl.mechanism may be {offered}.")
        tokens = self._tokens()
        try:
            token = next(tokens)
            while True:
                answer: Any = self._of_sasl(SaslAuthenticateRequest(token))
                if answer.error_code:
                    what = answer.error_message or f"error {answer.error_code}"
                    raise Unreadable(f"{self.address} refuses the user {security.user}: {what}")
                token = tokens.send(answer.auth_bytes)
        except Untrusted as error:
            raise Unreadable(f"{self.address} cannot be trusted: {error}.") from None
        except StopIteration:
            return

    def _of_sasl(self, request: Message) -> Message:
        assert request.api_key is not None
        return self.ask(request, APIS[request.api_key].response, 1)

    def _tokens(self) -> Tokens:
        security = self._security
        if security.mechanism in HASHES:
            nonce = secrets.token_urlsafe(18)
            return scram(security.mechanism, security.user, security.password, nonce, security.extensions)
        return _one(plain(security.user, security.password))


def _one(token: bytes) -> Tokens:
    yield token
