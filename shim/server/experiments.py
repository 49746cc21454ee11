"""Protocols that no release of Kafka has, served only on request: `--experimental NAME`.

An experiment has APIs with private keys, a row for each as in the table of requests, and kinds of groups. Its module is
imported only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Final, NamedTuple

from kafka_shim.apis.api import Api
from kafka_shim.apis.api_versions import ApiVersion
from kafka_shim.groups.kinds import KINDS
from kafka_shim.groups.shard import Kind, Kinds
from kafka_shim.server.rows import Row


class Experiment(NamedTuple):
    """An experiment. `apis` and `rows` are by API key. A kind replaces the kind of the same name, or is added."""

    apis: Mapping[int, Api] = {}
    rows: Mapping[int, Row] = {}
    kinds: Sequence[Kind] = ()

    def beside(self, other: Experiment) -> Experiment:
        """Return both as one."""
        return Experiment({**self.apis, **other.apis}, {**self.rows, **other.rows}, (*self.kinds, *other.kinds))

    def all_kinds(self) -> Kinds:
        """Return the kinds of groups of a server with this experiment."""
        return Kinds(*{kind.name: kind for kind in (*KINDS, *self.kinds)}.values())

    def versions(self) -> list[ApiVersion]:
        """Return its APIs for ApiVersions."""
        return [ApiVersion(key, api.request.versions[0], api.request.versions[-1]) for key, api in self.apis.items()]


NONE: Final = Experiment()

EXPERIMENTS: Final = {
    "client-assignors": "kafka_shim.experiments.client_assignors.experiment",
    "designs": "kafka_shim.experiments.registered.experiment",
}
"""The module of each experiment, by its name; the module defines `EXPERIMENT`."""


def load(names: Iterable[str]) -> Experiment:
    """Combine the experiments of these names. Raises ValueError, in one sentence, for an unknown name."""
    whole = NONE
    for name in dict.fromkeys(names):
        if name not in EXPERIMENTS:
            raise ValueError(f"There is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}.")
        each: Experiment = import_module(EXPERIMENTS[name]).EXPERIMENT
        whole = whole.beside(each)
    return whole
