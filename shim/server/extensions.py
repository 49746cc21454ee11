"""The extension point of the coordinator: `Extension`, and the experiments that a server loads by name.

An experiment is a protocol that no release of Kafka has, served only on request: `--experimental NAME`. It is an
`Extension` that an entry point names, those of `shim/experiments/` as those of any package:

    [project.entry-points."kafka_shim.experiments"]
    lottery = "my_package.lottery:EXTENSION"

Its modules are imported only then. `docs/protocols.md` tells how to write one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka_shim.apis.api import Api
from kafka_shim.apis.api_versions import ApiVersion
from kafka_shim.apis.private import PRIVATE_APIS
from kafka_shim.apis.registry import APIS
from kafka_shim.groups.group import CLASSIC
from kafka_shim.groups.kinds import KINDS
from kafka_shim.groups.shard import Kind, Kinds
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.share.persister import SharePersister
from kafka_shim.persistence.own_types import type_of
from kafka_shim.server.rows import Row

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS: Final = "kafka_shim.experiments"
"""Group of entry points for experiments."""

BUILT_IN: Final = {
    "client-assignors": "kafka_shim.experiments.client_assignors.experiment:EXTENSION",
    "designs": "kafka_shim.experiments.registered.experiment:EXTENSION",
}
"""Entry points of our own experiments by name: here, so that a copy of the files has them without an installation."""


class Extension(NamedTuple):
    """Additions of a server to the protocol of Kafka.

    `requests` has the row in the table of requests for each API: a new API that `private` has declared, or one of
    Kafka with another row. A kind of groups replaces the kind of the same name, or is added; its records come with it.
    `puppets` are the classes of scripted members by the name of their kind, for a laboratory that imports them
    when it starts the first one: `module:Class`, a `Puppet` of `shim/lab/puppets.py`.
    """

    requests: Mapping[Api, Row] = {}
    kinds: Sequence[Kind] = ()
    puppets: Mapping[str, str] = {}

    @property
    def apis(self) -> dict[int, Api]:
        """The new APIs by key, served in all their versions."""
        return {api.key: api for api in self.requests if api.key not in APIS}

    @property
    def rows(self) -> dict[int, Row]:
        """The rows by API key."""
        return {api.key: row for api, row in self.requests.items()}

    def beside(self, other: Extension) -> Extension:
        """Return both as one."""
        return Extension(
            {**self.requests, **other.requests}, (*self.kinds, *other.kinds), {**self.puppets, **other.puppets}
        )

    def all_kinds(self, share_states: SharePersister) -> Kinds:
        """Return the kinds of groups of a server with this extension, and with these states of its share groups."""
        kinds = {kind.name: kind for kind in (*KINDS, *self.kinds)}
        share = kinds[ShareGroup.type]
        kinds[share.name] = share._replace(make=partial(share.make, share_states=share_states))
        return Kinds(*kinds.values())

    def versions(self) -> list[ApiVersion]:
        """Return its new APIs for ApiVersions."""
        return [ApiVersion(key, api.request.versions[0], api.request.versions[-1]) for key, api in self.apis.items()]


NONE: Final = Extension()


def load(names: Iterable[str]) -> Extension:
    """Combine the experiments of these names. Raises ValueError, in one sentence, for one that is unknown or unusable,
    and for two with the same kind of groups or type of records.
    """
    whole = NONE
    owners: dict[str, str] = {}
    for name in dict.fromkeys(names):
        each = _load(name)
        types = [f"records of type {type_of(key)}" for kind in each.kinds for key in kind.own_records]
        for own in (*(f"groups of type {kind.name}" for kind in each.kinds), *types):
            if owners.setdefault(own, name) != name:
                raise ValueError(f"Experiments {owners[own]} and {name} cannot be served together: both have {own}.")
        whole = whole.beside(each)
    return whole


def with_puppets(kind: str) -> str | None:
    """Return the name of our own experiment with puppets of this kind, or None."""
    return next((name for name in BUILT_IN if kind in _load(name).puppets), None)


def _load(name: str) -> Extension:
    offered = _offered(name)
    if name not in offered:
        raise ValueError(f"There is no experiment {name!r}; there are: {', '.join(offered)}.")
    try:
        extension = offered[name].load()
    except Exception as error:
        why = str(error).rstrip(".")
        raise ValueError(f"Experiment {name} cannot be loaded: {type(error).__name__}: {why}.") from error
    if problem := _problem(extension):
        raise ValueError(f"Experiment {name} cannot be used: {problem}.")
    return extension  # type: ignore[no-any-return]


def _offered(name: str) -> dict[str, EntryPoint]:
    """Return the experiments by name: our own, and unless `name` is one of them, those of all installed packages."""
    # Imported here: few coordinators have an experiment.
    from importlib.metadata import EntryPoint, entry_points

    own = {each: EntryPoint(each, place, ENTRY_POINTS) for each, place in BUILT_IN.items()}
    return own if name in own else {each.name: each for each in entry_points(group=ENTRY_POINTS)} | own


def _problem(extension: Any) -> str:
    """Return the reason against the value of an entry point, a clause; empty without one."""
    if not isinstance(extension, Extension):
        return f"its entry point is no Extension but {type(extension).__name__}"
    for api in extension.requests:
        if APIS.get(api.key) is not api and PRIVATE_APIS.get(api.key) is not api:
            return f"its API {api.name} is neither one of Kafka nor declared by private()"
    for kind in extension.kinds:
        if kind.name == CLASSIC:
            return f"the kind {CLASSIC} cannot be replaced"
        for key in kind.own_records:
            try:
                type_of(key)
            except ValueError as error:
                return str(error)
    return ""
