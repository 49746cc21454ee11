"""Parameter types of several commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click import ParamType as ParamType
else:

    class ParamType(click.ParamType):
        """Click's own, which takes its type in brackets from click 8.4 on alone."""

        def __class_getitem__(cls, _):
            return cls


class Whole(click.IntRange):
    """A whole number in a range. Click calls it an "integer range"."""

    name = "whole number"


class Number(click.FloatRange):
    """A number in a range."""

    name = "number"


class Address(ParamType[tuple[str, int]]):
    """`HOST:PORT`, with an IPv6 address in brackets."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, colon, port = value.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value!r} is not of the form HOST:PORT, such as 127.0.0.1:9092.", param, ctx)
        return host.strip("[]"), int(port)


class Experiment(ParamType[str]):
    """The name of an experiment that can be served."""

    name = "NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        # Imported here: most commands start no server.
        from kafka_shim.server.extensions import load

        try:
            load([value])
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)
