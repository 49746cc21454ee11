"""Which requests a broker answers, and with what: one entry per API key and version.

Decides which decoder, rule and encoder a request gets, from its first four bytes. It does not know connections. What a
release of Kafka does not serve has no entry.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from kafka_shim.apis.api import Api, unchanged
from kafka_shim.apis.api_versions import unsupported_version
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.profiles import PROFILES, is_served
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import encode_response_header
from kafka_shim.broker.broker import Broker
from kafka_shim.groups.interface import NoReply, Parked
from kafka_shim.server.call import Call
from kafka_shim.server.experiments import NONE, Experiment
from kafka_shim.server.handlers import name_topics
from kafka_shim.server.requests import REQUESTS, Row

_head: Final = struct.Struct(">hh")
_pack_size: Final = struct.Struct(">i").pack


class Endpoint:
    """One version of one API. `calls` counts its requests.

    `constants` are whole answers by error code, for an API whose answers are nothing but that; each in two parts,
    between which the correlation id belongs.
    """

    __slots__ = (
        "_decode",
        "_normalise",
        "api",
        "calls",
        "constants",
        "encode",
        "header_end",
        "key",
        "names_topics",
        "row",
        "rule",
        "shape",
        "version",
    )

    def __init__(self, api: Api, version: int, row: Row) -> None:
        self.api = api
        self.row = row
        self.key = api.key
        self.version = version
        self._decode: Callable[[bytes, int], tuple[Any, int]] = api.request.decoder(version)
        self._normalise = None if api.normalise is unchanged else api.normalise
        self.encode: Callable[[Any], bytes] = api.response.encoder(version)
        self.names_topics = version >= row.names_topics_since
        self.rule: Callable[[Any, Call], Message | Parked | NoReply] = row.rule
        self.shape = api.shape
        self.header_end = encode_response_header(api.key, version, 0)[4:]
        self.constants: dict[int, tuple[bytes, bytes]] = {}
        self.calls = 0

    def __repr__(self) -> str:
        return f"<Endpoint {self.api.name} {self.version}>"

    def decode(self, frame: bytes, offset: int, broker: Broker) -> Any:
        """The request whose body begins at `offset`, in its newest form. Raises DecodeError."""
        request, _ = self._decode(frame, offset)
        if self._normalise is not None:
            self._normalise(request, self.version)
        if self.names_topics:
            name_topics(request, broker)
        return request

    def body(self, response: Message) -> bytes:
        """A response in its newest form as the bytes of this version. Raises EncodeError."""
        return self.encode(self.shape(response, self.version))

    def frame(self, correlation_id: bytes, body: bytes) -> bytes:
        """The frame that answers the request of this correlation id."""
        end = self.header_end
        return b"".join((_pack_size(4 + len(end) + len(body)), correlation_id, end, body))

    def split_around_correlation_id(self, response: Message) -> tuple[bytes, bytes]:
        """The frame that answers a request with `response`: what is before the correlation id, and after it."""
        whole = self.frame(bytes(4), self.body(response))
        return whole[:4], whole[8:]


class Table:
    """All that a broker of one release serves, and an experiment beside. Entries are made at their first use."""

    def __init__(self, release: str, experiment: Experiment = NONE) -> None:
        self.release = release
        self.experiment = experiment
        self.endpoints: dict[bytes, Endpoint] = {}
        """By the first four bytes of a request."""
        self._unsupported = unsupported_version(PROFILES[release][ApiKey.API_VERSIONS]).encode(0)

    def find(self, frame: bytes) -> Endpoint | None:
        """The endpoint that a request's frame is for; None if there is none."""
        head = frame[:4]
        endpoint = self.endpoints.get(head)
        if endpoint is None and len(frame) >= 8:
            key, version = _head.unpack(head)
            if key in APIS and is_served(self.release, key, version):
                endpoint = self.endpoints[head] = Endpoint(APIS[key], version, REQUESTS[ApiKey(key)])
            elif (api := self.experiment.apis.get(key)) is not None and version in api.request.versions:
                endpoint = self.endpoints[head] = Endpoint(api, version, self.experiment.rows[key])
        return endpoint

    def unsupported_version(self, correlation_id: bytes) -> bytes:
        """The frame that answers a version of ApiVersions that is not served, in the form of version 0 (KIP-511)."""
        return frame(correlation_id + self._unsupported)
