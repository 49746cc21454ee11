"""Throttling by quotas: the use of each client, and the time that it must wait (KIP-13, KIP-124, KIP-219, KIP-599).

A broker measures rates over a sliding window. The answer to a client above its quota has the time of its throttle, and
leaves at once; then the broker reads nothing from the connection for this time. `shim/broker/admin/quotas.py` has the
requests that change quotas. Source: Kafka's `ClientQuotaManager`, `DefaultQuotaCallback`, `Rate` and `TokenBucket`.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from copy import copy
from itertools import islice
from typing import Any, Final

from kafka_shim.apis.fetch import FetchResponse
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message
from kafka_shim.broker.admin.quotas import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from kafka_shim.broker.settings import Entity, Settings
from kafka_shim.groups.interface import Client

MAX_SENSORS: Final = 10_000
"""The limit of rates that a broker measures; the one that is unused for longest goes first."""
EXPIRY: Final = 3600.0
"""Seconds without use after which a rate is forgotten, as in Kafka."""

SHORTEST_WINDOW: Final = 0.001
"""Seconds by which a rate is divided at least: a window that begins now has no length (KAFKA-13911)."""

MAX_THROTTLE_MS: Final = (1 << 31) - 1
"""The longest time that an answer can carry: 24 days. Rates of bytes have no other bound, as in Kafka."""

_EXEMPT: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.WRITE_TXN_MARKERS})
_STRICT_SINCE: Final = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
"""The versions from which on a change of topics above the quota is refused, rather than made and throttled."""
_NO_ACKS: Final = 0


class Rate:
    """A rate over `count` windows of `seconds` each."""

    __slots__ = ("_samples", "used")

    def __init__(self, now: float) -> None:
        self._samples: list[list[float]] = []
        """Begin, sum and last use of each window."""
        self.used = now

    def record(self, value: float, now: float, count: int, seconds: float) -> None:
        """Add a value that was measured at `now`."""
        samples = self._samples
        self.used = now
        if not samples or now - samples[-1][0] >= seconds:
            samples.append([now, 0.0, now])
        samples[-1][1] += value
        samples[-1][2] = now
        expired = now - count * seconds
        while samples[0][2] <= expired:
            del samples[0]

    def throttle(self, bound: float, now: float, count: int, seconds: float) -> float:
        """Return the seconds to wait after which the rate is the bound again; 0 if it is not above."""
        samples = self._samples
        elapsed = now - samples[0][0]
        window = max(elapsed + max(count - 1 - int(elapsed / seconds), 0) * seconds, SHORTEST_WINDOW)
        rate = sum(each[1] for each in samples) / window
        return (rate - bound) / bound * window if rate > bound else 0.0


class TokenBucket:
    """Tokens that grow by a rate up to `count` windows' worth. A client may take more than there are, once."""

    __slots__ = ("_tokens", "_updated", "used")

    def __init__(self, now: float) -> None:
        self._tokens = float("inf")
        self._updated = self.used = now

    def refill(self, bound: float, now: float, count: int, seconds: float) -> float:
        """Return the number of tokens at `now`."""
        self._tokens = min(bound * count * seconds, self._tokens + (now - self._updated) * bound)
        self._updated = self.used = now
        return self._tokens

    def take(self, number: float) -> None:
        self._tokens -= number


class Mutations:
    """The quota of changes of topics, for one request. `is_strict` refuses changes when no token is left."""

    def __init__(
        self, bucket: TokenBucket, bound: float, now: float, window: tuple[int, float], is_strict: bool
    ) -> None:
        self._bucket = bucket
        self._bound = bound
        self._now = now
        self._window = window
        self._is_strict = is_strict
        self.throttle = 0.0
        """Seconds that the client must wait."""

    def take(self, partitions: int) -> bool:
        """Return True if so many partitions may be created or deleted."""
        bucket = self._bucket
        tokens = bucket.refill(self._bound, self._now, *self._window)
        if tokens >= 0 or not self._is_strict:
            bucket.take(partitions)
            tokens -= partitions
            if self._is_strict:
                return True
        if tokens < 0:
            self.throttle = -tokens / self._bound
        return not self._is_strict


class Usage:
    """The use of one exchange. `throttle_ms` is the time for which its connection is read no more afterwards."""

    __slots__ = ("_elapsed", "_since", "_time", "is_charged", "mutations", "size", "throttle_ms")

    def __init__(self, size: int, clock: Callable[[], float]) -> None:
        self.size = size
        self.throttle_ms = 0
        self.is_charged = False
        self.mutations: Mutations | None = None
        self._time = clock
        self._elapsed = 0.0
        self._since: float | None = clock()

    def park(self) -> None:
        """Count no more time."""
        if self._since is not None:
            self._elapsed += self._time() - self._since
            self._since = None

    def go_on(self) -> None:
        """Count time again."""
        if self._since is None:
            self._since = self._time()

    def elapsed(self) -> float:
        """Return the seconds of the thread so far."""
        self.park()
        return self._elapsed


class Throttling:
    """The quotas of one broker as they are used. A server has it only while a client has a quota.

    `time` counts the seconds of this thread.
    """

    def __init__(self, settings: Settings, time: Callable[[], float] = time.thread_time) -> None:
        self._settings = settings
        self._time = time
        self._sensors: OrderedDict[int, Any] = OrderedDict()
        """Rates and buckets by a hash: a client chooses its id, of any length. The order is that of their use."""
        self._window = settings.number("quota.window.num"), float(settings.number("quota.window.size.seconds"))
        self._of_changes = (
            settings.number("controller.quota.window.num"),
            float(settings.number("controller.quota.window.size.seconds")),
        )

    def limit(self, quota: str, client: Client) -> tuple[float, int] | None:
        """Return the quota of a client with the key of its sensor; None without one."""
        quotas = self._settings.quotas
        user, client_id = client.principal.partition(":")[2], client.client_id
        for entity, own in _levels(user, client_id):
            values = quotas.get(entity)
            if values is not None and (bound := values.get(quota)) is not None:
                return bound, hash((quota, own))
        return None

    def limits(self, client: Client) -> bool:
        """Return True if a client has any quota, so that no request may pass by it."""
        quotas = self._settings.quotas
        return any(entity in quotas for entity, _ in _levels(client.principal.partition(":")[2], client.client_id))

    def begin(self, exchange: Any, size: int, now: float) -> None:
        """Count for an exchange whose request has so many bytes."""
        key, client = exchange.endpoint.key, exchange.client
        if key in _EXEMPT or not self.limits(client):
            return
        usage = exchange.usage = Usage(size, self._time)
        if key == ApiKey.FETCH:
            limit = self.limit(CONSUMER_BYTE_RATE, client)
            if limit is not None:
                count, seconds = self._window
                most = int(min(limit[0] * (count - 1) * seconds, (1 << 31) - 1))
                if most < exchange.request.max_bytes:
                    exchange.request = copy(exchange.request)
                    exchange.request.max_bytes = most
        elif key in _STRICT_SINCE:
            limit = self.limit(CONTROLLER_MUTATION_RATE, client)
            if limit is not None:
                bucket = self._sensor(limit[1], TokenBucket, now)
                is_strict = exchange.version >= _STRICT_SINCE[key]
                usage.mutations = Mutations(bucket, limit[0], now, self._of_changes, is_strict)

    def charge(self, exchange: Any, response: Message | None, now: float) -> Message | None:
        """Record the use of an exchange. Return its answer, with the time for which the client is throttled."""
        usage = exchange.usage
        if usage is None or usage.is_charged:
            return response
        usage.is_charged = True
        client, key = exchange.client, exchange.endpoint.key
        throttle = fetched = 0.0
        if key != ApiKey.PRODUCE or exchange.request.acks != _NO_ACKS:
            # At most one window, since a long time of the thread need not be the client's fault.
            requests = self._record(REQUEST_PERCENTAGE, client, 100 * usage.elapsed(), now)
            throttle = min(requests, self._window[1])
        if key == ApiKey.PRODUCE:
            throttle = max(throttle, self._record(PRODUCER_BYTE_RATE, client, usage.size, now))
        elif key == ApiKey.FETCH and response is not None and self.limit(CONSUMER_BYTE_RATE, client) is not None:
            fetched = len(exchange.endpoint.body(response)) + 4
            throttle = max(throttle, self._record(CONSUMER_BYTE_RATE, client, fetched, now))
        elif usage.mutations is not None:
            throttle = max(throttle, usage.mutations.throttle)
        usage.throttle_ms = round(min(throttle * 1000, MAX_THROTTLE_MS))
        if usage.throttle_ms <= 0 or response is None:
            return response
        if key == ApiKey.FETCH:
            if fetched:
                self._record(CONSUMER_BYTE_RATE, client, -fetched, now)
            response = _without_records(exchange, response)
        else:
            response = copy(response)
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = usage.throttle_ms
        return response

    def _record(self, quota: str, client: Client, value: float, now: float) -> float:
        """Return the seconds that a client must wait."""
        limit = self.limit(quota, client)
        if limit is None:
            return 0.0
        rate = self._sensor(limit[1], Rate, now)
        rate.record(value, now, *self._window)
        return float(rate.throttle(limit[0], now, *self._window))

    def _sensor(self, key: int, kind: type, now: float) -> Any:
        sensors = self._sensors
        sensor = sensors.pop(key, None)
        if sensor is None:
            for oldest in (*islice(sensors, 2),):
                if len(sensors) >= MAX_SENSORS or now - sensors[oldest].used > EXPIRY:
                    del sensors[oldest]
            sensor = kind(now)
        sensors[key] = sensor
        return sensor


def _levels(user: str, client_id: str) -> tuple[tuple[Entity, tuple[str | None, str | None]], ...]:
    """Return the entities with a quota that a client may have, best first, each with the owner of its rate: a default
    gives each name its own."""
    both, of_user, of_client = (user, client_id), (user, None), (None, client_id)
    return (
        (((CLIENT_ID, client_id), (USER, user)), both),
        (((CLIENT_ID, None), (USER, user)), both),
        (((USER, user),), of_user),
        (((CLIENT_ID, client_id), (USER, None)), both),
        (((CLIENT_ID, None), (USER, None)), both),
        (((USER, None),), of_user),
        (((CLIENT_ID, client_id),), of_client),
        (((CLIENT_ID, None),), of_client),
    )


def limits_clients(settings: Settings) -> bool:
    """Return True if any quota is one of users or client ids."""
    return any(entity[0][0] != IP for entity in settings.quotas)


def _without_records(exchange: Any, response: Any) -> FetchResponse:
    """Return the answer without anything; a session that began with it has not begun."""
    if response.session_id and not exchange.request.session_id:
        sessions = exchange.broker.fetches.sessions
        session = sessions.get(response.session_id)
        if session is not None:
            sessions.remove(session)
        return FetchResponse()
    return FetchResponse(session_id=response.session_id)
