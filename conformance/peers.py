"""Running brokers under test, one for each set of settings, which all cases share: started, probed, restarted after a
crash.

Decides when a target is ready, which advertised APIs the suite itself uses, and when a target has crashed.
"""

from __future__ import annotations

import itertools
import ssl
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from kafka_shim.apis.api_versions import ApiVersionsRequest
from kafka_shim.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.metadata import MetadataRequest
from kafka_shim.apis.releases import DEFAULT_RELEASE
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.peer import Peer, topic_name
from kafka_shim.conformance.probe_requests import GROUP_KEYS, probe_request
from kafka_shim.conformance.protocol import BY_KEY
from kafka_shim.conformance.secure import Unauthenticated
from kafka_shim.conformance.targets import ForeignTarget, Instance, Limits, Target, TargetError
from kafka_shim.conformance.targets.base import LIMIT_NAMES
from kafka_shim.conformance.targets.capabilities import capabilities_of
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Failed, Skipped, Unadvertised
from kafka_shim.conformance.wire import Connection, Tape, Undecodable, WireTrouble

_WARM_GROUPS: Final = [f"warm-up-{number}" for number in range(32)]
_BROKER_RESOURCE: Final = 4
MEMBER_ID_REQUIRED_SINCE: Final = 4
DEFAULT: Final = "default"
_SESSION_CANDIDATES: Final = (100, 300, 1_000, 6_000)
_SOON: Final = 1.0
_NEGLIGIBLE_MS: Final = 150
SHARED_TOPICS: Final = (1, 3, 8, 100)
_NOT_READY: Final = frozenset({14, 15, 16})
_FINAL: Final = (Unauthenticated, ssl.SSLCertVerificationError)
"""Reasons of a failed connection that do not go with time."""


class Peers:
    """The running instances of one target, by profile; `release` is that to judge it by, empty for its own."""

    def __init__(self, target: Target, release: str = "") -> None:
        self._target = target
        self._release = release
        self._peers: dict[str, Peer] = {}
        self._lock = threading.Lock()

    def start(self, profiles: Iterable[str]) -> None:
        """Start an instance for each profile that the target has, and the default one instead of the others."""
        profiles = set(profiles)
        names = sorted(self._target.profiles & profiles | ({DEFAULT} if profiles - self._target.profiles else set()))
        with ThreadPoolExecutor(max(1, len(names))) as pool:
            self._peers = dict(zip(names, pool.map(self._prepare, names), strict=True))

    def of(self, profile: str) -> Peer | None:
        """Return the newest instance of a profile, running or not.

        Without such a profile the default instance takes its place, and cases that need other settings are skipped.
        """
        return self._peers.get(profile) or self._peers.get(DEFAULT)

    def running(self, profile: str) -> Peer | None:
        """Return the instance of a profile, restarted after a crash if the suite started it."""
        with self._lock:
            profile = profile if profile in self._peers else DEFAULT
            peer = self._peers.get(profile)
            if peer is not None and peer.instance.process is not None and peer.instance.ended_at is not None:
                peer = self._peers[profile] = self.another(profile)
            return peer

    def another(self, profile: str) -> Peer:
        """Start one more instance of a profile, with the limits and versions of the first one."""
        profile = profile if profile in self._peers else DEFAULT
        first = self._peers[profile]
        peer = probe(self._target.start(profile), self._release)
        peer.served, peer.asks_for_ids = first.served, first.asks_for_ids
        peer.instance.limits, peer.instance.capabilities = first.instance.limits, first.instance.capabilities
        peer.client_id = first.client_id
        make_topics(peer, [count for count in SHARED_TOPICS if topic_name(count) in first.partitions])
        return peer

    def describe(self) -> str:
        """Return the description of the target."""
        return next((peer.instance.description for peer in self._peers.values()), "")

    def release(self) -> str:
        """Return the release of Kafka with the rules of the target."""
        return next((peer.release for peer in self._peers.values()), DEFAULT_RELEASE)

    def _prepare(self, profile: str) -> Peer:
        instance = self._target.start(profile)
        peer = probe(instance, self._release)
        find_served(peer)
        peer.asks_for_ids = asks_for_ids(peer)
        if isinstance(self._target, ForeignTarget):
            find_limits(peer, self._target.declaration.settings)
            peer.client_id = self._target.declaration.client_id or peer.client_id
        instance.capabilities |= capabilities_of(instance.limits)
        make_topics(peer)
        return peer


def probe(instance: Instance, release: str = "") -> Peer:
    """Read the advertised versions and wait for the coordinators: 60 s for our process, 5 s for a running broker.

    `release` is the release to judge the instance by, empty for its own. Raises TargetError.
    """
    deadline = time.monotonic() + (5.0 if instance.process is None else 60.0)
    for endpoint in itertools.cycle(instance.endpoints):
        connection = None
        try:
            connection = Connection(endpoint, patience=15.0, deadline=deadline, tape=Tape(), label="probe")
            response = connection.call(ApiVersionsRequest(), 0)
            versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
            peer = Peer(instance, versions, endpoint, release)
            if coordinators_ready(connection, peer):
                return peer
        except Unadvertised as missing:
            raise TargetError(f"{endpoint} is no group coordinator: {missing}") from None
        except WireTrouble as trouble:
            if time.monotonic() > deadline or isinstance(trouble.__cause__, _FINAL):
                raise TargetError(f"{endpoint} gives no usable answer: {trouble}") from trouble
        finally:
            if connection is not None:
                connection.close()
        if time.monotonic() > deadline:
            raise TargetError(f"the coordinators of {endpoint} never became ready")
        time.sleep(0.05)
    raise TargetError("the target has no address")


def coordinators_ready(connection: Connection, peer: Peer) -> bool:
    """Return True if the group coordinators are available and loaded."""
    version = min(peer.newest("FindCoordinator"), 3)
    if connection.call(FindCoordinatorRequest(_WARM_GROUPS[0]), version).error_code != 0:
        return False
    try:
        version = peer.newest("DescribeGroups")
    except Unadvertised:
        return True
    if peer.routes.is_alone:
        described = connection.call(DescribeGroupsRequest(_WARM_GROUPS), version).groups
        return not any(group.error_code in _NOT_READY for group in described)
    trial = Trial(peer, "probe", "ready")
    try:
        groups = [trial.call(DescribeGroupsRequest([name]), version).groups[0] for name in _WARM_GROUPS]
        return not any(group.error_code in _NOT_READY for group in groups)
    finally:
        trial.end()


def find_served(peer: Peer) -> None:
    """Record the newest version of each API that the target really answers; it may advertise more.

    If no version has a readable answer, record the newest version with any answer.
    """
    instance = peer.instance
    for key in (3, *GROUP_KEYS):
        low, high = peer.versions.get(key, (1, 0))
        for version in range(min(high, BY_KEY[key].request.versions[-1]), low - 1, -1):
            connection = Connection(
                peer.entry,
                patience=instance.limits.patience,
                deadline=time.monotonic() + 60,
                tape=Tape(),
                label="probe",
            )
            try:
                connection.call(probe_request(key, version, f"probe-{key}-{version}"), version)
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
    """Return True if a dynamic member without an id gets one and has to join again."""
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
    """Create the shared topics, by partition count, so that no case meets a topic new to the coordinator."""
    trial = Trial(peer, "probe", "topics")
    try:
        for partitions in counts:
            trial.topic(partitions)
    except (Unadvertised, Skipped, Failed, WireTrouble):
        """The target creates no topics; each case that needs one reports that."""
    finally:
        trial.end()


def find_limits(peer: Peer, settings: Mapping[str, str]) -> None:
    """Set the limits of a foreign target: from its user's `settings`, else its description, else measured."""
    known_settings = configuration(peer) | dict(settings)
    limits = peer.instance.limits.configured(known_settings)
    if "group.min.session.timeout.ms" not in known_settings:
        limits = replace(limits, min_session_timeout=least_session(peer))
    if "group.initial.rebalance.delay.ms" not in known_settings:
        limits = replace(limits, initial_rebalance_delay=initial_delay(peer))
    peer.instance.limits = limits


def least_session(peer: Peer) -> int:
    """Return the smallest session timeout, of a few, with which a member may join; in milliseconds."""
    trial = Trial(peer, "probe", f"session-{uuid.uuid4().hex[:8]}")
    try:
        for timeout in _SESSION_CANDIDATES:
            member = trial.member(group=f"{trial.group}-{timeout}", session_timeout=timeout)
            member.wire.send(member.join_request(), trial.version_of("JoinGroup"))
            if not member.wire.answers_within(_SOON):
                return timeout
            if member.wire.receive().error_code != ErrorCode.INVALID_SESSION_TIMEOUT:
                return timeout
    except (Unadvertised, WireTrouble):
        """The cases report that."""
    finally:
        trial.end()
    return Limits().min_session_timeout


def initial_delay(peer: Peer) -> int:
    """Measure the first round of a lone member, in milliseconds; 0 for a very short one."""
    trial = Trial(peer, "probe", f"delay-{uuid.uuid4().hex[:8]}")
    try:
        member = trial.member()
        start = time.monotonic()
        member.join()
        elapsed = int((time.monotonic() - start) * 1000)
        return elapsed if elapsed > _NEGLIGIBLE_MS else 0
    except (Unadvertised, Failed, WireTrouble):
        return Limits().initial_rebalance_delay
    finally:
        trial.end()


def configuration(peer: Peer) -> dict[str, str]:
    """Return the broker settings that the waits of the suite depend on, as far as the target describes them."""
    connection = Connection(peer.entry, patience=5.0, deadline=time.monotonic() + 10, tape=Tape(), label="probe")
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
