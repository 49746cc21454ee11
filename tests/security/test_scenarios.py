"""Scenarios of security: a list with the proof of each, and those that no other test shows."""

from __future__ import annotations

import re
import socket
import ssl
import tomllib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.apis.heartbeat import HeartbeatResponse
from kafka_shim.apis.join_group import JoinGroupResponse
from kafka_shim.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_shim.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_shim.apis.sync_group import SyncGroupResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.cells import all_cases
from kafka_shim.security.certificates import Issued, TestAuthority
from kafka_shim.server.throttling import Throttling
from kafka_shim.testing import CoordinatorServer
from tests.server.conversation import heartbeat, join, sync
from tests.server.test_access import CONFIG, As
from tests.server.test_secured import choose, prove
from tests.server.test_throttling import Talk, limit
from tests.server.wire import Client, cluster, request

ROOT = Path(__file__).parents[2]
SCENARIOS = tomllib.loads((ROOT / "tests/security/scenarios.toml").read_text())
DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


def test_each_scenario_has_its_proof() -> None:
    assert list(SCENARIOS) == [f"S{number:02}" for number in range(1, 39)]
    cases = {case.id for case in all_cases()}
    for name, scenario in SCENARIOS.items():
        assert scenario["cases"] or scenario["tests"] or "differs" in scenario, name
        assert set(scenario["cases"]) <= cases, name
        for test in scenario["tests"]:
            path, _, function = test.partition("::")
            assert re.search(rf"^def {function}\(", (ROOT / path).read_text(), re.MULTILINE), test


class Member:
    """A member of the group "g" on a connection of a user."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.id = ""
        self.generation = -1
        self.leads = False

    def join(self) -> None:
        self.client.socket.sendall(request(join(member_id=self.id), 3))

    def joined(self) -> None:
        answer = self.client.read(JoinGroupResponse, 3)[1]
        assert answer.error_code == 0
        self.id, self.generation = answer.member_id, answer.generation_id
        self.leads = answer.leader == answer.member_id

    def sync(self, *assigned: str) -> None:
        self.client.socket.sendall(request(sync(self.generation, self.id, *assigned), 3))

    def synced(self) -> int:
        return int(self.client.read(SyncGroupResponse, 3)[1].error_code)

    def beat(self) -> int:
        return int(self.client.ask(heartbeat(self.generation, self.id), 3, HeartbeatResponse).error_code)

    def leave(self) -> int:
        return int(self.client.ask(LeaveGroupRequest("g", self.id), 2, LeaveGroupResponse).error_code)


@pytest.fixture
def server() -> Iterator[CoordinatorServer]:
    users = {"admin": "a", "alice": "a", "bob": "a"}
    with CoordinatorServer(topics={"t": 2}, config=CONFIG, users=users) as made:
        made.clock.freeze()
        for user in ("alice", "bob"):
            made.allow(user, "READ", group="g")
        yield made


@pytest.fixture
def pair(server: CoordinatorServer) -> Iterator[tuple[Member, Member]]:
    """Two members that have joined, alice's as the leader, and that have not synced."""
    with As(server, "alice") as alice, As(server, "bob") as bob:
        first, second = Member(alice), Member(bob)
        first.join()
        first.joined()
        first.sync(first.id)
        assert first.synced() == 0
        second.join()
        while first.beat() != REBALANCE:
            pass
        first.join()
        first.joined()
        second.joined()
        assert first.leads
        yield first, second


@pytest.fixture
def stable(pair: tuple[Member, Member]) -> tuple[Member, Member]:
    """Two members of a stable group, alice's first."""
    first, second = pair
    second.sync()
    first.sync(first.id, second.id)
    assert (first.synced(), second.synced()) == (0, 0)
    return pair


def test_a_member_that_loses_its_right_stays_until_its_session_ends(
    server: CoordinatorServer, stable: tuple[Member, Member]
) -> None:
    alice, bob = stable
    server.deny("alice", "READ", group="g")
    assert (alice.beat(), alice.leave()) == (DENIED, DENIED)
    server.clock.advance(20)
    assert bob.beat() == 0
    server.clock.advance(15)
    assert bob.beat() == REBALANCE


def test_a_leader_that_loses_its_right_is_a_silent_leader(
    server: CoordinatorServer, pair: tuple[Member, Member]
) -> None:
    alice, bob = pair
    server.deny("alice", "READ", group="g")
    bob.sync()
    alice.sync(alice.id, bob.id)
    assert alice.synced() == DENIED
    server.clock.advance(31)
    assert bob.synced() == REBALANCE


def test_a_member_that_gets_its_right_back_goes_on(server: CoordinatorServer, stable: tuple[Member, Member]) -> None:
    alice, bob = stable
    server.deny("alice", "READ", group="g")
    assert [alice.beat(), alice.beat()] == [DENIED, DENIED]
    server.clear_acls()
    for user in ("alice", "bob"):
        server.allow(user, "READ", group="g")
    assert (alice.beat(), bob.beat()) == (0, 0)


@pytest.fixture
def short() -> Iterator[CoordinatorServer]:
    """A server with sessions of three seconds."""
    config = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "connections.max.reauth.ms": "3000"}
    with CoordinatorServer(topics={"t": 2}, config=config, users={"alice": "a"}) as made:
        made.clock.freeze()
        yield made


def only_member(client: Client) -> Member:
    member = Member(client)
    member.join()
    member.joined()
    member.sync(member.id)
    assert member.synced() == 0
    return member


def test_a_member_that_authenticates_again_keeps_its_generation(short: CoordinatorServer) -> None:
    with As(short, "alice") as client:
        member = only_member(client)
        for _ in range(5):
            short.clock.advance(2)
            assert choose(client).error_code == 0
            assert prove(client, b"\0alice\0a").session_lifetime_ms == 3000
            assert member.beat() == 0


def test_a_member_whose_session_ended_comes_back_as_itself(short: CoordinatorServer) -> None:
    with As(short, "alice") as client:
        member = only_member(client)
        short.clock.advance(4)
        client.socket.sendall(request(heartbeat(member.generation, member.id), 3))
        assert client.is_closed_by_server()
    with As(short, "alice") as again:
        member.client = again
        assert member.beat() == 0


def test_a_parked_request_uses_no_time() -> None:
    broker = cluster(topics={"orders": 1}, group_initial_rebalance_delay_ms="5000")
    limit(broker, {"request_percentage": 1.0}, client_id="slow")
    thread = [0.0]
    (node,) = broker.nodes.values()
    node.throttling = Throttling(broker.topics.settings, lambda: thread[0])
    slow = Talk(broker, "slow")
    slow.send(join(), 3, 100.0)
    assert slow.wire.answers() == []
    # The thread works for others while the request waits.
    thread[0] = 5.0
    broker.ticks.fire(105.0)
    broker.settle(105.0)
    answer = slow.wire.answer(JoinGroupResponse, 3)[1]
    assert (answer.error_code, answer.throttle_time_ms) == (0, 0)


def test_a_certificate_that_expires_keeps_its_connection(tmp_path: Path) -> None:
    authority = TestAuthority()
    issued = authority.server()
    config = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.key": issued.key,
        "ssl.keystore.certificate.chain": issued.certificate,
        "ssl.truststore.certificates": authority.certificate,
        "ssl.client.auth": "required",
    }

    def showing(certificate: Issued) -> Callable[[socket.socket], Any]:
        (tmp_path / "client.pem").write_text(certificate.key + certificate.certificate)
        context = ssl.create_default_context(cadata=authority.certificate)
        context.load_cert_chain(tmp_path / "client.pem")
        return lambda sock: context.wrap_socket(sock, server_hostname="127.0.0.1")

    def is_served(client: Client) -> bool:
        try:
            return bool(client.ask(ListGroupsRequest(), 0, ListGroupsResponse).error_code == 0)
        except (OSError, EOFError):
            return False

    with CoordinatorServer(config=config) as server:
        seconds = 2
        while True:
            # On a busy machine a short life may end before the first request.
            wrap = showing(authority.client("alice", lasts=timedelta(seconds=seconds)))
            old = Client(server.bootstrap, wrap)
            if is_served(old):
                break
            old.close()
            seconds *= 2
        with old:
            is_refused = False
            while not is_refused:
                with Client(server.bootstrap, wrap) as new:
                    is_refused = not is_served(new)
            assert is_served(old)
        with Client(server.bootstrap, showing(authority.client("bob"))) as other:
            assert is_served(other)
