"""Protocols that no release of Kafka has, and that a server serves only if it is asked to: `--experimental NAME`.

Decides which module has each experiment, and imports it only then. An experiment has APIs with private keys, a row for
each as in the table of requests, and kinds of groups. It does not know what they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Final, NamedTuple

from kafka_shim.apis.api import Api
from kafka_shim.apis.api_versions import ApiVersion
from kafka_shim.groups.kinds import KINDS, Kinds
from kafka_shim.groups.shard import Kind
from kafka_shim.server.requests import Row


class Experiment(NamedTuple):
    """`apis` and `rows` are by API key. A kind takes the place of the one of the same name, or stands beside all."""

    apis: Mapping[int, Api] = {}
    rows: Mapping[int, Row] = {}
    kinds: Sequence[Kind] = ()

    def all_kinds(self) -> Kinds:
        """The kinds of groups of a server with this experiment."""
        return Kinds(*{kind.name: kind for kind in (*KINDS, *self.kinds)}.values())

    def versions(self) -> list[ApiVersion]:
        """What ApiVersions says of its APIs."""
        return [ApiVersion(key, api.request.versions[0], api.request.versions[-1]) for key, api in self.apis.items()]


NONE: Final = Experiment()

EXPERIMENTS: Final = {
    "client-assignors": "kafka_shim.server.client_assignors",
    "designs": "kafka_shim.server.designs",
}
"""The module of each experiment, by its name; the module has it as `EXPERIMENT`."""


def load(names: Iterable[str]) -> Experiment:
    """The experiments of these names as one. Raises ValueError, in one sentence, for a name that there is not."""
    whole = NONE
    for name in dict.fromkeys(names):
        if name not in EXPERIMENTS:
            raise ValueError(f"There is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}.")
        each: Experiment = import_module(EXPERIMENTS[name]).EXPERIMENT
        whole = Experiment({**whole.apis, **each.apis}, {**whole.rows, **each.rows}, (*whole.kinds, *each.kinds))
    return whole
