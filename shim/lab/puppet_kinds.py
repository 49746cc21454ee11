"""Puppets by the name of their kind, for callers without Python objects: HTTP, and scripts.

A kind is imported when its first puppet starts. An extension of the server adds kinds (`Extension.puppets`).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from kafka_shim.lab.puppets import Puppet
from kafka_shim.lab.scheduler import Scheduler
from kafka_shim.server.extensions import with_puppets

PUPPET_KINDS: Final = {
    "classic": "kafka_shim.lab.puppets:Puppet",
    "consumer": "kafka_shim.lab.consumer_puppets:ConsumerPuppet",
    "share": "kafka_shim.lab.share_puppets:SharePuppet",
    "streams": "kafka_shim.lab.streams_puppets:StreamsPuppet",
}
"""Module and class of the puppets of every server, by the name of their kind."""


def start_puppet(scheduler: Scheduler, kind: str, script: Mapping[str, Any]) -> Puppet:
    """Start a puppet of a kind, which joins now. `script` are the fields of its script; a `manner` may be a mapping.

    Raises ValueError, in one sentence, if the coordinator does not serve this kind, or a field is wrong.
    """
    puppet_class = class_of(scheduler, kind)
    puppet = puppet_class(scheduler, puppet_class.script_of(script))
    puppet.join()
    return puppet


def class_of(scheduler: Scheduler, kind: str) -> type[Puppet]:
    """Return the class of the puppets of a kind. Raises ValueError, in one sentence, if this coordinator has none."""
    kinds = {**PUPPET_KINDS, **scheduler.cluster.extension.puppets}
    if kind not in kinds:
        if experiment := with_puppets(kind):
            raise ValueError(
                f"The coordinator does not serve {experiment}: start it with --experimental, or experimental=[...]."
            )
        raise ValueError(f"There is no kind of puppet {kind!r}; there are {', '.join(kinds)}.")
    module, _, name = kinds[kind].partition(":")
    puppet_class: type[Puppet] = getattr(import_module(module), name)
    return puppet_class
