"""Fast path for heartbeats that equal the one before, byte for byte, in classic and consumer groups."""

from __future__ import annotations

from struct import Struct
from typing import Final

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_shim.apis.heartbeat import HeartbeatResponse
from kafka_shim.apis.keys import ApiKey
from kafka_shim.groups.consumer.heartbeat import RepeatedHeartbeat, changes_no_metadata
from kafka_shim.groups.epochs.member import JOIN
from kafka_shim.server.connection import Connection
from kafka_shim.server.exchange import Exchange
from kafka_shim.server.remembered.layout import shared
from kafka_shim.trace.templates import Template

_correlation_number: Final = Struct(">8xi").unpack_from


class RememberedHeartbeat:
    """A Heartbeat. Its answers are constants: they hold only an error code."""

    __slots__ = ("_durability", "_endpoint", "_heartbeat", "_node", "_outbox", "_request", "_rest", "_traced")

    def __init__(self, exchange: Exchange, data: bytes) -> None:
        self._node = node = exchange.node
        request = exchange.request
        self._endpoint = exchange.endpoint
        self._request = request
        self._rest = data[12:]
        self._outbox = node.outbox
        self._durability = node.durability
        self._heartbeat = node.groups.heartbeat
        self._traced: tuple[int, Template] | None = None

    def serve(self, session: Connection, data: bytes, now: float) -> bool:
        if data[12:] != self._rest:
            return False
        endpoint = self._endpoint
        endpoint.calls += 1
        outbox = self._outbox
        outbox.required_batch = 0
        request, heartbeat = self._request, self._heartbeat
        code = heartbeat(request.group_id, request.generation_id, request.member_id, request.group_instance_id, now)
        if outbox.required_batch > self._durability.durable:
            exchange = Exchange(self._node, session, endpoint, self._request, session.client, data[8:12])
            exchange.arrived = now
            exchange.answer(HeartbeatResponse(error_code=code), outbox.required_batch, now)
            session.begin(exchange)
            return True
        answer = endpoint.constants.get(code)
        if answer is None:
            answer = endpoint.constants[code] = endpoint.split_around_correlation_id(HeartbeatResponse(error_code=code))
        if (
            code
            and outbox.listening
            and (number := self._node.exchanges.rare.number(ApiKey.HEARTBEAT, session.client.client_id, request, code))
        ):
            exchange = Exchange(self._node, session, endpoint, request, session.client, data[8:12])
            exchange.arrived, exchange.response = now, HeartbeatResponse(0, code)
            self._node.exchanges.add(exchange, number)
        elif outbox.tracing:
            traced = self._traced
            if traced is None or traced[0] != code:
                exchange = Exchange(self._node, session, endpoint, request, session.client, data[8:12])
                exchange.response = HeartbeatResponse(0, code)
                traced = self._traced = (code, self._node.exchanges.template_of(exchange))
            outbox.events.append((traced[1], _correlation_number(data), now))
        before, after = answer
        if not session.transport.send(before + data[8:12] + after):
            session.block()
        return True


def remember_heartbeat(session: Connection, exchange: Exchange, data: bytes, head: bytes) -> RememberedHeartbeat:
    return RememberedHeartbeat(exchange, data)


class RememberedConsumerHeartbeat(RepeatedHeartbeat):
    """A ConsumerGroupHeartbeat that changes nothing. A heartbeat with a change is served as any other.

    The rule keeps its own data here too: there is one object for each member, and one is in a cache sooner than two.
    """

    __slots__ = (
        "_after",
        "_before",
        "_durability",
        "_endpoint",
        "_features_epoch",
        "_interval_ms",
        "_outbox",
        "_rest",
        "_settings",
    )

    def __init__(self, exchange: Exchange, data: bytes) -> None:
        node = exchange.node
        super().__init__(node.groups.groups, exchange.request, exchange.client)
        self._settings = node.broker.topics.settings
        self._features_epoch = self._settings.features_epoch
        self._endpoint = exchange.endpoint
        self._rest = data[12:]
        self._outbox = node.outbox
        self._durability = node.durability
        self._interval_ms = 0
        self._before = self._after = b""

    def serve(self, session: Connection, data: bytes, now: float) -> bool:
        outbox = self._outbox
        if (
            data[12:] != self._rest
            or outbox.tracing
            # An operator may have turned the protocol off.
            or self._settings.features_epoch != self._features_epoch
        ):
            return False
        outbox.required_batch = 0
        interval_ms = self.repeat(now)
        if interval_ms is None or outbox.required_batch > self._durability.durable:
            return False
        endpoint = self._endpoint
        endpoint.calls += 1
        if interval_ms != self._interval_ms:
            request = self._request
            response = ConsumerGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=interval_ms
            )
            self._interval_ms = interval_ms
            before, self._after = endpoint.split_around_correlation_id(response)
            self._before = shared(before)
        if not session.transport.send(self._before + data[8:12] + self._after):
            session.block()
        return True


def remember_consumer_heartbeat(
    session: Connection, exchange: Exchange, data: bytes, head: bytes
) -> RememberedConsumerHeartbeat | None:
    feature = exchange.endpoint.feature
    if feature is not None and not exchange.node.broker.has_feature(feature):
        return None
    request = exchange.request
    if request.member_epoch <= JOIN or not changes_no_metadata(request):
        return None
    return RememberedConsumerHeartbeat(exchange, data)
