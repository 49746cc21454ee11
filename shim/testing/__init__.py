"""A coordinator for tests, in the test's own process: its faults, its time and its other members are the test's.

`CoordinatorServer` is for tests of any kind, `open_coordinator` for those that run on trio, `Simulation` for those that
need no real client. See `docs/testing.md`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from shim.server.awaiting import NotReached as NotReached
    from shim.server.interception import Unmatchable as Unmatchable
    from shim.server.watching import GroupSnapshot as GroupSnapshot
    from shim.testing.consumers import polling as polling
    from shim.testing.kit import Kit as Kit
    from shim.testing.kit import UnfiredFaults as UnfiredFaults
    from shim.testing.kit import open_coordinator as open_coordinator
    from shim.testing.puppets import Manner as Manner
    from shim.testing.puppets import Puppet as Puppet
    from shim.testing.puppets import Script as Script
    from shim.testing.server import CoordinatorServer as CoordinatorServer
    from shim.testing.simulator import Simulation as Simulation
    from shim.testing.stage import Network as Network

_HOME: Final = {
    "NotReached": "shim.server.awaiting",
    "Unmatchable": "shim.server.interception",
    "GroupSnapshot": "shim.server.watching",
    "Kit": "shim.testing.kit",
    "UnfiredFaults": "shim.testing.kit",
    "open_coordinator": "shim.testing.kit",
    "polling": "shim.testing.consumers",
    "Manner": "shim.testing.puppets",
    "Puppet": "shim.testing.puppets",
    "Script": "shim.testing.puppets",
    "CoordinatorServer": "shim.testing.server",
    "Simulation": "shim.testing.simulator",
    "Network": "shim.testing.stage",
}


def __getattr__(name: str) -> Any:
    # Imported when asked for: pytest loads the plugin in this package in every run, also where nobody uses it.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
