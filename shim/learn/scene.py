"""Scene of a lesson: a coordinator and puppets on virtual time, their actions, and the checks of the lesson's claims.

A pattern matches an event of the trace, the state of a group, or the last answer to a hand-written request.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import partial
from itertools import count
from typing import Any, Final, Self, TypeVar

from kafka_shim.apis.annotated import answer_pieces, lines, request_pieces
from kafka_shim.apis.profiles import PROFILES
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import decode_response_header, encode_request_header
from kafka_shim.apis.wire.types import Array, Nested, Type, bytes_, uuid
from kafka_shim.broker.batches import parse_batch
from kafka_shim.lab.puppets import Manner, Puppet
from kafka_shim.lab.scheduler import Link
from kafka_shim.lab.simulator import Simulation
from kafka_shim.learn.lesson import Unteachable
from kafka_shim.persistence.batch import Record, write_batch
from kafka_shim.server.frames import FrameHistory, FramePair
from kafka_shim.why.narration import Narrator

MOMENT: Final = 0.001
"""Seconds that pass after each line of `do`, so that its effects are complete."""
UNTIL_SECONDS: Final = 600.0
"""Longest wait of `until`, in seconds of the scene."""
_LOOK_SECONDS: Final = 0.1
_OF_BROKERS: Final = frozenset({"brokers", "broker", "coordinator", "produce", "topic", "fault", "loading"})
_SECONDS: Final = frozenset({"session", "rebalance", "heartbeat", "think"})
_LISTS: Final = frozenset({"protocols", "topics"})
_PUPPETS_NAMES: Final = {
    "session": "session_timeout",
    "rebalance": "rebalance_timeout",
    "heartbeat": "heartbeat_interval",
    "instance": "instance_id",
    **{name: name for name in ("think", "protocols", "topics", "group")},
}
_KEYS: Final = {api.name: key for key, api in APIS.items()}
T = TypeVar("T")

Pattern = Mapping[str, Any]


QUICK: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
"""Settings of each lesson that its front matter does not set: nothing waits without a reason."""


class Scene:
    """A scene as the front matter of a lesson configures it."""

    def __init__(
        self,
        *,
        group: str = "billing",
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        brokers: int = 1,
    ) -> None:
        self.group = group
        self.topics = dict(topics or {"orders": 4})
        settings = QUICK | dict(config or {})
        self.simulation = self._open(settings, brokers)
        self.puppets: dict[str, Puppet] = {}
        self.hands: dict[str, Hand] = {}
        self.frames = FrameHistory(self.simulation.cluster.nodes.values)
        self._in_scene(self.frames.start)
        self._began = self.simulation.now
        self._narrator = Narrator()
        self._clients: dict[str, str] = {}
        """By member id, the client that has or had it."""
        self._member_events = 0
        self._last_event = 0
        self._since = 0

    def _open(self, settings: Mapping[str, str], brokers: int) -> Simulation:
        return Simulation(brokers=brokers, topics=self.topics, config=settings, watched=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the processes of the scene; on virtual time there are none."""

    # Actions

    def _in_scene(self, function: Callable[[], T]) -> T:
        """Run a function in the coordinator's thread."""
        return function()

    def step(self) -> None:
        """Begin a step: `events` and `story` start here."""
        self._since = self.simulation.history.seen

    def do(self, line: str) -> None:
        """Execute one line of `do`. Raises Unteachable."""
        subject, _, rest = line.strip().partition(" ")
        verb, _, words = rest.partition(" ")
        try:
            if subject == "wait":
                self._wait(float(verb))
            elif subject == "until":
                self._until(rest)
            elif subject in _OF_BROKERS:
                self._in_scene(partial(self._to_brokers, subject, verb, words, rest))
            else:
                self._verb(subject, verb)(subject, words)
        except (KeyError, ValueError, TypeError, tomllib.TOMLDecodeError) as error:
            raise Unteachable(f"{line!r} cannot be done: {error}.") from error
        self._in_scene(lambda: self.simulation.cluster.settle(self.simulation.now))
        self.simulation.run(MOMENT)

    def _verb(self, subject: str, verb: str) -> Callable[[str, str], None]:
        """Return the action of a verb. Raises ValueError with the verbs, or the members, that there are."""
        does = self._verbs.get(verb)
        if does is None:
            near = get_close_matches(verb, self._verbs, 1)
            hint = f", did you mean {near[0]}?" if near else ""
            raise ValueError(f"no member {verb or 'does nothing'}{hint} (A member {', '.join(self._verbs)})")
        names = self._names
        if verb not in ("joins", "sends") and subject not in names:
            members = f"there are {', '.join(names)}" if names else "there is none yet"
            raise ValueError(f"there is no member {subject} ({members})")
        return does

    @property
    def _names(self) -> Collection[str]:
        """Names of the members."""
        return self.puppets

    def _wait(self, seconds: float) -> None:
        self.simulation.run(seconds)

    def _until(self, words: str) -> None:
        limit = self.simulation.now + UNTIL_SECONDS
        while not self._matches(words):
            if self.simulation.now > limit:
                raise ValueError(f"the group is not as `until` says within {UNTIL_SECONDS:.0f} s")
            self.simulation.run(_LOOK_SECONDS)

    def _matches(self, words: str) -> bool:
        return Scene.fits(self, tomllib.loads(f"x = {words}")["x"])

    def _to_brokers(self, subject: str, verb: str, words: str, rest: str) -> None:
        cluster = self.simulation.cluster
        if subject == "brokers":
            for node in cluster.nodes.values():
                if not node.up:
                    cluster.restart_broker(node.id)
        elif subject == "broker":
            self._broker(int(verb), words)
        elif subject == "coordinator":
            self._broker(cluster.ownership.owner_of(self.group).id, rest)
        elif subject == "produce":
            self._produce(verb, int(words))
        elif subject == "topic":
            cluster.create_topic(verb, int(words))
        elif subject == "fault":
            self.simulation.faults.declare(tomllib.loads(f"x = {rest}")["x"])
        else:
            cluster.loader.seconds = float(verb)

    @property
    def _verbs(self) -> dict[str, Callable[[str, str], None]]:
        return {
            "joins": self._joins,
            "rejoins": lambda name, _: self.puppets[name].join(),
            "leaves": lambda name, _: self.puppets[name].leave(),
            "crashes": lambda name, _: self.puppets[name].crash(),
            "falls-silent": lambda name, _: self.puppets[name].silence(),
            "commits": self._commits,
            "sends": self._sends,
        }

    def _joins(self, name: str, words: str) -> None:
        script: dict[str, Any] = {"group": self.group, "topics": list(self.topics), "client_id": name}
        manner: dict[str, Any] = {}
        for key, value in options_of(words).items():
            if key in _PUPPETS_NAMES:
                script[_PUPPETS_NAMES[key]] = value
            else:
                manner[key.replace("-", "_")] = float(value) if value else True
        self.puppets[name] = self.simulation.puppet(**script, manner=Manner(**manner))

    def _commits(self, name: str, words: str) -> None:
        partition, *more = words.split()
        where, _, offset = partition.partition("=")
        topic, _, number = where.rpartition("-")
        options = {key: int(value) for key, _, value in (word.partition("=") for word in more)}
        self.puppets[name].commit({(topic, int(number)): int(offset)}, **options)

    def _sends(self, name: str, words: str) -> None:
        api, _, fields = words.partition(" ")
        hand = self.hands.get(name)
        if hand is None:
            hand = self.hands[name] = Hand(self.simulation, name, self.group, self.hands)
        hand.send(api, tomllib.loads(f"x = {fields or '{}'}")["x"])

    def _produce(self, partition: str, records: int) -> None:
        name, _, number = partition.rpartition("-")
        topic = self.simulation.cluster.topics.named(name)
        where = None if topic is None else topic.partition(int(number))
        if topic is None or where is None:
            raise ValueError(f"there is no partition {partition}")
        for value in range(records):
            data = write_batch([Record(0, 0, None, str(value).encode(), ())])
            where.log.append(parse_batch(data, max_bytes=topic.max_message_bytes), None, self.simulation.now)
        self.simulation.cluster.topics.settle(self.simulation.now)

    def _broker(self, number: int, does: str) -> None:
        cluster = self.simulation.cluster
        match does.split():
            case ["dies"]:
                cluster.kill_broker(number)
            case ["stops"]:
                cluster.stop_broker(number)
            case ["starts"]:
                cluster.restart_broker(number)
            case ["takes", group]:
                cluster.move_partition(cluster.ownership.owner_of(group).groups.partition_of(group), number)
            case _:
                raise ValueError(f"a broker dies, stops, starts or takes a group, it does not {does!r}")

    # Patterns

    def events(self) -> list[dict[str, Any]]:
        """Return the events since the step began."""
        return [entry.event for entry in self.simulation.history.since(self._since)]

    def fits(self, pattern: Pattern) -> bool:
        """True if a pattern matches: an event since the step began, the present state of a group, or a last answer."""
        if "event" in pattern:
            self._meet()
            times = pattern.get("times")
            fitting = sum(self._event_fits(pattern, event) for event in self.events())
            return fitting == times if times is not None else fitting > 0
        if "answer_to" in pattern:
            rest = {key: value for key, value in pattern.items() if key != "answer_to"}
            return _within(rest, self.hands[pattern["answer_to"]].answer)
        return self._state_fits(pattern)

    def _meet(self) -> None:
        """Learn the client of each member id from `member` events: other events of newer protocols have the member id
        alone.
        """
        for number, _, event in self.simulation.history.since(self._member_events):
            self._member_events = number
            if event["event"] == "member":
                self._clients[event["member_id"]] = event["client_id"]

    def _event_fits(self, pattern: Pattern, event: Mapping[str, Any]) -> bool:
        for key, value in pattern.items():
            if key == "times":
                continue
            if key == "who":
                names = [event.get(field) or "" for field in ("client_id", "member_id", "member", "trigger", "leader")]
                names += [self._clients[name] for name in names if name in self._clients]
                if not any(name == value or name.startswith(f"{value}-") for name in names):
                    return False
            elif not _within(value, event.get(key)):
                return False
        return True

    def _state_fits(self, pattern: Pattern) -> bool:
        return _within(dict(pattern), self._state(pattern))

    def truth(self, pattern: Pattern) -> dict[str, Any]:
        """Return what is true now in place of a pattern of a state or an answer; empty for one of an event."""
        if "event" in pattern:
            return {}
        is_answer = "answer_to" in pattern
        state = self.hands[pattern["answer_to"]].answer if is_answer else self._state(pattern)
        return {key: state.get(key) for key in pattern if key != "answer_to"}

    def _state(self, pattern: Pattern) -> dict[str, Any]:
        group = self.simulation.group(pattern.get("group", self.group))
        owned = {self._name(member.member_id, member.client_id): member.owned for member in group.members}
        return {
            "group": group.group,
            "state": group.state,
            "generation": group.generation,
            "members": len(group.members),
            "protocol": group.protocol,
            "leader": next((each.client_id for each in group.members if each.member_id == group.leader), None),
            "owned": {name: [f"{topic}-{p}" for topic, each in by.items() for p in each] for name, by in owned.items()},
            "balance": sorted(sum(map(len, by.values())) for by in owned.values()),
            "puppets": {
                name: {"generation": puppet.generation, "errors": [int(error) for _, error in puppet.errors]}
                for name, puppet in self.puppets.items()
            },
        }

    @staticmethod
    def _name(member_id: str, client_id: str) -> str:
        return client_id or member_id

    # Output

    def since_beginning(self, now: float) -> float:
        """Return the seconds since the lesson began."""
        return now - self._began

    def story(self) -> list[str]:
        """Return the lines of the story since the last call, with seconds since the lesson began."""
        lines = []
        for number, now, event in self.simulation.history.since(self._last_event):
            self._last_event = number
            for line in self._narrator.lines(event, now):
                lines.append(f"{now - self._began:9.3f} s  {line.text}")
        return lines

    def exchanges(self, api: str | None = None) -> list[str]:
        """Return the requests about groups since the step began, with the errors of their answers."""
        requests = []
        for number, now, event in self.simulation.history.since(self._since):
            if number and event["event"] == "exchange" and api in (None, event["api"]):
                waited = now - event["arrived"]
                parked = f", after {waited:.3f} s" if waited > MOMENT else ""
                requests.append(
                    f"{now - self._began:9.3f} s  {event['client_id']:10} {event['api']} v{event['version']}"
                    f" -> error {event['error']}{parked}"
                )
        return requests

    def frames_of(self, api: str, who: str) -> FramePair:
        """Return the last request of an API by this client, with its answer. Raises Unteachable."""
        for pair in reversed(list(self.frames)):
            if (pair.api, pair.client_id) == (api, who):
                return pair
        raise Unteachable(f"{who} has sent no {api}.")

    def hex(self, api: str, who: str) -> list[str]:
        """Return the last request of an API by this client and its answer, as annotated hex. Raises Unteachable."""
        pair = self.frames_of(api, who)
        pieces, header = request_pieces(pair.request)
        assert header is not None
        return [
            f"{api} v{header.version}, the request of {who}",
            *lines(pair.request, pieces),
            "",
            "its answer" if pair.answer else "it has no answer yet",
            *lines(pair.answer, answer_pieces(pair.answer, header.key, header.version) if pair.answer else []),
        ]


def options_of(words: str) -> dict[str, Any]:
    """Parse the options of a line: seconds become numbers, options with several values lists, all others text."""
    options: dict[str, Any] = {}
    for word in words.split():
        key, _, value = word.partition("=")
        options[key] = float(value) if key in _SECONDS else value.split(",") if key in _LISTS else value
    return options


class Hand:
    """Sender of hand-written requests, one client. `answer` is the last answer as plain values.

    In a request `"$NAME"` is the field NAME of the newest answer that had one, `"$CLIENT.NAME"` that of another client
    among `hands`; a topic id is written as the name.
    """

    def __init__(self, simulation: Simulation, name: str, group: str, hands: Mapping[str, Hand]) -> None:
        self.answer: dict[str, Any] = {}
        self._simulation = simulation
        self._name = name
        self._group = group
        self._hands = hands
        self._memory: dict[str, Any] = {}
        self._link: Link | None = None
        self._waiting: tuple[int, int] = (0, 0)
        self._numbers = count()

    def send(self, api: str, fields: Mapping[str, Any]) -> None:
        """Send a request with these fields; the others have their defaults."""
        cluster = self._simulation.cluster
        key = _KEYS[api]
        version = PROFILES[cluster.config.release][key][1]
        request = self._filled(APIS[key].request, {"group_id": self._group} | dict(fields))
        data = frame(encode_request_header(key, version, next(self._numbers), self._name) + request.encode(version))
        if self._link is None or not self._link.is_open:
            node = cluster.ownership.owner_of(self._group)
            self._link = Link(self._simulation.scheduler, self, node, self._name)
        self._waiting = key, version
        self._link.ask(data, self._simulation.now)

    def receive(self, link: Link, data: bytes, now: float) -> None:
        """See `Client.receive`."""
        key, version = self._waiting
        _, offset = decode_response_header(data[4:], key, version)
        answer, _ = APIS[key].response.decoder(version)(data, 4 + offset)
        self.answer = self._plain(answer)
        self._memory |= self.answer

    def disconnected(self, link: Link, now: float) -> None:
        """See `Client.disconnected`."""
        self._link = None

    def _filled(self, cls: Any, values: Mapping[str, Any]) -> Any:
        types = {field.name: field.type for field in cls.fields}
        return cls(**{name: self._value(types[name], value) for name, value in values.items() if name in types})

    def _value(self, type: Type[Any], value: Any) -> Any:
        if isinstance(type, Array):
            return [self._value(type.element, each) for each in value]
        if isinstance(type, Nested):
            return self._filled(type.struct, value)
        if isinstance(value, str) and value.startswith("$"):
            client, _, name = value[1:].rpartition(".")
            return (self._hands[client] if client else self)._memory[name]
        if type is bytes_:
            return str(value).encode()
        if type is uuid:
            topic = self._simulation.cluster.topics.named(value)
            if topic is None:
                raise ValueError(f"there is no topic {value}")
            return topic.id
        return value

    def _plain(self, value: Any) -> Any:
        fields = getattr(type(value), "fields", None)
        if fields is not None:
            return {field.name: self._plain(getattr(value, field.name)) for field in fields}
        if isinstance(value, list):
            return [self._plain(each) for each in value]
        if isinstance(value, bytes) and len(value) == 16:
            topics = self._simulation.cluster.topics.all()
            return next((topic.name for topic in topics if topic.id == value), value.hex())
        return value


def _within(pattern: Any, value: Any) -> bool:
    """True if `value` has everything in `pattern`; `{min=..., max=...}` bounds a number, false matches null."""
    if isinstance(pattern, Mapping):
        if pattern and pattern.keys() <= {"min", "max"}:
            return (
                isinstance(value, (int, float))
                and pattern.get("min", value) <= value
                and value <= pattern.get("max", value)
            )
        return isinstance(value, Mapping) and all(_within(each, value.get(key)) for key, each in pattern.items())
    if isinstance(pattern, list) and isinstance(value, list) and len(pattern) == len(value):
        return all(_within(each, other) for each, other in zip(pattern, value, strict=True))
    return not value if pattern is False else bool(pattern == value)
