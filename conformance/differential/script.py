"""A script: the requests of several members of one group, step by step, without ids, so that it fits any target.

Defines the steps and draws them at random; `play.py` sends them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

ACTORS: Final[tuple[str | None, ...]] = (None, None, "i", "j", "i")
"""The group instance id of each actor; None is a dynamic member. Two actors use the same instance id."""

DOINGS: Final = (
    "join",
    "sync",
    "heartbeat",
    "leave",
    "commit",
    "fetch",
    "delete",
    "offset-delete",
    "list",
    "disconnect",
    "wait",
    "enter",
    "beat",
    "depart",
    "share-join",
    "share-beat",
    "share-leave",
    "share-offsets",
    "share-alter",
    "share-forget",
    "stream-join",
    "stream-beat",
    "stream-leave",
)
"""The actions of a step. `enter`, `beat` and `depart` are heartbeats of the consumer protocol (KIP-848).

They join, stay and leave. The heartbeats of share groups (KIP-932) and streams groups (KIP-1071) begin with the kind.
`share-offsets`, `share-alter` and `share-forget` describe, alter and delete the offsets of a share group.
"""


PROTOCOLS: Final = ("classic", "consumer", "share", "streams")
"""The protocols for random scripts."""


_ENTRANCES: Final = {
    "consumer": ("enter", "beat"),
    "share": ("share-join", "share-beat"),
    "streams": ("stream-join", "stream-beat"),
}


@dataclass(frozen=True)
class Step:
    """One step of one actor; its request ignores the fields that it does not have.

    `who`: the member id in the request: the actor's own, none, an unknown one, its former one, or another actor's by
    number. `instance`: the group instance id, the same way. `generation`: that of the last answer, none (-1), or a
    number to add to it. `version`: counted from the oldest common version, modulo their number. `variant` selects the
    contents of the request (protocols, assignments, offsets). `extra` adds to a heartbeat of a streams group nothing,
    tags of the client, offsets of tasks, or both. `brief`: the member's timeouts are shorter than a `wait`.
    `again`: a joiner adopts the id of MEMBER_ID_REQUIRED and joins at once.
    """

    do: str
    actor: int = 0
    who: str = "own"
    instance: str = "own"
    generation: str = "own"
    version: int = 99
    variant: int = 0
    extra: int = 0
    brief: bool = False
    again: bool = True

    def __str__(self) -> str:
        values = [f"{each.name}={getattr(self, each.name)}" for each in fields(self)[2:]]
        usual = {f"{each.name}={each.default}" for each in fields(self)[2:]}
        return " ".join([f"m{self.actor}", self.do, *(text for text in values if text not in usual)])


Script = tuple[Step, ...]


def formation(actors: Sequence[int], brief: bool, version: int, variant: int, loose: int) -> list[Step]:
    """Return steps that bring these actors into one generation and sync all but the last `loose`."""
    joins = [Step("join", actor, version=version, variant=variant, brief=brief) for actor in actors]
    rejoins = joins[: len(actors) - 1] if len(actors) > 1 else []
    syncs = [Step("sync", actor, version=version) for actor in actors]
    return [*joins, *rejoins, *syncs[: len(syncs) - loose]]


def entrance(kind: str, actors: Sequence[int], version: int, variant: int, rounds: int) -> list[Step]:
    """Return steps that bring these actors into one group with a server-side assignor, and follow its assignment."""
    enter, beat = _ENTRANCES[kind]
    enters = [Step(enter, actor, version=version, variant=variant) for actor in actors]
    return [*enters, *(Step(beat, actor, version=version, variant=1) for _ in range(rounds) for actor in actors)]


def scripts(protocols: Sequence[str] = PROTOCOLS) -> SearchStrategy[Script]:
    """Return random scripts, for Hypothesis to draw and shrink; consumer scripts also use the classic protocol."""
    from hypothesis import strategies as st

    actor = st.sampled_from(range(len(ACTORS)))
    version = st.sampled_from([99, 0, 1, 2, 3, 4, 5, 6, 7])
    mostly_own = ["own"] * 8

    def steps(doings: Sequence[str], brief: bool, *, extra: bool = False) -> SearchStrategy[list[Step]]:
        return st.builds(
            Step,
            do=st.sampled_from(doings),
            actor=actor,
            who=st.sampled_from([*mostly_own, "none", "unknown", "former", "0", "1", "2", "3", "4"]),
            instance=st.sampled_from([*mostly_own, "none", "0", "2", "3"]),
            generation=st.sampled_from([*mostly_own, "none", "-1", "+1"]),
            version=version,
            variant=st.integers(0, 5),
            extra=st.sampled_from([0, 0, 0, 1, 2, 3]) if extra else st.just(0),
            brief=st.booleans() if brief else st.just(False),
            again=st.sampled_from([True, True, True, False]),
        ).map(lambda step: [step])

    def entrances(kind: str) -> SearchStrategy[list[Step]]:
        return st.builds(
            entrance,
            st.just(kind),
            st.lists(actor, min_size=1, max_size=3, unique=True),
            version,
            st.sampled_from([0, 0, 0, 1, 3]),
            st.sampled_from([0, 1, 2, 2]),
        )

    def formations(brief: bool) -> SearchStrategy[list[Step]]:
        return st.builds(
            formation,
            st.lists(actor, min_size=1, max_size=3, unique=True),
            st.booleans() if brief else st.just(False),
            version,
            st.sampled_from([0, 0, 0, 1, 2]),
            st.sampled_from([0, 0, 0, 1, 2]),
        )

    of_classic = DOINGS[: DOINGS.index("enter")]
    usual = [each for each in of_classic if each != "wait"]
    weighted = [*usual, "join", "join", "sync", "sync", "leave", "heartbeat"]
    offsets = ["commit", "fetch", "delete", "offset-delete"]
    beats = ["enter", "enter", "beat", "beat", "beat", "beat", "depart", *offsets]
    mixed = [*beats, "join", "join", "sync", "heartbeat", "leave"]
    others = ["join", "enter", "list", *offsets]
    sharing = ["share-join", "share-beat", "share-beat", "share-leave", "share-offsets", "share-alter", "share-forget"]
    streaming = ["stream-join", "stream-join", "stream-beat", "stream-beat", "stream-leave"]

    def assigned(kind: str, doings: Sequence[str], *more: SearchStrategy[list[Step]]) -> SearchStrategy[Any]:
        other = steps(doings, False, extra=kind == "streams")
        return st.lists(st.one_of(entrances(kind), *more, *[other] * 3), min_size=2, max_size=9)

    consumers = assigned("consumer", beats)
    both = assigned("consumer", mixed, formations(False))
    shares = assigned("share", [*sharing, *sharing, *sharing, *others])
    streams = assigned("streams", [*streaming, *streaming, *streaming, *others])
    quick = st.lists(st.one_of(formations(False), *[steps(weighted, False)] * 3), min_size=2, max_size=9)
    slow = st.lists(
        st.one_of(formations(True), *[steps(weighted, True)] * 2, st.just([Step("wait")])), min_size=3, max_size=7
    )

    def flat(phrases: list[list[Step]]) -> Script:
        script = [step for phrase in phrases for step in phrase]
        waits = [at for at, step in enumerate(script) if step.do == "wait"]
        return tuple(step for at, step in enumerate(script) if at not in waits[2:])

    kinds = {
        "classic": (quick, quick, quick, quick, slow),
        "consumer": (consumers, both),
        "share": (shares,),
        "streams": (streams,),
    }
    chosen: SearchStrategy[Script] = st.one_of(*(each for kind in protocols for each in kinds[kind])).map(flat)
    return chosen


def as_data(script: Script) -> list[dict[str, Any]]:
    """Return a script as plain data for a report."""
    return [asdict(step) for step in script]
