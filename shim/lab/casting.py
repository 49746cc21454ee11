"""Puppets of every kind by the name of the kind, for callers who have no Python object: HTTP, and scripts.

Decides which class plays which kind, and which experiment the coordinator must serve for it. A puppet of an experiment
is imported when there is one, as the experiment itself is.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from kafka_shim.lab.consumer_puppets import ConsumerManner
from kafka_shim.lab.puppets import Manner, Puppet
from kafka_shim.lab.scheduler import Scheduler


class Role(NamedTuple):
    """What plays a kind: its puppet, in a module of this folder; its script, which that module knows too; and the
    experiment that it needs."""

    module: str
    puppet: str
    script: str
    experiment: str = ""


ROLES: Final = {
    "classic": Role("puppets", "Puppet", "Script"),
    "consumer": Role("consumer_puppets", "ConsumerPuppet", "ConsumerScript"),
    "share": Role("share_puppets", "SharePuppet", "ConsumerScript"),
    "streams": Role("streams_puppets", "StreamsPuppet", "StreamsScript"),
    "client-assignors": Role(
        "client_assignor_puppets", "ClientAssignorPuppet", "ClientAssignorScript", "client-assignors"
    ),
    "registered": Role("registered_puppets", "RegisteredPuppet", "RegisteredScript", "designs"),
}
"""By the name of a kind."""


def cast(scheduler: Scheduler, kind: str, script: Mapping[str, Any]) -> Puppet:
    """A puppet of a kind, which joins now. `script` are the fields of its script; a `manner` may be a mapping.

    Raises ValueError, in one sentence, where the coordinator has no such groups, or the script cannot be.
    """
    role = ROLES[kind]
    if role.experiment and role.experiment not in scheduler.cluster.config.experimental:
        raise ValueError(f"The coordinator does not serve {role.experiment}: start it with --experimental.")
    module = import_module(f"kafka_shim.lab.{role.module}")
    fields = dict(script)
    if isinstance(manner := fields.get("manner"), Mapping):
        fields["manner"] = (Manner if kind == "classic" else ConsumerManner)(**manner)
    if "assignors" in fields:
        fields["assignors"] = [module.PuppetAssignor(**each) for each in fields["assignors"]]
    puppet: Puppet = getattr(module, role.puppet)(scheduler, getattr(module, role.script)(**fields))
    puppet.join()
    return puppet


def kind_played_by(puppet: Puppet) -> str:
    """The name of a puppet's kind."""
    return next(kind for kind, role in ROLES.items() if role.puppet == type(puppet).__name__)
