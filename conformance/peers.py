"""The instances of a target as the cells share them: started once per profile, asked what they serve, started again.

Decides when a target counts as ready, what is leaned on of all it advertises, and when it counts as crashed. It knows
nothing of cells.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kafka_shim.apis.api_versions import ApiVersionsRequest
from kafka_shim.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.metadata import MetadataRequest
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.harmless import GROUP_KEYS, harmless
from kafka_shim.conformance.peer import Peer, topic_name
from kafka_shim.conformance.protocol import BY_KEY
from kafka_shim.conformance.targets import Instance, Target, TargetError
from kafka_shim.conformance.targets.base import LIMIT_NAMES
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Failed, Skipped, Unadvertised
from kafka_shim.conformance.wire import Connection, Tape, Undecodable, WireTrouble

_WARM_GROUPS: Final = [f"warm-up-{number}" for number in range(32)]
_BROKER_RESOURCE: Final = 4
MEMBER_ID_REQUIRED_SINCE: Final = 4
SHARED_TOPICS: Final = (1, 3, 8, 100)
_NOT_READY: Final = frozenset({14, 15, 16})


class Peers:
    """The running instances of one target, by profile."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._peers: dict[str, Peer] = {}
        self._lock = threading.Lock()

    def start(self, profiles: Iterable[str]) -> None:
        """Start an instance for each of the profiles that the target has."""
        wanted = sorted(self._target.profiles.intersection(profiles))
        with ThreadPoolExecutor(max(1, len(wanted))) as pool:
            self._peers = dict(zip(wanted, pool.map(self._prepare, wanted), strict=True))

    def of(self, profile: str) -> Peer | None:
        """The newest instance of a profile, whether it still runs or not; None if the target has no such profile."""
        return self._peers.get(profile)

    def living(self, profile: str) -> Peer | None:
        """The instance of a profile, started again if it has crashed; one that is not ours stays as it is."""
        with self._lock:
            peer = self._peers.get(profile)
            if peer is not None and peer.instance.process is not None and peer.instance.ended_at is not None:
                peer = self._peers[profile] = self.another(profile)
            return peer

    def another(self, profile: str) -> Peer:
        """One more instance of a profile, what is known of the first one taken over."""
        known = self._peers[profile]
        peer = probe(self._target.start(profile))
        peer.served, peer.asks_for_ids = known.served, known.asks_for_ids
        make_topics(peer, [count for count in SHARED_TOPICS if topic_name(count) in known.partitions])
        return peer

    def describe(self) -> str:
        """What the target says it is."""
        return next((peer.instance.description for peer in self._peers.values()), "")

    def _prepare(self, profile: str) -> Peer:
        instance = self._target.start(profile)
        peer = probe(instance)
        if "configurable" not in instance.capabilities:
            instance.limits = instance.limits.configured(configuration(peer))
        find_served(peer)
        peer.asks_for_ids = asks_for_ids(peer)
        make_topics(peer)
        return peer


def probe(instance: Instance) -> Peer:
    """Ask a target what it advertises, and wait until its coordinators answer; one that is not ours runs already."""
    deadline = time.monotonic() + (5.0 if instance.process is None else 60.0)
    while True:
        connection = None
        try:
            connection = Connection(
                instance.host, instance.port, patience=15.0, deadline=deadline, tape=Tape(), label="probe"
            )
            told = connection.call(ApiVersionsRequest(), 0)
            versions = {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}
            peer = Peer(instance, versions)
            if coordinators_ready(connection, peer):
                return peer
        except WireTrouble as trouble:
            if time.monotonic() > deadline:
                raise TargetError(f"{instance.host}:{instance.port} gives no usable answer: {trouble}") from trouble
        finally:
            if connection is not None:
                connection.close()
        if time.monotonic() > deadline:
            raise TargetError(f"the coordinators of {instance.host}:{instance.port} never became ready")
        time.sleep(0.05)


def coordinators_ready(connection: Connection, peer: Peer) -> bool:
    """Whether group coordinators are found and have loaded."""
    version = min(peer.newest("FindCoordinator"), 3)
    if connection.call(FindCoordinatorRequest(_WARM_GROUPS[0]), version).error_code != 0:
        return False
    try:
        version = peer.newest("DescribeGroups")
    except Unadvertised:
        return True
    described = connection.call(DescribeGroupsRequest(_WARM_GROUPS), version).groups
    return not any(group.error_code in _NOT_READY for group in described)


def find_served(peer: Peer) -> None:
    """Find the newest version of each API that is really answered: what is only declared is not leaned on.

    Where no version's answer can be read, the newest that has an answer is taken.
    """
    instance = peer.instance
    for key in (3, *GROUP_KEYS):
        low, high = peer.versions.get(key, (1, 0))
        for version in range(min(high, BY_KEY[key].request.versions[-1]), low - 1, -1):
            connection = Connection(
                instance.host,
                instance.port,
                patience=instance.limits.patience,
                deadline=time.monotonic() + 60,
                tape=Tape(),
                label="probe",
            )
            try:
                connection.call(harmless(key, version, f"probe-{key}-{version}"), version)
                peer.served[key] = version
                break
            except Undecodable:
                peer.served.setdefault(key, version)
            except WireTrouble:
                if instance.has_crashed():
                    return
            finally:
                connection.close()


def asks_for_ids(peer: Peer) -> bool:
    """Whether a dynamic member without an id is handed one and asked to come again."""
    trial = Trial(peer, "probe", "ids")
    try:
        version = peer.newest("JoinGroup")
        if version < MEMBER_ID_REQUIRED_SINCE:
            return False
        return bool(
            trial.call(trial.member().join_request(version), version).error_code == ErrorCode.MEMBER_ID_REQUIRED
        )
    except (Unadvertised, WireTrouble):
        return False
    finally:
        trial.end()


def make_topics(peer: Peer, counts: Iterable[int] = SHARED_TOPICS) -> None:
    """Make the topics the cases share, by partitions: none of them is new to the coordinator when a case begins."""
    trial = Trial(peer, "probe", "topics")
    try:
        for partitions in counts:
            trial.topic(partitions)
    except (Unadvertised, Skipped, Failed, WireTrouble):
        """A target that makes no topics: the cases that need one will each say so."""
    finally:
        trial.end()


def configuration(peer: Peer) -> dict[str, str]:
    """The broker settings the suite derives its waits from, as far as the target tells them."""
    instance = peer.instance
    connection = Connection(
        instance.host, instance.port, patience=5.0, deadline=time.monotonic() + 10, tape=Tape(), label="probe"
    )
    try:
        version = peer.newest("DescribeConfigs")
        broker = connection.call(MetadataRequest([]), peer.newest("Metadata")).brokers[0]
        resource = DescribeConfigsResource(_BROKER_RESOURCE, str(broker.node_id), list(LIMIT_NAMES))
        answer = connection.call(DescribeConfigsRequest([resource]), version)
        return {each.name: each.value for result in answer.results for each in result.configs if each.value}
    except (WireTrouble, Unadvertised):
        return {}
    finally:
        connection.close()
