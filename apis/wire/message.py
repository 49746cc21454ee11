"""`Message`: the base class of declared messages, with one decoder and one encoder per version.

`decoding.py` and `encoding.py` compile them on the first use of a version; `declared.py` has the fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

from kafka_shim.apis.wire.declared import Declarable
from kafka_shim.apis.wire.decoding import Decoder, compile_decoder
from kafka_shim.apis.wire.encoding import compile_encoder
from kafka_shim.apis.wire.exceptions import DecodeError, EncodeError
from kafka_shim.apis.wire.types import parse_versions

M = TypeVar("M", bound="Message")


@dataclass_transform()
class Message(Declarable):
    """Base of requests, responses and all other messages with versions of their own.

    Class keywords: `versions`, the versions that exist; `flexible`, those with compact lengths and tagged fields
    (KIP-482), by default none; `key`, the API key, None unless the message is a request or response; `frozen=True`
    makes instances immutable and hashable. They become the class attributes `api_key`, `versions`, `flexible` and
    `frozen`.
    """

    api_key: ClassVar[int | None] = None
    versions: ClassVar[range] = range(0)
    flexible: ClassVar[range] = range(0)
    _decoders: ClassVar[dict[int, Decoder]]
    _encoders: ClassVar[dict[int, Callable[[Any], bytes]]]

    def __init_subclass__(cls, *, versions: str, flexible: str = "none", key: int | None = None) -> None:
        cls.api_key = key
        cls.versions = parse_versions(versions)
        cls.flexible = parse_versions(flexible)
        cls._decoders = {}
        cls._encoders = {}

    @classmethod
    def decode(cls: type[M], data: bytes, version: int) -> M:
        """Decode the message at the start of `data`, in the form of `version`. As in Kafka, bytes after it are ignored.

        Raises DecodeError, and no other error, for any bytes.
        """
        return cls.decoder(version)(data, 0)[0]

    @classmethod
    def decoder(cls: type[M], version: int) -> Callable[..., tuple[M, int]]:
        """Return the compiled decoder of `version`: from bytes, an offset and, optionally, the number of elements that
        are allowed, to the message and the offset after it."""
        decoder = cls._decoders.get(version)
        if decoder is None:
            if version not in cls.versions:
                raise DecodeError(f"no version {version}", 0, cls.__name__)
            decoder = cls._decoders[version] = compile_decoder(cls, version, version in cls.flexible)
        return cast("Callable[..., tuple[M, int]]", decoder)

    def encode(self, version: int) -> bytes:
        """Encode this message in the form of `version`. Raises EncodeError if the version cannot hold it."""
        return self.encoder(version)(self)

    @classmethod
    def encoder(cls: type[M], version: int) -> Callable[[M], bytes]:
        """Return the compiled encoder of `version`."""
        encoder = cls._encoders.get(version)
        if encoder is None:
            if version not in cls.versions:
                raise EncodeError(f"{cls.__name__}: no version {version}")
            encoder = cls._encoders[version] = compile_encoder(cls, version, version in cls.flexible)
        return encoder
