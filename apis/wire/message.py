"""How messages are declared: `Message`.

Decides which versions a message has and finds its decoder and encoder: `decoding.py` and `encoding.py` compile them for
one version when it is first asked for. What a declared class looks like to Python code is in `declared.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

from kafka_shim.apis.keys import ApiKey, ExperimentalKey
from kafka_shim.apis.wire.declared import Declarable
from kafka_shim.apis.wire.decoding import compile_decoder
from kafka_shim.apis.wire.encoding import compile_encoder
from kafka_shim.apis.wire.exceptions import DecodeError, EncodeError
from kafka_shim.apis.wire.types import parse_versions

M = TypeVar("M", bound="Message")


@dataclass_transform()
class Message(Declarable):
    """Base of requests, responses and everything else that has versions of its own.

    Class keywords: `versions`, the versions that exist; `flexible`, those with compact lengths and tagged fields
    (KIP-482), none unless said; `key`, the API key, None for what is no request or response; `frozen=True` makes
    instances immutable and hashable. The class attributes `api_key`, `versions` and `flexible` tell them.
    """

    api_key: ClassVar[ApiKey | ExperimentalKey | None] = None
    versions: ClassVar[range] = range(0)
    flexible: ClassVar[range] = range(0)
    _decoders: ClassVar[dict[int, Callable[[bytes, int], tuple[Any, int]]]]
    _encoders: ClassVar[dict[int, Callable[[Any], bytes]]]

    def __init_subclass__(
        cls, *, versions: str, flexible: str = "none", key: ApiKey | ExperimentalKey | None = None
    ) -> None:
        cls.api_key = key
        cls.versions = parse_versions(versions)
        cls.flexible = parse_versions(flexible)
        cls._decoders = {}
        cls._encoders = {}

    @classmethod
    def decode(cls: type[M], data: bytes, version: int) -> M:
        """The message that `data` begins with, in the form of `version`. What follows it is ignored, as Kafka does.

        Raises DecodeError, and nothing else, whatever the bytes.
        """
        return cls.decoder(version)(data, 0)[0]

    @classmethod
    def decoder(cls: type[M], version: int) -> Callable[[bytes, int], tuple[M, int]]:
        """The compiled decoder of `version`: from bytes and an offset to the message and the offset after it."""
        found = cls._decoders.get(version)
        if found is None:
            if version not in cls.versions:
                raise DecodeError(f"no version {version}", 0, cls.__name__)
            found = cls._decoders[version] = compile_decoder(cls, version, version in cls.flexible)
        return cast("Callable[[bytes, int], tuple[M, int]]", found)

    def encode(self, version: int) -> bytes:
        """The bytes of this message in the form of `version`. Raises EncodeError when the version cannot say it."""
        return self.encoder(version)(self)

    @classmethod
    def encoder(cls: type[M], version: int) -> Callable[[M], bytes]:
        """The compiled encoder of `version`."""
        found = cls._encoders.get(version)
        if found is None:
            if version not in cls.versions:
                raise EncodeError(f"{cls.__name__}: no version {version}")
            found = cls._encoders[version] = compile_encoder(cls, version, version in cls.flexible)
        return found
