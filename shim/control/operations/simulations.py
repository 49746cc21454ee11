"""A simulation over HTTP: groups of puppets in simulated time, played at once, apart from the coordinator.

Its size is bounded. `shim/lab/simulator.py` plays it with the same coordinator, the same bytes, and puppets of every
kind that a running coordinator has. The same body always has the same answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any, Final

import trio
from msgspec import Meta, field

from kafka_shim.control.operation import Answer, Body, Choice, Operation, Owned, TopicName
from kafka_shim.control.operations.acts import AnyAct, AnyPuppet, CreatePuppet, act, kind_of, script_of
from kafka_shim.control.operations.puppets import PuppetShown, puppet_shown
from kafka_shim.control.problems import Problem
from kafka_shim.control.workbench import Workbench
from kafka_shim.lab.puppet_kinds import start_puppet
from kafka_shim.lab.scheduler import Network
from kafka_shim.lab.simulator import START, Simulation
from kafka_shim.server.excerpts import shortened
from kafka_shim.trace.events import begins_rebalance, read_by

MOST_MEMBERS: Final = 50
MOST_STEPS: Final = 200
MOST_SECONDS: Final = 3_600
MOST_EVENTS: Final = 1_000
PATIENCE: Final = 20.0
"""Real seconds that a simulation takes at most."""
_KEPT: Final = read_by("simulation")

Moment = Annotated[float, Meta(ge=0, le=MOST_SECONDS, description="Seconds from the start.")]
Experiment = Annotated[str, Meta(min_length=1, max_length=249)]
Delay = Annotated[float, Meta(ge=0, le=60)]


class SimulatedNetwork(Body, kw_only=True):
    """The network between members and coordinators: each frame takes between these seconds."""

    least: Delay = 0.0
    most: Delay = 0.0
    loss: Annotated[float, Meta(ge=0, le=0.5, description="Which part of the frames gets lost.")] = 0.0


class SimulatedMember(Body, kw_only=True):
    """A member, and when it joins."""

    puppet: AnyPuppet
    at: Moment = 0.0


class SimulatedStep(Body, kw_only=True):
    """A member's act at a moment."""

    at: Moment
    member: Annotated[int, Meta(ge=0, lt=MOST_MEMBERS, description="Its place in `members`.")]
    act: AnyAct


class Simulate(Body, kw_only=True):
    """A simulation to play."""

    topics: Annotated[
        dict[TopicName, Annotated[int, Meta(ge=1, le=200)]],
        Meta(max_length=10, description="Numbers of partitions."),
    ]
    members: Annotated[list[SimulatedMember], Meta(min_length=1, max_length=MOST_MEMBERS)]
    steps: Annotated[tuple[SimulatedStep, ...], Meta(max_length=MOST_STEPS)] = ()
    seconds: Annotated[float, Meta(ge=0, le=MOST_SECONDS, description="How long it lasts.")] = 60.0
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    brokers: Annotated[int, Meta(ge=1, le=3)] = 1
    config: Annotated[dict[str, str], Meta(max_length=20, description="Kafka's names of settings.")] = field(
        default_factory=dict
    )
    network: SimulatedNetwork = field(default_factory=SimulatedNetwork)
    experimental: Annotated[
        tuple[Experiment, ...], Meta(max_length=10, description="Names of experiments, as for `serve --experimental`.")
    ] = ()


class SimulatedOwner(Answer, kw_only=True):
    """A member in the coordinator's view at the end."""

    member_id: str
    client_id: str
    owned: Owned


class SimulatedGroup(Answer, kw_only=True):
    """A group at the end, and its history."""

    group: str
    state: str
    generation: int
    members: list[SimulatedOwner]
    rebalances: Annotated[list[str], Meta(description="The cause of each, in order.")]


class Simulated(Answer, kw_only=True):
    """The result of a simulation. `puppet` is the place of each in `members`."""

    groups: list[SimulatedGroup]
    puppets: list[PuppetShown]
    events: Annotated[
        list[dict[str, Any]],
        Meta(description="The newest events of the trace about groups and members; docs/trace.md has their fields."),
    ]


async def _simulate(workbench: Workbench, body: Simulate) -> Simulated:
    for step in body.steps:
        if step.member >= len(body.members):
            raise Problem(409, "INVALID_REQUEST", f"There is no member {step.member}.")
    return await workbench.elsewhere(_played, body, is_long=True)


def _played(body: Simulate) -> Simulated:
    limit = time.monotonic() + PATIENCE
    try:
        simulation = Simulation(
            seed=body.seed,
            brokers=body.brokers,
            topics=body.topics,
            config={"group.initial.rebalance.delay.ms": "0"} | body.config,
            network=Network(least=body.network.least, most=body.network.most, loss=body.network.loss),
            watched=True,
            experimental=body.experimental,
        )
        puppets: dict[int, Any] = {}
        plan: list[tuple[float, int, AnyAct | None]] = [(each.at, n, None) for n, each in enumerate(body.members)]
        plan += [(each.at, each.member, each.act) for each in body.steps]
        for at, number, does in sorted(plan, key=lambda each: each[0]):
            if at > body.seconds:
                break
            _run_to(simulation, at, limit)
            if does is None:
                described = body.members[number].puppet
                puppets[number] = start_puppet(simulation.scheduler, kind_of(described), script_of(described))
            elif number not in puppets:
                raise Problem(409, "INVALID_REQUEST", f"Member {number} has not joined yet at {at:g} s.")
            else:
                act(puppets[number], does)
        _run_to(simulation, body.seconds, limit)
    except ValueError as error:
        raise Problem(409, "INVALID_REQUEST", str(error)) from None
    entries = simulation.history.since(0)
    events = [each.event for each in entries if each.event["event"] in _KEPT]
    return Simulated(
        groups=[_group(simulation, name, events) for name in dict.fromkeys(each.puppet.group for each in body.members)],
        puppets=[puppet_shown(number, puppet) for number, puppet in sorted(puppets.items())],
        events=events[-MOST_EVENTS:],
    )


def _run_to(simulation: Simulation, at: float, limit: float) -> None:
    """Let time pass up to a moment. Raises Problem if it takes too long."""
    end = START + at
    while simulation.now < end:
        if time.monotonic() > limit:
            raise Problem(409, "NOT_REACHED", f"The simulation was not over after {PATIENCE:.0f} s.")
        # The end of the process does not wait for the whole.
        trio.from_thread.check_cancelled()
        simulation.run(min(1.0, end - simulation.now))


def _group(simulation: Simulation, name: str, events: list[dict[str, Any]]) -> SimulatedGroup:
    group = simulation.group(name)
    return SimulatedGroup(
        group=name,
        state=group.state,
        generation=group.generation,
        members=[
            SimulatedOwner(member_id=each.member_id, client_id=each.client_id, owned=each.owned)
            for each in group.members
        ],
        rebalances=[
            each["cause"] or "" for each in events if each["group"] == shortened(name) and begins_rebalance(each)
        ],
    )


def _puppets_in(body: Any) -> Iterator[Any]:
    members = body.get("members") if isinstance(body, dict) else None
    for each in members if isinstance(members, list) else ():
        if isinstance(each, dict):
            yield each.get("puppet")


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/simulations",
        summary="Play groups of puppets in simulated time, and show their groups at the end.",
        do=_simulate,
        body=Simulate,
        answers=(Simulated,),
        choice=Choice(field="kind", default=CreatePuppet, places=_puppets_in),
        problems=(409,),
        lab=True,
        tag="puppets",
        example={
            "topics": {"orders": 6},
            "members": [
                {"puppet": {"kind": "consumer", "group": "billing", "topics": ["orders"]}},
                {"puppet": {"kind": "consumer", "group": "billing", "topics": ["orders"]}, "at": 30},
            ],
            "steps": [{"at": 60, "member": 0, "act": {"do": "crash"}}],
            "seconds": 180,
        },
    ),
)
