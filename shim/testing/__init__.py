"""A coordinator in the test's own process; the test controls its faults, its time and its other members.

`CoordinatorServer` is for tests that may block, `AsyncCoordinator` for those on an event loop, `open_coordinator` for
those that run on trio, `Simulation` for those that need no real client. See `docs/testing.md`.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kafka_shim.experiments.client_assignors.puppets import ClientAssignorPuppet as ClientAssignorPuppet
    from kafka_shim.experiments.client_assignors.puppets import ClientAssignorScript as ClientAssignorScript
    from kafka_shim.experiments.client_assignors.puppets import MemberView as MemberView
    from kafka_shim.experiments.client_assignors.puppets import PuppetAssignor as PuppetAssignor
    from kafka_shim.experiments.client_assignors.puppets import Share as Share
    from kafka_shim.lab.consumer_puppets import ConsumerManner as ConsumerManner
    from kafka_shim.lab.consumer_puppets import ConsumerPuppet as ConsumerPuppet
    from kafka_shim.lab.consumer_puppets import ConsumerScript as ConsumerScript
    from kafka_shim.lab.group_waits import NotReached as NotReached
    from kafka_shim.lab.interception import Unmatchable as Unmatchable
    from kafka_shim.lab.puppets import Manner as Manner
    from kafka_shim.lab.puppets import Puppet as Puppet
    from kafka_shim.lab.puppets import Script as Script
    from kafka_shim.lab.scheduler import Network as Network
    from kafka_shim.lab.simulator import Simulation as Simulation
    from kafka_shim.lab.snapshots import GroupSnapshot as GroupSnapshot
    from kafka_shim.lab.topic_data import StoredRecord as StoredRecord
    from kafka_shim.testing.awaitable import AsyncCoordinator as AsyncCoordinator
    from kafka_shim.testing.consumers import polling as polling
    from kafka_shim.testing.fixtures import coordinator_fixture as coordinator_fixture
    from kafka_shim.testing.kit import Kit as Kit
    from kafka_shim.testing.kit import UnfiredFaults as UnfiredFaults
    from kafka_shim.testing.kit import open_coordinator as open_coordinator
    from kafka_shim.testing.server import CoordinatorServer as CoordinatorServer
    from kafka_shim.testing.waits import ForgottenWaits as ForgottenWaits
    from kafka_shim.testing.watched import ApplicationEnded as ApplicationEnded
    from kafka_shim.testing.watched import watching as watching

_HOME: Final = {
    "ClientAssignorPuppet": "kafka_shim.experiments.client_assignors.puppets",
    "ClientAssignorScript": "kafka_shim.experiments.client_assignors.puppets",
    "PuppetAssignor": "kafka_shim.experiments.client_assignors.puppets",
    "MemberView": "kafka_shim.experiments.client_assignors.puppets",
    "Share": "kafka_shim.experiments.client_assignors.puppets",
    "ConsumerManner": "kafka_shim.lab.consumer_puppets",
    "ConsumerPuppet": "kafka_shim.lab.consumer_puppets",
    "ConsumerScript": "kafka_shim.lab.consumer_puppets",
    "NotReached": "kafka_shim.lab.group_waits",
    "Unmatchable": "kafka_shim.lab.interception",
    "GroupSnapshot": "kafka_shim.lab.snapshots",
    "Kit": "kafka_shim.testing.kit",
    "UnfiredFaults": "kafka_shim.testing.kit",
    "open_coordinator": "kafka_shim.testing.kit",
    "polling": "kafka_shim.testing.consumers",
    "AsyncCoordinator": "kafka_shim.testing.awaitable",
    "StoredRecord": "kafka_shim.lab.topic_data",
    "coordinator_fixture": "kafka_shim.testing.fixtures",
    "Manner": "kafka_shim.lab.puppets",
    "Puppet": "kafka_shim.lab.puppets",
    "Script": "kafka_shim.lab.puppets",
    "ForgottenWaits": "kafka_shim.testing.waits",
    "ApplicationEnded": "kafka_shim.testing.watched",
    "watching": "kafka_shim.testing.watched",
    "CoordinatorServer": "kafka_shim.testing.server",
    "Simulation": "kafka_shim.lab.simulator",
    "Network": "kafka_shim.lab.scheduler",
}


__all__ = [*_HOME]


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


def __getattr__(name: str) -> Any:
    # Imported on first use: pytest loads the plugin in this package in every run, also in runs that do not use it.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    collects = gc.isenabled()
    # An import makes many objects and drops few, so that collections in it only cost time: a tenth of it.
    gc.disable()
    try:
        return getattr(import_module(_HOME[name]), name)
    finally:
        if collects:
            gc.enable()
