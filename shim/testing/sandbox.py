"""`Sandbox`: a recorded run continued on a real port: a laboratory with a frozen clock, and puppets instead of the
clients.

`lab/replay.py` replays the run, `lab/continuation.py` chooses the puppets. The events of the replay are kept, so that
the page shows the past too.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from kafka_shim.control.server import serve_control
from kafka_shim.lab.continuation import Continuation
from kafka_shim.lab.replay import Replay
from kafka_shim.server.history import EventHistory
from kafka_shim.server.reachable import is_loopback, warning_about
from kafka_shim.server.server import Server, ServerConfig, serve_made, the_only
from kafka_shim.testing.kit import Kit

Address = tuple[str, int]

MAX_LINES: Final = 20


class Unservable(Exception):
    """The sandbox cannot start; the message is one sentence."""


class Sandbox:
    """A run from its replay on. Create it before the run is replayed: it keeps the events from then on."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._history = EventHistory(replay.cluster.events, replay.cluster.wall_offset)
        self._history.start()

    def run(self, listen: Address, control: Address, token: str | None, say: Callable[[str], object]) -> None:
        """Continue until SIGTERM or SIGINT; the last line passed to `say` is the ready line.

        Raises TooEarly, and Unservable.
        """
        if not token and not is_loopback(control[0]):
            raise Unservable("A control server that other machines can reach needs a token (--control-token).")
        try:
            trio.run(self._until_signal, listen, control, token, say)
        except Exception as group:
            error = the_only(group)
            if isinstance(error, OSError):
                raise Unservable(f"An address cannot be listened on: {error.strerror or error}.") from group
            if error is group:
                raise
            raise error from group

    async def _until_signal(
        self, listen: Address, control: Address, token: str | None, say: Callable[[str], object]
    ) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as nursery:
                kit, continuation = await self.serve(listen, nursery)
                url = await nursery.start(partial(serve_control, kit.server, *control, token, True, kit))
                for line in takeovers(kit, continuation):
                    say(line)
                for address, guard in ((listen, "no authentication"), (control, "its token alone")):
                    if warning := warning_about(*address, guard):
                        say(f"warning: {warning}")
                say(f"ready kafka={kit.bootstrap} control={url}")
                async for _ in signals:
                    break
                kit.server.stop()
                await kit.server.gone.wait()
                nursery.cancel_scope.cancel()

    async def serve(self, listen: Address, nursery: trio.Nursery) -> tuple[Kit, Continuation]:
        """Continue in a nursery, with clients on `listen` and the brokers after it. Raises TooEarly, OSError."""
        clock = self._replay.go_on()
        config = ServerConfig(host=listen[0], port=listen[1])
        server: Server = await nursery.start(serve_made, config, self._replay.cluster)
        kit = Kit(server, clock, None, nursery, self._history)
        continuation = Continuation(kit.scheduler)
        for puppet in continuation.puppets:
            kit.number(puppet)
        nursery.start_soon(kit.play)
        return kit, continuation


def takeovers(kit: Kit, continuation: Continuation) -> list[str]:
    """Return lines with the member of each puppet, and the members without a puppet."""
    lines = [
        f"puppet {number} continues as {puppet.member_id} of {puppet.script.group}"
        for number, puppet in list(kit.puppets.items())[:MAX_LINES]
    ]
    if len(continuation.puppets) > MAX_LINES:
        lines.append(f"and {len(continuation.puppets) - MAX_LINES} more puppets")
    return lines + [
        f"no puppet for {each.member_id} of {each.group}: {each.why}" for each in continuation.unplayed[:MAX_LINES]
    ]
