"""The command line: `kafka-shim`, or `python -m shim`.

Decides what an operator may say and what each command starts; it does nothing itself. Commands are imported when they
are called, so that `serve` is ready soon.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, Final

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


class TopicSize(click.ParamType[tuple[str, int]]):
    """`NAME:PARTITIONS`."""

    name = "NAME:PARTITIONS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, colon, partitions = value.rpartition(":")
        if not colon or not partitions.isdecimal() or int(partitions) < 1:
            self.fail(f"{value!r} is not of the form NAME:PARTITIONS.", param, ctx)
        return name, int(partitions)


class KeyValue(click.ParamType[tuple[str, str]]):
    """`NAME=VALUE`."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not of the form NAME=VALUE.", param, ctx)
        return name, text


ELSEWHERE: Final = {"conformance": ("conformance.cli", "cli")}
"""Module and attribute of commands that live elsewhere, by name."""


class LazyGroup(click.Group):
    """Commands of other folders, imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in ELSEWHERE:
            module, attribute = ELSEWHERE[cmd_name]
            command = getattr(importlib.import_module(module), attribute)
            assert isinstance(command, click.Command)
            return command
        return super().get_command(ctx, cmd_name)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kafka-group-shim")
def main() -> None:
    """A Kafka-compatible group coordinator: for tests, for conformance, for understanding rebalances."""


@main.command()
@click.option("--listen", type=Address(), default="127.0.0.1:9092", show_default=True, help="Port 0 is any free port.")
@click.option("--control", type=Address(), help="HTTP control server: health, metrics, groups. Off unless given.")
@click.option(
    "--store",
    default="sqlite:kafka-shim.db",
    show_default=True,
    metavar="URL",
    help="memory:, sqlite:PATH or postgresql://...",
)
@click.option("--brokers", type=click.IntRange(1, 100), default=1, show_default=True, help="Nodes, one port each.")
@click.option("--topic", "topics", type=TopicSize(), multiple=True, help="A topic to begin with.")
@click.option("--config", "settings", type=KeyValue(), multiple=True, help="A setting, by Kafka's name.")
@click.option("--as-version", "release", type=click.Choice(["2.8", "3.9", "4.2"]), default="4.2", show_default=True)
@click.option("--advertise", metavar="HOST", help="The host that clients are told.")
@click.option("--trace", type=click.Path(dir_okay=False, path_type=Path), help="Write the trace to this file.")
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="Certificate chain, PEM.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="Its private key, PEM.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def serve(**options: Any) -> None:
    """Run the coordinator until SIGTERM or SIGINT."""
    from shim.control.run import Options, Unusable, run

    try:
        sys.exit(run(Options(**options)))
    except Unusable as error:
        click.echo(f"kafka-shim: {error}", err=True)
        sys.exit(2)
