"""Puppets by the name of their kind, for callers without Python objects: HTTP, and scripts.

A kind is imported when its first puppet starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka_shim.lab.puppets import Manner, Puppet
from kafka_shim.lab.scheduler import Scheduler

if TYPE_CHECKING:
    from kafka_shim.lab.consumer_puppets import ConsumerManner


class PuppetKind(NamedTuple):
    """Classes of one kind of puppet: the module in this folder, the puppet and its script there, and the experiment it
    needs.
    """

    module: str
    puppet: str
    script: str
    experiment: str = ""


PUPPET_KINDS: Final = {
    "classic": PuppetKind("puppets", "Puppet", "Script"),
    "consumer": PuppetKind("consumer_puppets", "ConsumerPuppet", "ConsumerScript"),
    "share": PuppetKind("share_puppets", "SharePuppet", "ConsumerScript"),
    "streams": PuppetKind("streams_puppets", "StreamsPuppet", "StreamsScript"),
    "client-assignors": PuppetKind(
        "client_assignor_puppets", "ClientAssignorPuppet", "ClientAssignorScript", "client-assignors"
    ),
    "registered": PuppetKind("registered_puppets", "RegisteredPuppet", "RegisteredScript", "designs"),
}
"""By the name of a kind."""


def start_puppet(scheduler: Scheduler, kind: str, script: Mapping[str, Any]) -> Puppet:
    """Start a puppet of a kind, which joins now. `script` are the fields of its script; a `manner` may be a mapping.

    Raises ValueError, in one sentence, if the coordinator does not serve this kind, or a field is wrong.
    """
    classes = PUPPET_KINDS[kind]
    if classes.experiment and classes.experiment not in scheduler.cluster.config.experimental:
        raise ValueError(f"The coordinator does not serve {classes.experiment}: start it with --experimental.")
    module = import_module(f"kafka_shim.lab.{classes.module}")
    fields = dict(script)
    if isinstance(manner := fields.get("manner"), Mapping):
        fields["manner"] = _manner(kind)(**manner)
    if "assignors" in fields:
        fields["assignors"] = [module.PuppetAssignor(**each) for each in fields["assignors"]]
    puppet: Puppet = getattr(module, classes.puppet)(scheduler, getattr(module, classes.script)(**fields))
    puppet.join()
    return puppet


def _manner(kind: str) -> type[Manner | ConsumerManner]:
    from kafka_shim.lab.consumer_puppets import ConsumerManner

    return Manner if kind == "classic" else ConsumerManner


def kind_of_puppet(puppet: Puppet) -> str:
    """Return the name of a puppet's kind."""
    return next(kind for kind, classes in PUPPET_KINDS.items() if classes.puppet == type(puppet).__name__)
