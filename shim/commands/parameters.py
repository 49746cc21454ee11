"""What several commands take."""

from __future__ import annotations

from typing import Any

import click


class Address(click.ParamType[tuple[str, int]]):
    """`HOST:PORT`, with an IPv6 address in brackets."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, colon, port = value.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value!r} is not of the form HOST:PORT.", param, ctx)
        return host.strip("[]"), int(port)
