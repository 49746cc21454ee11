"""Decoder, rule and encoder for each API key and version.

The first four bytes of a request find its decoder, rule and encoder. An API that a release of Kafka does not serve has
no entry.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kafka_shim.apis.api import Api, unchanged
from kafka_shim.apis.api_versions import unsupported_version
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.offset_commit import OffsetCommitRequest
from kafka_shim.apis.offset_fetch import OffsetFetchRequest
from kafka_shim.apis.profiles import PROFILES, is_served
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.encoding import compile_part_encoder, encoded_count
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import encode_response_header
from kafka_shim.broker.broker import Broker
from kafka_shim.server.elements import elements_accepted
from kafka_shim.server.rows import Row, Rule

_head: Final = struct.Struct(">hh")
_pack_size: Final = struct.Struct(">i").pack


class Endpoint:
    """One version of one API. `calls` counts its requests.

    `constants` are whole answers by error code, for an API that answers only an error code. Each has two parts; the
    correlation id goes between them.
    """

    __slots__ = (
        "_decode",
        "_elements",
        "_encode_part",
        "_normalise",
        "api",
        "body",
        "calls",
        "constants",
        "divided",
        "encode",
        "feature",
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
        self._decode: Callable[[bytes, int, int], tuple[Any, int]] = api.request.decoder(version)
        self._elements = elements_accepted(api.key)
        self._normalise = None if api.normalise is unchanged else api.normalise
        self.feature = row.feature
        self.divided = row.divided
        """Divides long requests; None for an API without them."""
        self._encode_part: Callable[[Any], tuple[bytes, bytes, bytes]] | None = None
        self.encode: Callable[[Any], bytes] = api.response.encoder(version)
        self.names_topics = version >= row.names_topics_since
        self.rule: Rule = row.rule
        self.shape = api.shape
        self.body: Callable[[Any], bytes] = self.encode if api.shape is unchanged else self._shaped_body
        """Encodes a response of the newest form in this version. Raises EncodeError."""
        self.header_end = encode_response_header(api.key, version, 0)[4:]
        self.constants: dict[int, tuple[bytes, bytes]] = {}
        self.calls = 0

    def __repr__(self) -> str:
        return f"<Endpoint {self.api.name} {self.version}>"

    def decode(self, frame: bytes, offset: int, broker: Broker) -> Any:
        """Decode the request with a body that begins at `offset`, in its newest form. Raises DecodeError."""
        request, _ = self._decode(frame, offset, self._elements)
        if self._normalise is not None:
            self._normalise(request, self.version)
        if self.names_topics:
            name_topics(request, broker)
        return request

    def encode_part(self, response: Message) -> tuple[bytes, bytes, bytes, int]:
        """Encode the answer to a part of a request: head, elements, tail, and their number. Raises EncodeError."""
        assert self.divided is not None
        name, cls = self.divided.answers, self.api.response
        if self._encode_part is None:
            self._encode_part = compile_part_encoder(cls, self.version, self.version in cls.flexible, name)
        return (*self._encode_part(response), len(getattr(response, name)))

    def count(self, count: int) -> bytes:
        """Encode the number of elements of the array in a long answer."""
        return encoded_count(count, self.version in self.api.response.flexible)

    def _shaped_body(self, response: Message) -> bytes:
        return self.encode(self.shape(response, self.version))

    def frame(self, correlation_id: bytes, body: bytes) -> bytes:
        """Return the frame that answers the request of this correlation id."""
        end = self.header_end
        return b"".join((_pack_size(4 + len(end) + len(body)), correlation_id, end, body))

    def frame_of(self, correlation_id: bytes, pieces: Sequence[bytes]) -> list[bytes]:
        """Return the pieces of a frame with a body of these pieces."""
        end = self.header_end
        return [_pack_size(4 + len(end) + sum(map(len, pieces))) + correlation_id + end, *pieces]

    def split_around_correlation_id(self, response: Message) -> tuple[bytes, bytes]:
        """Return the two parts of the frame of `response`, before and after the correlation id."""
        whole = self.frame(bytes(4), self.body(response))
        return whole[:4], whole[8:]


class Table:
    """The entries of a broker of one release, which has `rows`, and also serves the `apis` that no release has. Entries
    are created at their first use."""

    def __init__(self, release: str, rows: Mapping[int, Row], apis: Mapping[int, Api]) -> None:
        self.release = release
        self.apis = apis
        self._rows = rows
        self.endpoints: dict[bytes, Endpoint] = {}
        """By the first four bytes of a request."""
        self._unsupported = unsupported_version(PROFILES[release][ApiKey.API_VERSIONS]).encode(0)

    def find(self, frame: bytes) -> Endpoint | None:
        """Return the endpoint for the frame of a request, or None."""
        head = frame[:4]
        endpoint = self.endpoints.get(head)
        if endpoint is None and len(frame) >= 8:
            key, version = _head.unpack(head)
            if key in APIS and is_served(self.release, key, version):
                endpoint = self.endpoints[head] = Endpoint(APIS[key], version, self._rows[key])
            elif (api := self.apis.get(key)) is not None and version in api.request.versions:
                endpoint = self.endpoints[head] = Endpoint(api, version, self._rows[key])
        return endpoint

    def unsupported_version(self, correlation_id: bytes) -> bytes:
        """Return the answer to an unsupported version of ApiVersions, in the form of version 0 (KIP-511)."""
        return frame(correlation_id + self._unsupported)


def name_topics(request: OffsetCommitRequest | OffsetFetchRequest, broker: Broker) -> None:
    """Give every topic with an id its name, empty for an unknown id."""
    topics: Iterable[Any] = request.topics or ()
    if isinstance(request, OffsetFetchRequest):
        topics = (topic for group in request.groups for topic in group.topics or ())
    for topic in topics:
        topic.name = broker.topics.topic_name(topic.topic_id) or ""
