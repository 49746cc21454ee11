"""How messages are declared: `Message`, `Struct` and `field`.

Decides what a declared class looks like to Python code: slots, a constructor by position or keyword, equality, a repr,
and a hash where it is frozen. Does not know a byte of the wire form: `decoding.py` and `encoding.py` compile that for
one version when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, Literal, TypeVar, cast, dataclass_transform, overload

from apis.wire.exceptions import DecodeError, EncodeError
from apis.wire.source import Source
from apis.wire.types import Array, Nested, Type, as_type, parse_versions

T = TypeVar("T")
S = TypeVar("S", bound="Struct")
M = TypeVar("M", bound="Message")

_ZERO: Final = object()


class Field:
    """One field of a message or struct as declared. `versions`, `nullable` and `tagged` are ranges of versions."""

    __slots__ = ("default", "ignorable", "name", "nullable", "tag", "tagged", "type", "versions")

    def __init__(
        self,
        type: Type[Any],
        versions: range,
        nullable: range,
        default: Any,
        tag: int | None,
        tagged: range,
        ignorable: bool,
    ) -> None:
        self.name = ""
        self.type = type
        self.versions = versions
        self.nullable = nullable
        self.default = default
        self.tag = tag
        self.tagged = tagged
        self.ignorable = ignorable

    @property
    def is_mutable(self) -> bool:
        """Whether every instance needs a default value of its own."""
        return self.default is _ZERO and isinstance(self.type, (Array, Nested))

    def default_value(self) -> Any:
        """What the field is in a message that does not say."""
        return self.type.zero() if self.default is _ZERO else self.default


@overload
def field(
    type: type[S],
    *,
    versions: str = "0+",
    tag: int | None = None,
    tagged: str = "",
    ignorable: bool = False,
) -> S: ...
@overload
def field(
    type: type[S],
    *,
    versions: str = "0+",
    nullable: str,
    default: None = None,
    tag: int | None = None,
    tagged: str = "",
    ignorable: bool = False,
) -> S | None: ...
@overload
def field(
    type: Type[T],
    *,
    versions: str = "0+",
    nullable: Literal[""] = "",
    default: T = ...,
    tag: int | None = None,
    tagged: str = "",
    ignorable: bool = False,
) -> T: ...
@overload
def field(
    type: Type[T],
    *,
    versions: str = "0+",
    nullable: str,
    default: T | None = ...,
    tag: int | None = None,
    tagged: str = "",
    ignorable: bool = False,
) -> T | None: ...
def field(
    type: Any,
    *,
    versions: str = "0+",
    nullable: str = "",
    default: Any = _ZERO,
    tag: int | None = None,
    tagged: str = "",
    ignorable: bool = False,
) -> Any:
    """Declare a field of a `Message` or `Struct`, in the order of the wire.

    `type`: a type of `apis.wire.types`, or a `Struct` class. `versions`, `nullable` and `tagged` say in Kafka's
    notation (`"0-4"`, `"3+"`, `"2"`) in which versions of the message the field exists, may be null, and is a tagged
    field of number `tag`. A version without the field decodes to `default` and refuses to encode anything else, unless
    the field is `ignorable`. A default left out is the type's zero: 0, "", b"", False, a new empty list or struct.
    """
    if (tag is None) != (tagged == ""):
        raise TypeError("a tagged field needs both its tag and the versions in which it is tagged")
    if isinstance(default, list):
        raise TypeError("the default of an array is null or the empty array, which is the default's default")
    return Field(
        as_type(type),
        parse_versions(versions),
        parse_versions(nullable),
        default,
        tag,
        parse_versions(tagged),
        ignorable,
    )


class Declared(type):
    """The metaclass that turns declared fields into slots and writes the constructor and its like."""

    fields: tuple[Field, ...]
    frozen: bool

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, frozen: bool = False, **options: Any
    ) -> Declared:
        fields = tuple(value for value in namespace.values() if isinstance(value, Field))
        for attribute in [key for key, value in namespace.items() if isinstance(value, Field)]:
            if any(hasattr(base, attribute) for base in bases):
                raise TypeError(f"{name}.{attribute}: the name is taken")
            namespace.pop(attribute).name = attribute
        namespace["__slots__"] = namespace["__match_args__"] = tuple(each.name for each in fields)
        cls = super().__new__(mcs, name, bases, namespace, **options)
        cls.fields = fields
        cls.frozen = frozen
        for method, function in _methods(cls).items():
            setattr(cls, method, function)
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_options: Any) -> None:
        super().__init__(name, bases, namespace)


def _refuse(self: object, name: str, *_value: object) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be changed")


def _methods(cls: Declared) -> dict[str, Any]:
    source = Source(f"{cls.__name__} methods")
    absent = source.constant("absent", _ZERO)
    parameters = ["self"]
    body = []
    for each in cls.fields:
        value = each.name
        if each.is_mutable:
            parameters.append(f"{each.name}={absent}")
            zero = "[]" if isinstance(each.type, Array) else f"{source.constant('zero', each.type.zero)}()"
            value = f"{zero} if {each.name} is {absent} else {each.name}"
        else:
            parameters.append(f"{each.name}={source.literal(each.default_value())}")
        if cls.frozen:
            body.append(f"{source.constant('set', cls.__dict__[each.name].__set__)}(self, {value})")
        else:
            body.append(f"self.{each.name} = {value}")
    values = "".join(f"self.{each.name}, " for each in cls.fields)
    equal = " and ".join(f"self.{each.name} == other.{each.name}" for each in cls.fields)
    shown = ", ".join(f"{each.name}={{self.{each.name}!r}}" for each in cls.fields)
    with source.block(f"def __init__({', '.join(parameters)}):"):
        source.lines(body or ["pass"])
    with source.block("def __eq__(self, other):"):
        with source.block("if self.__class__ is not other.__class__:"):
            source.line("return NotImplemented")
        source.line(f"return {equal or True}")
    with source.block("def __repr__(self):"):
        source.line(f'return f"{cls.__name__}({shown})"')
    with source.block("def __reduce__(self):"):
        source.line(f"return self.__class__, ({values})")
    if not cls.frozen:
        return {"__hash__": None, **source.compile("__init__", "__eq__", "__repr__", "__reduce__")}
    with source.block("def __hash__(self):"):
        source.line(f"return hash(({values}))")
    methods = source.compile("__init__", "__eq__", "__repr__", "__reduce__", "__hash__")
    return {"__setattr__": _refuse, "__delattr__": _refuse, **methods}


@dataclass_transform()
class Struct(metaclass=Declared):
    """Base of the structs inside messages. A struct has no versions of its own: its fields count the message's."""

    fields: ClassVar[tuple[Field, ...]]
    frozen: ClassVar[bool]


@dataclass_transform()
class Message(metaclass=Declared):
    """Base of requests, responses and everything else that has versions of its own.

    Class keywords: `versions`, the versions that exist; `flexible`, those with compact lengths and tagged fields
    (KIP-482), none unless said; `key`, the API key, None for what is no request or response; `frozen=True` makes
    instances immutable and hashable. The class attributes `api_key`, `versions` and `flexible` tell them.
    """

    fields: ClassVar[tuple[Field, ...]]
    frozen: ClassVar[bool]
    api_key: ClassVar[int | None] = None
    versions: ClassVar[range] = range(0)
    flexible: ClassVar[range] = range(0)
    _decoders: ClassVar[dict[int, Callable[[bytes, int], tuple[Any, int]]]]
    _encoders: ClassVar[dict[int, Callable[[Any], bytes]]]

    def __init_subclass__(cls, *, versions: str, flexible: str = "none", key: int | None = None) -> None:
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
            from apis.wire.decoding import compile_decoder

            found = cls._decoders[version] = compile_decoder(cls, version)
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
            from apis.wire.encoding import compile_encoder

            found = cls._encoders[version] = compile_encoder(cls, version)
        return found
