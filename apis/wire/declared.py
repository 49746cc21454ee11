"""Declaration of message parts: `Struct`, `field`, and the metaclass behind them.

A declared class has slots, a constructor by position or keyword, equality, a repr, and a hash if it is frozen. The
encoding to bytes is elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, Final, Literal, TypeVar, dataclass_transform, overload

from kafka_shim.apis.wire.source import Source
from kafka_shim.apis.wire.types import Array, Nested, Type, as_type, parse_versions

T = TypeVar("T")
S = TypeVar("S", bound="Struct")
D = TypeVar("D", bound="Declarable")

_ZERO: Final = object()


class Field:
    """One declared field of a message or struct. `versions`, `nullable` and `tagged` are ranges of versions."""

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
        """True if every instance needs its own default value."""
        return self.default is _ZERO and isinstance(self.type, (Array, Nested))

    def default_value(self) -> Any:
        """Return the value of a field that a message leaves out."""
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

    `type`: a type of `apis/wire/types.py`, or a `Struct` class. `versions`, `nullable` and `tagged` are the versions of
    the message, in Kafka's notation (`"0-4"`, `"3+"`, `"2"`), in which the field exists, may be null, and is a tagged
    field of number `tag`. A version without the field decodes to `default` and refuses to encode any other value,
    unless the field is `ignorable`. The default of `default` is the type's zero: 0, "", b"", False, a new empty list or
    struct.
    """
    if (tag is None) != (tagged == ""):
        raise TypeError("a tagged field needs both its tag and the versions in which it is tagged")
    if isinstance(default, list):
        raise TypeError("the default of an array is null or left out")
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
    """Metaclass that turns declared fields into slots."""

    fields: tuple[Field, ...]
    frozen: bool
    _values: Callable[[Any], Any]

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, frozen: bool = False, **options: Any
    ) -> Declared:
        if any(getattr(base, "fields", ()) for base in bases):
            raise TypeError(f"{name}: a class with fields has no subclasses")
        fields = tuple(value for value in namespace.values() if isinstance(value, Field))
        for attribute in [key for key, value in namespace.items() if isinstance(value, Field)]:
            if any(hasattr(base, attribute) for base in bases):
                raise TypeError(f"{name}.{attribute}: a base class has this name")
            namespace.pop(attribute).name = attribute
        names = tuple(each.name for each in fields)
        namespace["__slots__"] = namespace["__match_args__"] = names
        if frozen:
            namespace |= {"__setattr__": _refuse, "__delattr__": _refuse, "__hash__": _hash}
        cls = super().__new__(mcs, name, bases, namespace, **options)
        cls.fields = fields
        cls.frozen = frozen
        cls._values = attrgetter(*names) if fields else bool
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_options: Any) -> None:
        super().__init__(name, bases, namespace)


def _refuse(self: Declarable, name: str, *_value: object) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be changed")


def _hash(self: Declarable) -> int:
    return hash(type(self)._values(self))


class Declarable(metaclass=Declared):
    """Base of messages and structs: constructor, equality and repr by their fields, in order.

    `_values(instance)` is the tuple of an instance's values; for a single field, the value itself.
    """

    fields: ClassVar[tuple[Field, ...]]
    frozen: ClassVar[bool]
    _values: ClassVar[Callable[[Any], Any]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Most runs of the program construct only few of the many classes, so a constructor is compiled on its first
        # call.
        cls = type(self)
        if cls is Declarable or Declarable in cls.__bases__:
            raise TypeError(f"{cls.__name__} declares no fields")
        compiled = cls.__init__ = _compile_constructor(cls)  # type: ignore[method-assign]
        compiled(self, *args, **kwargs)

    def copied(self: D) -> D:
        """Return another instance with the same values; the content of arrays and structs is shared."""
        cls = type(self)
        copy = cls.__dict__.get("_copy")
        if copy is None:
            copy = _compile_copy(cls)
            type.__setattr__(cls, "_copy", staticmethod(copy))
        instance: D = copy(self)
        return instance

    def __eq__(self, other: object) -> bool:
        if self.__class__ is not other.__class__:
            return NotImplemented
        values = type(self)._values
        return bool(values(self) == values(other))

    def __repr__(self) -> str:
        values = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in self.fields)
        return f"{type(self).__name__}({values})"

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), tuple(getattr(self, each.name) for each in self.fields)


def _compile_constructor(cls: type[Declarable]) -> Callable[..., None]:
    source = Source(f"{cls.__name__} constructor")
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
    with source.block(f"def __init__({', '.join(parameters)}):"):
        source.lines(body or ["pass"])
    constructor: Callable[..., None] = source.compile("__init__")["__init__"]
    return constructor


def _compile_copy(cls: type[Declarable]) -> Callable[[Any], Any]:
    source = Source(f"{cls.__name__} copy")
    with source.block("def copy(o):"):
        source.line(f"copy = {source.constant('new', object.__new__)}({source.constant('cls', cls)})")
        source.lines([f"copy.{each.name} = o.{each.name}" for each in cls.fields])
        source.line("return copy")
    copy: Callable[[Any], Any] = source.compile("copy")["copy"]
    return copy


@dataclass_transform()
class Struct(Declarable):
    """Base of the structs inside messages. A struct has no versions of its own: its fields use those of the message.

    Class keyword: `frozen=True` makes instances immutable and hashable.
    """
