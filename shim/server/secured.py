"""A connection of a listener with a name: its client may have to authenticate before its requests are looked up.

`login.py` in `shim/security/` has the states of SASL. A failed authentication is answered late, and then the connection
ends; until then nothing is read (KIP-306). Tokens are never shown to a watcher of frames, a trace or a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import TYPE_CHECKING, Any, Final

from kafka_shim.apis.api_versions import ApiVersionsResponse
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.sasl_authenticate import SaslAuthenticateResponse
from kafka_shim.apis.sasl_handshake import SaslHandshakeResponse
from kafka_shim.apis.wire import DecodeError, Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.frames import MAX_REQUEST_BYTES, FrameSplitter
from kafka_shim.apis.wire.headers import decode_request_header
from kafka_shim.broker.topics import Node as Address
from kafka_shim.groups.interface import Client, NoReply, Parked
from kafka_shim.security.authorizer import Acls, Authorizer
from kafka_shim.security.login import Login, LoginFailed, LoginState
from kafka_shim.security.mechanism import ANONYMOUS, Mechanism
from kafka_shim.security.operations import CLUSTER_NAME, Operation, Resource
from kafka_shim.security.tls import Certified, Tls, mapping, name_of, tls_of
from kafka_shim.server.access import ACCESS, OTHERS
from kafka_shim.server.admission import Limits
from kafka_shim.server.caller import Caller
from kafka_shim.server.connection import State, Transport
from kafka_shim.server.delays import Delays
from kafka_shim.server.exchange import Exchange
from kafka_shim.server.node import Node
from kafka_shim.server.session import LONG_FRAME, Session, _LongFrame
from kafka_shim.server.table import Endpoint

if TYPE_CHECKING:
    from kafka_shim.security.config import SecurityConfig
    from kafka_shim.security.listeners import Listener

_HANDSHAKE: Final = ApiKey.SASL_HANDSHAKE
_AUTHENTICATE: Final = ApiKey.SASL_AUTHENTICATE
_VERSIONS: Final = ApiKey.API_VERSIONS
_SHOW_ADDRESSES: Final = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.FIND_COORDINATOR,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
    }
)
"""The APIs with addresses of brokers in their answers."""
_COMPLETE: Final = LoginState.COMPLETE
_CLOSED: Final = State.CLOSED


_receive: Final = Session.receive
"""Without `super()`, which would cost a repeated heartbeat 3 % of its time."""


class _NoAcls:
    """The place of ACLs where there are none."""

    acls = None


_NO_ACLS: Final = _NoAcls()


class Door:
    """The door of one listener, for the connections of all brokers. `addresses` are those of the brokers on this
    listener, by node id."""

    def __init__(
        self,
        config: SecurityConfig,
        listener: Listener,
        addresses: dict[int, Address],
        delays: Delays,
        wall_offset: float,
        authorizer: Authorizer | None,
    ) -> None:
        self.authorizer = authorizer
        self.listener = listener
        self.limits = Limits(listener.name, *config.limits_of(listener))
        self.addresses = addresses
        self.mechanisms: dict[str, Callable[[], Mechanism]] = config.factories()
        self._refused: dict[str, Callable[[], Mechanism]] = {}
        self.lifetimes = config.lifetimes(listener)
        self.failure_delay = config.failure_delay
        self.max_token = config.max_token
        self.wall_offset = wall_offset
        self.delays = delays

    def open(
        self, node: Node, transport: Transport, client_host: str, number: int, principal: str | None
    ) -> SecuredSession:
        """Open a session for a client that has come through this door."""
        return SecuredSession(node, transport, client_host, number, self, principal)

    def refuse(self, mechanism: str) -> None:
        """Refuse a mechanism that is enabled, as one that is not. Connections that exist go on."""
        if mechanism in self.mechanisms:
            self._refused[mechanism] = self.mechanisms.pop(mechanism)

    def accept_all(self) -> None:
        """Accept every mechanism again that is enabled."""
        self.mechanisms |= self._refused
        self._refused.clear()

    def ask(self, request: Any, exchange: Exchange) -> Message | Parked | NoReply:
        """See `Guard.ask`."""
        endpoint = exchange.endpoint
        exchange.amend = self.show_addresses if endpoint.key in _SHOW_ADDRESSES else None
        if self.authorizer is None:
            return endpoint.rule(request, exchange)
        caller = Caller(self.authorizer, exchange)
        answer: Message | Parked | NoReply = ACCESS.get(endpoint.key, OTHERS)(request, exchange, caller)
        exchange.denied = exchange.denied or caller.denied
        return answer

    def not_created(self, topics: Iterable[str], exchange: Exchange) -> list[str]:
        """See `Guard.not_created`."""
        if self.authorizer is None:
            return []
        caller = Caller(self.authorizer, exchange)
        if caller.may(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME):
            return []
        return [topic for topic in topics if not caller.may(Operation.CREATE, Resource.TOPIC, topic)]

    def show_addresses(self, response: Message) -> Message:
        """Give each broker in an answer its address on this listener."""
        for name in ("brokers", "coordinators", "node_endpoints"):
            for each in getattr(response, name, ()) or ():
                address = self.addresses.get(each.broker_id if hasattr(each, "broker_id") else each.node_id)
                if address is not None:
                    each.host, each.port = address.host, address.port
        return response


class SecuredSession(Session):
    """The conversation on one connection of a listener. `principal` is that of its TLS certificate, if it has one."""

    __slots__ = ("_acls", "_closing", "_ends", "_login", "_place", "door")

    def __init__(
        self, node: Node, transport: Transport, client_host: str, number: int, door: Door, principal: str | None
    ) -> None:
        super().__init__(node, transport, client_host, number)
        self.door = door
        self.guard = door
        self.client = Client("", client_host, principal or ANONYMOUS, principal not in (None, ANONYMOUS))
        self._login: Login | None = None
        self._ends = inf
        self._closing = False
        self._place: _NoAcls | Acls = _NO_ACLS if door.authorizer is None else door.authorizer.place
        self._acls: object = None
        if door.listener.protocol.has_sasl:
            self._login = Login(door.mechanisms, door.lifetimes)
            self._splitter = FrameSplitter(door.max_token)

    def receive(self, data: bytes, now: float) -> None:
        """See `Session.receive`. A session remembers nothing after its end, or after a change of the ACLs."""
        if self._ends <= now:
            self.forget()
        if self._place.acls is not self._acls:
            self._acls = self._place.acls
            self.forget()
        if not self._closing:
            _receive(self, data, now)

    def drained(self, now: float) -> None:
        """See `Session.drained`. The client has the last answer."""
        if self._closing:
            self.transport.close()
        else:
            super().drained(now)

    def _serve(self, frame: bytes, now: float, turn: _LongFrame | None = None) -> None:
        login = self._login
        if login is None:
            super()._serve(frame, now, turn)
        elif login.state is not _COMPLETE:
            self._drop_count(frame)
            self._authenticate(login, frame, now)
        else:
            key = int.from_bytes(frame[:2], signed=True)
            if key == _HANDSHAKE and login.may_begin_again(now):
                self._drop_count(frame)
                self._handshake(login, frame)
            elif self._ends <= now and key != _HANDSHAKE:
                self.refuse("its session has ended, and it has not authenticated again")
            else:
                super()._serve(frame, now, turn)

    def _drop_count(self, frame: bytes) -> None:
        if len(frame) > LONG_FRAME and self.node.parts is not None:
            self.node.parts.drop_request(self)

    # Before the authentication is complete

    def _authenticate(self, login: Login, frame: bytes, now: float) -> None:
        state = login.state
        if state is LoginState.AUTHENTICATE:
            if login.raw:
                self._token(login, frame, now, None, b"")
            else:
                self._authenticate_request(login, frame, now)
            return
        key = int.from_bytes(frame[:2], signed=True)
        if state is LoginState.VERSIONS and key == _VERSIONS and len(frame) >= 8:
            self._versions(login, frame, now)
        elif state in (LoginState.VERSIONS, LoginState.HANDSHAKE) and key == _HANDSHAKE:
            self._handshake(login, frame)
        else:
            self.refuse("a request before its client has authenticated")

    def _decoded(self, frame: bytes) -> tuple[Endpoint, str | None, Message] | None:
        endpoint = self.node.table.find(frame)
        if endpoint is None:
            self.refuse("an unknown request before its client has authenticated")
            return None
        try:
            _, _, _, client_id, body = decode_request_header(frame)
            return endpoint, client_id, endpoint.decode(frame, body, self.node.broker)
        except DecodeError:
            # The error could quote a token.
            self.refuse(f"malformed {endpoint.api.name} request before its client has authenticated")
            return None

    def _versions(self, login: Login, frame: bytes, now: float) -> None:
        if self.node.table.find(frame) is None:
            self.send(self.node.table.unsupported_version(frame[4:8]))
            return
        decoded = self._decoded(frame)
        if decoded is None:
            return
        endpoint, client_id, request = decoded
        self.client = self.client._replace(client_id=client_id or "")
        exchange = Exchange(self.node, self, endpoint, request, self.client, frame[4:8])
        exchange.run(now)
        response = exchange.response
        if isinstance(response, ApiVersionsResponse) and response.error_code == 0:
            login.state = LoginState.HANDSHAKE

    def _handshake(self, login: Login, frame: bytes) -> None:
        decoded = self._decoded(frame)
        if decoded is None:
            return
        endpoint, _, request = decoded
        response = SaslHandshakeResponse(mechanisms=list(login.mechanisms))
        if login.handshake(request.mechanism, raw=endpoint.version == 0):  # type: ignore[attr-defined]
            self._answer(endpoint, frame, response)
        else:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            self._fail(self._frame(endpoint, frame, response))

    def _authenticate_request(self, login: Login, frame: bytes, now: float) -> None:
        decoded = self._decoded(frame)
        if decoded is None:
            return
        endpoint, _, request = decoded
        if endpoint.key == _AUTHENTICATE:
            self._token(login, request.auth_bytes, now, endpoint, frame)  # type: ignore[attr-defined]
        else:
            login.state = LoginState.FAILED
            response = endpoint.api.error(request, ErrorCode.ILLEGAL_SASL_STATE)
            self._fail(self._frame(endpoint, frame, response))

    def _token(self, login: Login, token: bytes, now: float, endpoint: Endpoint | None, frame: bytes) -> None:
        try:
            reply = login.token(token, now, now + self.door.wall_offset)
        except LoginFailed as error:
            if error.at_once:
                self.refuse(str(error))
            elif endpoint is None or error.text is None:
                self._fail(b"")
            else:
                response = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, error.text)
                self._fail(self._frame(endpoint, frame, response))
            return
        if login.state is _COMPLETE:
            self._ends = login.ends
            assert login.principal is not None
            self.client = self.client._replace(principal=login.principal, is_proved=not login.by_token)
            self._splitter.max_bytes = MAX_REQUEST_BYTES
        if endpoint is None:
            self.send(len(reply.token).to_bytes(4) + reply.token)
        else:
            response = SaslAuthenticateResponse(0, "", reply.token, reply.lifetime_ms)
            self._answer(endpoint, frame, response)

    def _frame(self, endpoint: Endpoint, frame: bytes, response: Message) -> bytes:
        return endpoint.frame(frame[4:8], endpoint.body(response))

    def _answer(self, endpoint: Endpoint, frame: bytes, response: Message) -> None:
        endpoint.calls += 1
        self.send(self._frame(endpoint, frame, response))

    def _fail(self, answer: bytes) -> None:
        """Read no more; send the answer after the delay, and close."""
        self._closing = True
        self.state = State.BUSY
        self._waiting.clear()
        self._waiting_bytes = 0
        self.transport.pause()
        self.node.refused += 1
        self.door.delays.after(self.door.failure_delay, lambda: self._end(answer))

    def _end(self, answer: bytes) -> None:
        if self.state is not _CLOSED and (not answer or self.transport.send(answer)):
            self.transport.close()


def certificates_of(security: SecurityConfig) -> dict[str, Tls]:
    """Return the TLS settings of each listener that has some. Raises ValueError."""
    return {
        listener.name: tls_of(security.settings_of(listener))
        for listener in security.listeners
        if listener.protocol.has_tls
    }


def principals_of(security: SecurityConfig, listener: Listener) -> Callable[[Certified], str | None]:
    """Return the function from a TLS connection to the principal of its certificate, None without one. The function
    raises ValueError for a name without a rule."""
    map_name = mapping(security.settings_of(listener).get("ssl.principal.mapping.rules", "DEFAULT"))

    def principal(connection: Certified) -> str | None:
        certificate = connection.getpeercert()
        if not certificate:
            return None
        name = map_name(name_of(certificate))
        if name is None:
            raise ValueError("no rule of ssl.principal.mapping.rules fits the name in the certificate")
        return f"User:{name}"

    return principal
