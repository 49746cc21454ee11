"""Random groups for the tests of assignors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from hypothesis import strategies as st

from kafka_shim.groups.assignors.spec import GroupSpec, MemberSpec, Partitions, group_spec
from kafka_shim.groups.share.assignor import assign as share
from kafka_shim.groups.streams import assignor as streams
from kafka_shim.groups.streams.records import NO_TASKS

# Ids on both sides of the bound from which Java reads a number as negative.
TOPICS = [bytes([first, *[0] * 14, number]) for number, first in enumerate((0x10, 0x90, 0x70, 0xF0, 0x20, 0x80))]


def sizes(assignments: dict[str, Partitions] | object) -> dict[str, int]:
    assert isinstance(assignments, dict)
    return {member_id: sum(map(len, assignment.values())) for member_id, assignment in assignments.items()}


def pairs(assignment: Partitions) -> set[tuple[bytes, int]]:
    return {(topic, partition) for topic, partitions in assignment.items() for partition in partitions}


def kept(spec: GroupSpec, assignments: object) -> int:
    """Partitions that stay with their member."""
    assert isinstance(assignments, dict)
    return sum(len(pairs(spec.members[id].assignment) & pairs(new)) for id, new in assignments.items())


@st.composite
def group_specs(draw: st.DrawFn, homogeneous: bool | None = None, most_members: int = 8) -> GroupSpec:
    """A group with any former assignment that could be: of other topics too, uneven, incomplete."""
    counts = {topic: draw(st.integers(1, 12)) for topic in TOPICS[: draw(st.integers(1, len(TOPICS)))]}
    subscribed = st.frozensets(st.sampled_from(list(counts)), min_size=1)
    same = draw(subscribed) if homogeneous or (homogeneous is None and draw(st.booleans())) else None
    ids = draw(
        st.lists(
            st.text("abc-\U0001f600\uff21", min_size=1, max_size=3), min_size=1, max_size=most_members, unique=True
        )
    )
    assigned: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in ids}
    stickiness = draw(st.sampled_from(["fresh", "any", "one sided"]))
    owner = st.just(ids[0]) if stickiness == "one sided" else st.sampled_from(ids)
    if stickiness != "fresh":
        for topic, count in counts.items():
            for partition in range(count):
                if draw(st.integers(0, 4)):
                    assigned[draw(owner)].setdefault(topic, set()).add(partition)
    members = {
        member_id: MemberSpec(
            same if same is not None else draw(subscribed),
            {topic: frozenset(partitions) for topic, partitions in assigned[member_id].items()},
            draw(st.none() | st.just(f"i-{member_id}")),
        )
        for member_id in ids
    }
    return group_spec(members, counts)


class ShareSpec(NamedTuple):
    """A share group: its members' topics, the assignable partitions, and the assignment before."""

    subscriptions: Mapping[str, AbstractSet[bytes]]
    partitions: Mapping[bytes, Sequence[int]]
    previous: Mapping[str, Partitions]

    @property
    def homogeneous(self) -> bool:
        return len(set(map(frozenset, self.subscriptions.values()))) == 1


@st.composite
def share_specs(draw: st.DrawFn, homogeneous: bool) -> ShareSpec:
    """A group that is new, or that some members have joined and left since its last assignment."""
    partitions = {topic: range(draw(st.integers(1, 6))) for topic in TOPICS[: draw(st.integers(1, 4))]}
    subscribed = st.frozensets(st.sampled_from(list(partitions)), min_size=1)
    same = draw(subscribed)
    # Members by number: the first were there before, the last are there now.
    before, now = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    topics = {
        f"m{number}": same if homogeneous else draw(subscribed)
        for number in range(before + draw(st.integers(1, 5)) + now)
    }
    names = list(topics)
    previous: Mapping[str, Partitions] = {}
    if draw(st.booleans()):
        old = ShareSpec({name: topics[name] for name in names[: len(names) - now]}, partitions, {})
        previous = share(*old, homogeneous=old.homogeneous)
    subscriptions = {name: topics[name] for name in names[before:]}
    wanted = frozenset().union(*subscriptions.values())
    return ShareSpec(
        subscriptions,
        {topic: numbers for topic, numbers in partitions.items() if topic in wanted},
        {name: each for name, each in previous.items() if name in subscriptions},
    )


class StreamsSpec(NamedTuple):
    """A streams group, as its assignor takes it."""

    members: Mapping[str, streams.MemberSpec]
    subtopologies: Mapping[str, streams.SubtopologySpec]
    standby_replicas: int


@st.composite
def streams_specs(draw: st.DrawFn) -> StreamsSpec:
    """A group that is new, or that some members have joined and left since its last assignment."""
    subtopologies = draw(
        st.dictionaries(
            st.sampled_from(["0", "1", "2"]),
            st.builds(streams.SubtopologySpec, st.integers(1, 6), st.booleans()),
            min_size=1,
        )
    )
    replicas = draw(st.integers(0, 2))
    members = {
        f"m{process}{number}": streams.MemberSpec(f"p{process}")
        for process, size in enumerate(draw(st.lists(st.integers(1, 3), min_size=1, max_size=5)))
        for number in range(size)
    }
    if draw(st.booleans()):
        gone = draw(st.sets(st.sampled_from(list(members)), max_size=len(members) - 1))
        strangers = {f"s{number}": streams.MemberSpec(f"t{number}") for number in range(draw(st.integers(0, 2)))}
        old = {id: member for id, member in members.items() if id not in gone} | strangers
        was = streams.assign(old, subtopologies, replicas)
        tasks = [(name, each) for name, of in subtopologies.items() if of.is_stateful for each in range(of.tasks)]
        reports = st.dictionaries(st.sampled_from(tasks), st.integers(0, 3)) if tasks else st.just({})
        members = {
            id: member._replace(tasks=was.get(id, NO_TASKS), offsets=draw(reports)) for id, member in members.items()
        }
    return StreamsSpec(members, subtopologies, replicas)
