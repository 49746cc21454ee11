"""`ClientLogs`: members in the logs of clients: their ids, their ends, and the reasons of these.

A client is one process of a library in one file. Its member id of a generation joins its log with that of the broker:
so a departure without a reason gets the client's, and the difference of two clocks shows. `client_stories.py` tells a
story from these logs alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from kafka_shim.sources.aiokafka import AIOKAFKA
from kafka_shim.sources.client_program import PROGRAM, ClientProgram
from kafka_shim.sources.go_clients import FRANZ_GO, SARAMA
from kafka_shim.sources.java import JAVA, STREAMS
from kafka_shim.sources.java_consumer import JAVA_CONSUMER
from kafka_shim.sources.kafka_python import KAFKA_PYTHON
from kafka_shim.sources.kafkajs import KAFKAJS
from kafka_shim.sources.librdkafka import LIBRDKAFKA
from kafka_shim.sources.reasons import bare
from kafka_shim.sources.signs import Sign, SignName
from kafka_shim.trace.clients import Library
from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.members import client_id_of

PROGRAMS: Final[tuple[ClientProgram, ...]] = (
    *(JAVA, JAVA_CONSUMER, STREAMS, LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA),
    *(FRANZ_GO, SARAMA, KAFKAJS),
)
"""The programs of clients, in the order in which a line tries them."""
OVERRUN: Final = "consumer poll timeout has expired."
"""Kafka's reason of a member that leaves because its application did not poll in time."""
CLOSED: Final = "the consumer is being closed"
NO_GENERATION: Final = "-1"
_NOT_GIVEN: Final = frozenset({"", "not provided"})
_GOES_ON: Final = frozenset(
    {SignName.COMMIT_FAILED, SignName.PARTITIONS_REVOKED, SignName.ASKS_TO_JOIN, SignName.THROWN_OUT}
)
"""Signs of aiokafka after it left because of its poll interval; after a close there is none."""
_LOST: Final = frozenset({SignName.SESSION_LOST, SignName.THROWN_OUT, SignName.REPLACED})
_UNKNOWN: Final = ("UNKNOWN_MEMBER", "UNKNOWNMEMBER", "NOT_RECOGNIZED", "NOT_AWARE_OF_THIS_MEMBER")
"""Words of clients about a member id that the coordinator does not know."""
_LEAVING: Final = frozenset({"PREPARE_LEAVING", "LEAVING"})
_IN_GROUP: Final = frozenset({"JOINING", "RECONCILING", "ACKNOWLEDGING", "STABLE"})
_SOON_MS: Final = 3_000
"""librdkafka checks its poll interval every second, and its leave is on its way for a while."""
SHORTEST_SESSION_MS: Final = 6_000
"""Kafka's default of `group.min.session.timeout.ms`: no session runs out twice within it."""
_AGAIN_MS: Final = 1_000
QUARTER_MS: Final = 15 * 60 * 1000
"""Zones differ by full quarters of an hour."""


class Ending(NamedTuple):
    """The end of a membership as the client saw it: Kafka's words for the reason, empty if unknown, and its line."""

    reason: str
    sign: Sign


@dataclass
class Membership:
    """A member id of a client, with the signs of its generations."""

    member_id: str
    generations: dict[int, Sign] = field(default_factory=dict)
    ending: Ending | None = None
    expulsion: Sign | None = None
    """The sign that the coordinator had given it up."""
    is_nameless: bool = False
    """True if its log does not have its id: `member_id` is a name of ours."""


@dataclass
class Client:
    """A client in one file, from its start on. `client_id` is empty if its lines do not have it."""

    file: str
    client_id: str
    program: str
    version: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings that it printed when it started, by Kafka's names."""
    group: str = ""
    instance: str = ""
    memberships: list[Membership] = field(default_factory=list)
    signs: list[Sign] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The client id; without it that of its member id; else its file."""
        if self.client_id:
            return self.client_id
        first = next((each.member_id for each in self.memberships if not each.is_nameless), "")
        return client_id_of(first) or first or self._nameless

    @property
    def _nameless(self) -> str:
        return f"the client of {self.file}"

    @property
    def library(self) -> Library:
        """Its library."""
        return next((each.library for each in PROGRAMS if each.name == self.program), Library.UNKNOWN)

    @property
    def poll_interval_ms(self) -> int:
        """Its poll interval, -1 if no line tells it."""
        of_line = next((int(each.fields["interval_ms"]) for each in self.signs if "interval_ms" in each.fields), -1)
        return int(self.settings.get("max.poll.interval.ms", of_line))

    @property
    def session_timeout_ms(self) -> int | None:
        """Its session timeout, None if no line tells it."""
        timeout = self.settings.get("session.timeout.ms")
        return None if timeout is None else int(timeout)

    def of(self, *names: SignName) -> list[Sign]:
        """Return its signs of these names."""
        return [each for each in self.signs if each.name in names]

    @property
    def asks(self) -> list[Sign]:
        """Return the signs that it asks to join."""
        return [
            each
            for each in self.signs
            if each.name is SignName.ASKS_TO_JOIN
            or (each.name is SignName.TRANSITION and each.fields["after"] == "JOINING")
        ]

    def add(self, sign: Sign) -> None:
        """Handle the next sign of this client."""
        self.signs.append(sign)
        self.group = sign.group or self.group
        self.instance = bare(sign.fields.get("instance", self.instance))
        take = getattr(self, f"_{sign.name.lower()}", None)
        if take is not None:
            take(sign)
        elif sign.name in _LOST:
            if not self.memberships and is_expulsion(sign):
                # The log begins in the middle of its life.
                self.membership(sign.member)
            if self.memberships and self.memberships[-1].expulsion is None:
                self.memberships[-1].expulsion = sign
        self._aiokafka(sign)

    def membership(self, member_id: str) -> Membership:
        """Return the membership of this id, the newest one without an id; create it if it is new."""
        last = self.memberships[-1] if self.memberships else None
        if not member_id:
            if last is not None and last.ending is None and (last.expulsion is None or not last.is_nameless):
                return last
            return self._add_nameless()
        membership = next((each for each in reversed(self.memberships) if each.member_id == member_id), None)
        if membership is None and last is not None and last.is_nameless and not (last.ending or last.expulsion):
            # Its first lines do not have its id.
            last.member_id, last.is_nameless = member_id, False
            return last
        # A consumer of KIP-848 returns under its id.
        if membership is None or membership.ending is not None:
            membership = Membership(member_id)
            self.memberships.append(membership)
        return membership

    def _add_nameless(self) -> Membership:
        number = sum(each.is_nameless for each in self.memberships)
        name = f"{self._nameless}, {number + 1}" if number else self._nameless
        self.memberships.append(Membership(name, is_nameless=True))
        return self.memberships[-1]

    def _in_generation(self, sign: Sign) -> None:
        # KafkaJS does not print it: `client_rounds.py` counts generations by their times.
        generation = int(sign.fields.get("generation", -(sign.time or 0)))
        self.membership(sign.member).generations.setdefault(generation, sign)

    def _synced(self, sign: Sign) -> None:
        # A log that begins between the two answers, or was cut.
        if not sign.fields["generation"].startswith("-") and not any(each.generations for each in self.memberships):
            self._in_generation(sign)

    def _id_received(self, sign: Sign) -> None:
        if sign.member:
            self.membership(sign.member)

    def _transition(self, sign: Sign) -> None:
        after, epoch = sign.fields["after"], int(sign.fields["epoch"])
        self.program = sign.fields[PROGRAM]
        if after in _IN_GROUP:
            membership = self.membership(sign.member)
            if epoch > 0:
                membership.generations.setdefault(epoch, sign)
        elif after in _LEAVING and self.memberships:
            self._end(CLOSED, sign)

    def _poll_expired(self, sign: Sign) -> None:
        last = self.memberships[-1] if self.memberships else None
        if last is None or (last.is_nameless and not last.generations):
            # librdkafka tells its member id with debug=cgrp alone.
            self._add_nameless()
        self._end(OVERRUN, sign)

    def _leaves(self, sign: Sign) -> None:
        if sign.member and all(each.member_id != sign.member for each in self.memberships):
            self.membership(sign.member)
        if self.memberships:
            self._end(sign.fields.get("reason", ""), sign)

    def _end(self, reason: str, sign: Sign) -> None:
        last = self.memberships[-1]
        if last.ending is None:
            last.ending = Ending(reason, sign)

    def _aiokafka(self, sign: Sign) -> None:
        """Conclude the reason of aiokafka's departure, which has no line, from the sign after it."""
        ending = self.memberships[-1].ending if self.memberships else None
        if self.program != AIOKAFKA.name or ending is None or ending.sign.name != SignName.LEAVES or ending.reason:
            return
        if sign.name in _GOES_ON:
            self.memberships[-1].ending = ending._replace(reason=OVERRUN)


def is_expulsion(sign: Sign) -> bool:
    """True if a sign shows that the session of a member ran out: by its own clock, or since its id is unknown."""
    error = sign.fields.get("error", "").upper().replace(" ", "_")
    return sign.name is SignName.SESSION_LOST or (
        sign.name is SignName.THROWN_OUT and (not error or any(word in error for word in _UNKNOWN))
    )


def _goes_on(losses: Sequence[int]) -> bool:
    """True if a client says at least once a second that its session is over, for longer than a session: several
    consumers in one process that lose theirs at once say so once each.
    """
    first = 0
    for now in range(1, len(losses)):
        first = now if losses[now] - losses[now - 1] > _AGAIN_MS else first
        if losses[now] - losses[first] >= SHORTEST_SESSION_MS:
            return True
    return False


def is_overrun(sign: Sign) -> bool:
    """True if a member says in its LeaveGroup that its application did not poll in time."""
    return sign.name is SignName.LEAVES and sign.fields.get("reason", "").startswith(OVERRUN)


class ClientLogs:
    """All clients of the logs. Signs come in the order of each file."""

    def __init__(self, signs: Iterable[Sign] = ()) -> None:
        self.clients: list[Client] = []
        self._present: dict[tuple[str, str], Client] = {}
        self._versions: dict[str, str] = {}
        self._settings: dict[str, dict[str, str]] = {}
        for sign in signs:
            self.add(sign)

    def add(self, sign: Sign) -> None:
        """Handle the next sign of a client."""
        file = sign.line.file
        if sign.name == SignName.SETTING:
            self._settings.setdefault(file, {})[sign.fields["name"]] = sign.fields["value"]
            return
        if sign.name == SignName.VERSION:
            # A process starts: the clients of its file up to now are of the one before.
            self._versions[file] = sign.fields["version"]
            if "client_id" not in sign.fields:
                return
        key = file, sign.fields.get("client_id", "")
        client = self._present.get(key)
        if client is None or (file in self._versions and client.signs and client.version):
            version = self._versions.pop(file, "")
            client = self._present[key] = Client(file, key[1], sign.fields[PROGRAM], version)
            settings = self._settings.get(file, {})
            if settings.get("client.id") == client.client_id:
                client.settings = self._settings.pop(file)
            self.clients.append(client)
        elif file in self._versions:
            client.version = self._versions.pop(file)
        client.add(sign)

    def of_group(self, group: str) -> list[Client]:
        """Return the clients of a group, and those whose lines name no group."""
        return [each for each in self.clients if each.group in ("", group)]

    @cached_property
    def by_member(self) -> dict[str, Client]:
        """The client of each member id; all signs have been added by then."""
        return {
            each.member_id: client for client in self.clients for each in client.memberships if not each.is_nameless
        }

    @cached_property
    def _endings(self) -> dict[str, list[Ending]]:
        """The ends of memberships by member id, or by client id if the client does not print its member id."""
        endings: dict[str, list[Ending]] = {}
        for client in self.clients:
            for each in client.memberships:
                if each.ending is not None:
                    key = client.client_id if each.is_nameless else each.member_id
                    endings.setdefault(key, []).append(each.ending)
        return endings

    def ending(self, member_id: str, at: int) -> Ending | None:
        """Return the end of a member that the broker saw leave at `at`, milliseconds since 1970; None without one.

        A client that does not print its member id is recognised by its client id, the beginning of the member id, and
        by the time.
        """
        endings = self._endings.get(member_id)
        if endings:
            return min(endings, key=lambda each: abs((each.sign.time or at) - at))
        nameless = self._endings.get(client_id_of(member_id), [])
        near = [each for each in nameless if each.sign.time is not None and abs(at - each.sign.time) <= _SOON_MS]
        return near[0] if len(near) == 1 else None

    def enriched(self, sign: Sign) -> Sign:
        """Return a broker's sign with the client id of its member, and the reason of its departure, by its client."""
        client = self.by_member.get(sign.member)
        fields = dict(sign.fields)
        if client is not None and client.name:
            fields["client_id"] = client.name
        if sign.name is SignName.LEFT and sign.fields.get("reason", "") in _NOT_GIVEN:
            ending = self.ending(sign.member, sign.time or 0)
            if ending is not None and ending.reason:
                fields["reason"] = ending.reason
        return sign._replace(fields=fields)

    def describe_members(self, history: GroupHistory) -> None:
        """Give the members of a group the libraries that logged them, with their versions, since advice speaks of a
        library's settings and faults.
        """
        # librdkafka tells its member id with debug=cgrp alone, and aiokafka and kafka-python to 2.0 only at times.
        of_group = self.of_group(history.group)
        nameless = {each.name: each for each in of_group}
        ids = {each.member_id: client for client in of_group for each in client.memberships if each.is_nameless}
        by_id = self.by_member | ids
        for member in history.members.values():
            client = by_id.get(member.member_id) or nameless.get(member.client_id)
            if client is None:
                continue
            member.library = client.library
            member.has_log = member.member_id in self.by_member
            member.version = client.version or member.version
            errors = (each.fields.get("error", "") for each in client.of(SignName.SESSION_LOST))
            member.last_error = next(filter(None, errors), "")
            losses = sorted(each.time for each in client.of(SignName.SESSION_LOST) if each.time is not None)
            member.repeats_loss = _goes_on(losses)
            synced = client.of(SignName.SYNCED)
            member.lost_generation = any(each.fields.get("generation") == NO_GENERATION for each in synced)

    def times(self) -> dict[tuple[str, int], int]:
        """Return the time of each group and generation, by the first file that has a zone, else by the first file."""
        by_file: dict[str, dict[tuple[str, int], int]] = {}
        zoned: dict[str, bool] = {}
        for client in self.clients:
            for each in client.memberships:
                for generation, sign in each.generations.items():
                    if sign.time is not None:
                        by_file.setdefault(client.file, {}).setdefault((client.group, generation), sign.time)
                        zoned[client.file] = sign.line.zoned
        first = next((file for file in by_file if zoned[file]), next(iter(by_file), ""))
        return by_file.get(first, {})

    def offsets(self, times: Mapping[tuple[str, int], int]) -> dict[str, int]:
        """Return the milliseconds by which a file's clock is ahead, in full quarters of an hour, for files that differ.

        `times` has the time of each group and generation by the broker, milliseconds since 1970.
        """
        votes: dict[str, Counter[int]] = {}
        for client in self.clients:
            for each in client.memberships:
                for generation, sign in each.generations.items():
                    at = times.get((client.group, generation))
                    if at is not None and sign.time is not None and not sign.line.zoned:
                        quarters = round((sign.time - at) / QUARTER_MS) * QUARTER_MS
                        votes.setdefault(client.file, Counter())[quarters] += 1
        most = {file: of_file.most_common(1)[0][0] for file, of_file in votes.items()}
        return {file: offset for file, offset in most.items() if offset}


def offset_text(file: str, offset_ms: int) -> str:
    """Return a sentence about the offset of a file's clock."""
    hours, minutes = divmod(abs(offset_ms) // 60_000, 60)
    way = "ahead of" if offset_ms > 0 else "behind"
    return f"The clock of {file} is {hours}:{minutes:02} h {way} the broker's; its lines were moved."
