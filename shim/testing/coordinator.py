"""`Coordinator`: the immediate actions on a coordinator in a thread, for tests of any kind.

Each method runs in the coordinator's own thread, where `kit.py` implements it. The waits are in `server.py` for tests
that may block, and in `awaitable.py` for tests on an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_shim.apis.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kafka_shim.broker.admin.quotas import alter as alter_quotas
from kafka_shim.lab import arguments
from kafka_shim.lab.topic_data import StoredRecord, Value
from kafka_shim.persistence.store import Store
from kafka_shim.security.authorizer import ALLOW, DENY, acl_of
from kafka_shim.server.server import Server, ServerConfig
from kafka_shim.testing.calls import explains_calls
from kafka_shim.testing.handles import ClientAssignorHandle, Clock, KilledHandle, PuppetHandle, RegisteredHandle
from kafka_shim.testing.kit import server_config as config_for_tests
from kafka_shim.testing.thread import CoordinatorThread

if TYPE_CHECKING:
    from kafka_shim.testing.secured import Security


@explains_calls
class Coordinator(CoordinatorThread):
    """A server on free ports of the loopback address.

    `topics` are created at start, by name with their numbers of partitions. `config` are values by Kafka's
    configuration names, on top of those of `FOR_TESTS`. `brokers` is the number of nodes; `release` the Kafka release
    to pose as. `faults` are declared at start, each as the keywords of `fault`. `experimental` are names of
    experiments, as for `serve --experimental`. `store` is a URL as for `serve --store`, such as `sqlite:PATH`, or an
    open store, which stays open; by default records live as long as the server. With `control` the HTTP control API is
    served too, at `control_url`.

    `security` is the protocol of the listener: SASL_SSL, SASL_PLAINTEXT, SSL or PLAINTEXT; a certificate is made where
    one is needed. `users` are names with passwords, for PLAIN and SCRAM; `accept="anything"` lets PLAIN accept any
    password. `client_settings` has what clients need. Several listeners are a matter of `config`, by Kafka's names.
    Raises ValueError, in one sentence, for an impossible configuration.
    """

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, Any] | None = None,
        brokers: int = 1,
        release: str | None = None,
        faults: Sequence[Mapping[str, Any]] = (),
        store: Store | str | None = None,
        control: bool = False,
        experimental: Sequence[str] = (),
        security: str | None = None,
        users: Mapping[str, str] | None = None,
        accept: str | None = None,
        server_config: ServerConfig | None = None,
    ) -> None:
        rest = {} if not isinstance(config, Mapping) else dict(config)
        secured = _security_in(rest) if rest else {}
        config_of_server = server_config or config_for_tests(
            topics, config if not secured else rest, brokers, release, experimental
        )
        self.security: Security | None = None
        """The certificates and users; None for a coordinator without security."""
        if security is not None or users or accept is not None or secured:
            # Imported here: most tests have no security.
            from kafka_shim.testing.secured import Security

            self.security = Security(security, users, accept, secured)
            config_of_server = replace(config_of_server, security=self.security.config)
        super().__init__(config_of_server, store, control)
        self._faults = arguments.faults_of(faults)
        self.clock = Clock(self)

    def start(self) -> None:
        """Start, and return when clients can connect."""
        super().start()
        try:
            for fault in self._faults:
                self.call(partial(self.kit.fault, **fault))
        except BaseException:
            self.stop()
            raise

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers for clients: `127.0.0.1:PORT`, one for each broker."""
        return self.kit.bootstrap

    def bootstrap_of(self, listener: str) -> str:
        """Return the bootstrap servers of a listener by its name."""
        return self.call(self.server.bootstrap_of, listener.upper())

    @property
    def ca_file(self) -> str | None:
        """The certificate that clients must trust, as PEM; None without TLS."""
        return None if self.security is None else self.security.ca_file

    def client_settings(self, client: str, user: str | None = None, mechanism: str = "PLAIN") -> dict[str, Any]:
        """Return the settings of security for a client: `java`, `confluent-kafka`, `kafka-python` or `aiokafka`.

        `user` is one of `users`, the first by default. They have no bootstrap servers.
        """
        return {} if self.security is None else self.security.client(client, user, mechanism)

    def replace_certificate(self, *hosts: str, seconds: float | None = None) -> None:
        """Give new connections another certificate of the same authority; those that exist go on.

        server.replace_certificate(seconds=-1)  # it has expired
        server.replace_certificate("other.test")  # it is another server's

        Without hosts it has the names of this machine; without `seconds` it lasts for 30 days. Certificates end by the
        clock of this machine. Raises ValueError without a certificate of the kit.
        """
        if self.security is None:
            raise ValueError("There is no certificate of the kit here.")
        self.security.replace_certificate(hosts, seconds)
        self.call(lambda: [tls.look() for tls in self.server.certificates.values()])

    def expire_certificate(self, after: float = 0.0) -> None:
        """Let the certificate of the server end `after` seconds by the clock of the coordinator: new connections of
        clients fail from then on, and those that exist go on.

        server.expire_certificate(after=3600)
        server.clock.advance(3600)

        `replace_certificate()` brings a valid one. Raises ValueError without a certificate of the kit.
        """
        if self.security is None or not self.security.has_certificate:
            raise ValueError("There is no certificate of the kit here.")
        security, cluster = self.security, self.kit.cluster

        def end(now: float) -> None:
            security.replace_certificate((), -1.0)
            for tls in self.server.certificates.values():
                tls.look()

        self.call(lambda: cluster.ticks.alarms.at(cluster.clock() + after, end))

    def refuse_mechanism(self, mechanism: str) -> None:
        """Refuse a mechanism of SASL from the next handshake on, as one that is not enabled (33).

        server.refuse_mechanism("SCRAM-SHA-512")
        server.accept_mechanisms()

        Connections that exist go on until they authenticate again. Raises ValueError for one that is not enabled.
        """
        enabled = () if self.security is None or self.security.config is None else self.security.config.mechanisms
        if mechanism not in enabled:
            every = ", ".join(enabled) or "none"
            raise ValueError(f"The mechanism {mechanism} is not enabled here; these are: {every}.")

        def refuse() -> None:
            for door in self.server.doors:
                door.refuse(mechanism)

        self.call(refuse)

    def accept_mechanisms(self) -> None:
        """Accept again the mechanisms that `refuse_mechanism` refused."""

        def accept() -> None:
            for door in self.server.doors:
                door.accept_all()

        self.call(accept)

    def allow(self, user: str, operation: str, /, **resource: str) -> None:
        """Add an ACL that allows a user an operation; `"*"` is every user.

        server.allow("alice", "READ", group="billing")

        The resource is one of `topic`, `group`, `transactional_id`, `delegation_token` and `user` with a name, `"*"`
        for all, or a name with `prefix="true"`; without any it is the cluster. Raises ValueError.
        """
        self._add_acl(ALLOW, user, operation, resource)

    def deny(self, user: str, operation: str, /, **resource: str) -> None:
        """Add an ACL that denies a user an operation; see `allow`. It counts for the next request."""
        self._add_acl(DENY, user, operation, resource)

    def clear_acls(self) -> None:
        """Remove every ACL."""
        self._change_acls(lambda acls: ())

    def _add_acl(self, permission: int, user: str, operation: str, resource: dict[str, str]) -> None:
        acl = acl_of(permission, user, operation, resource)
        self._change_acls(lambda acls: (*(each for each in acls if tuple(each) != acl), acl))

    def _change_acls(self, change: Callable[[tuple[tuple[Any, ...], ...]], tuple[tuple[Any, ...], ...]]) -> None:
        if self.security is None or self.security.config is None or not self.security.config.has_authorizer:
            raise ValueError('There is no authorizer: set "authorizer.class.name" in config.')

        def run() -> None:
            settings = self.kit.cluster.topics.settings
            settings.acls = change(settings.acls)
            settings.tell()

        self.call(run)

    def set_quota(self, quota: str, value: float | None, *, user: str = "", client_id: str = "") -> None:
        """Set a quota of a user, of a client id, or of both together; `"*"` is the default of all without their own.

        server.set_quota("request_percentage", 1, client_id="billing")

        The quotas are `request_percentage`, `producer_byte_rate`, `consumer_byte_rate` and `controller_mutation_rate`;
        None removes one. A throttled client is served again by the clock of the coordinator, which `clock` freezes and
        advances. Raises ValueError.
        """
        names = {"user": user, "client-id": client_id}
        entity = [EntityData(kind, None if name == "*" else name) for kind, name in names.items() if name]
        request = AlterClientQuotasRequest([EntryData(entity, [OpData(quota, value or 0.0, value is None)])])
        (result,) = self.call(lambda: alter_quotas(request, self.kit.cluster.topics.settings)).entries
        if result.error_code:
            raise ValueError(f"{result.error_message}.")

    def clear_quotas(self) -> None:
        """Remove every quota."""

        def run() -> None:
            settings = self.kit.cluster.topics.settings
            settings.set_quotas({})
            settings.tell()

        self.call(run)

    @property
    def server(self) -> Server:
        """The running server. Use it only in its own thread; see `call`."""
        return self.kit.server

    # Members

    def puppet(self, group: str, topics: Sequence[str], **script: Any) -> PuppetHandle:
        """Start a scripted member that joins now; `script` are the other fields of `Script`, `manner` among them."""
        return PuppetHandle(self, self.call(partial(self.kit.puppet, group, topics, **script)))

    def consumer_puppet(self, group: str, topics: Sequence[str], **script: Any) -> PuppetHandle:
        """Start a scripted member of the consumer protocol (KIP-848); see `Kit.consumer_puppet`."""
        return PuppetHandle(self, self.call(partial(self.kit.consumer_puppet, group, topics, **script)))

    def share_puppet(self, group: str, topics: Sequence[str], **script: Any) -> PuppetHandle:
        """Start a scripted member of a share group (KIP-932); see `Kit.share_puppet`."""
        return PuppetHandle(self, self.call(partial(self.kit.share_puppet, group, topics, **script)))

    def streams_puppet(self, group: str, topics: Sequence[str], **script: Any) -> PuppetHandle:
        """Start a scripted member of a streams group (KIP-1071); see `Kit.streams_puppet`."""
        return PuppetHandle(self, self.call(partial(self.kit.streams_puppet, group, topics, **script)))

    def client_assignor_puppet(self, group: str, topics: Sequence[str], **script: Any) -> ClientAssignorHandle:
        """Start a scripted member that computes assignments itself; see `Kit.client_assignor_puppet`."""
        return ClientAssignorHandle(self, self.call(partial(self.kit.client_assignor_puppet, group, topics, **script)))

    def registered_puppet(self, group: str, topics: Sequence[str], **script: Any) -> RegisteredHandle:
        """Start a scripted member that registers, as before Kafka 0.9; see `Kit.registered_puppet`."""
        return RegisteredHandle(self, self.call(partial(self.kit.registered_puppet, group, topics, **script)))

    # Faults

    def clear_faults(self) -> None:
        """Remove all faults, and release all requests that barriers hold."""
        self.call(self.kit.faults.clear)
        self.call(self.kit.barriers.clear)

    def verify(self) -> None:
        """Raise ForgottenWaits if a wait was never awaited, UnfiredFaults if a fault that is not optional never
        happened.
        """
        self.waits.check()
        self.call(self.kit.verify)

    # Brokers and store

    def disconnect(self, client_id: str) -> int:
        """Close all connections of clients with this id, which may have `*` and `?`; return their number."""
        return self.call(self.kit.disconnect, client_id)

    def kill(self, client_id: str) -> KilledHandle:
        """Kill clients of this process: drop all that they send, and all that is sent to them.

        `client_id` may have `*` and `?`; `clear()` of the result revives them. Raises ValueError if no such client is
        connected.
        """
        return KilledHandle(self, self.call(self.kit.kill, client_id))

    def expire(self, group: str, member: str) -> None:
        """End the session of a member now, without its requests and without moving the clock. Raises ValueError."""
        self.call(self.kit.expire, group, member)

    def coordinator_of(self, group: str) -> int:
        """Return the id of the broker that coordinates a group."""
        return self.call(self.kit.coordinator_of, group)

    def move(self, group: str, broker: int) -> None:
        """Move a group, with its whole partition of `__consumer_offsets`, to another broker."""
        self.call(self.kit.move, group, broker)

    def stop_broker(self, broker: int) -> None:
        """Shut a broker down cleanly."""
        self.call(self.kit.cluster.stop_broker, broker)

    def kill_broker(self, broker: int) -> None:
        """Kill a broker without a shutdown."""
        self.call(self.kit.cluster.kill_broker, broker)

    def restart_broker(self, broker: int) -> None:
        """Start a broker that was stopped or killed, on the address it had."""
        self.call(self.kit.cluster.restart_broker, broker)

    def load_takes(self, seconds: float) -> None:
        """Make every load of partitions take `seconds` longer from now on."""
        arguments.seconds("The time that a load takes", seconds)
        self.call(self.kit.load_takes, seconds)

    def fail_store(self, times: int | None = 1) -> None:
        """Let the next writes to the store fail, all of them if `times` is None."""
        if times is not None:
            arguments.whole("The number of writes that fail", times, 1)
        self.call(self.kit.breakable.fail, times)

    def repair_store(self) -> None:
        """Let the store write again."""
        self.call(self.kit.breakable.repair)

    # Topics, records and offsets

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, Any] | None = None) -> None:
        """Create a topic, with values for its own settings such as `cleanup.policy`. Raises ValueError."""
        self.call(self.kit.create_topic, name, partitions, config)

    def set_config(
        self,
        config: Mapping[str, Any],
        *,
        topic: str | None = None,
        group: str | None = None,
        broker: int | None = None,
    ) -> None:
        """Set settings of a topic, a group or a broker, or of all brokers. Raises ValueError; see
        `TopicData.set_config`.
        """
        self.call(partial(self.kit.set_config, config, topic=topic, group=group, broker=broker))

    def grow_topic(self, name: str, partitions: int) -> None:
        """Increase the number of a topic's partitions to `partitions`. Raises ValueError."""
        self.call(self.kit.grow_topic, name, partitions)

    def produce(self, topic: str, *values: Value, **options: Any) -> list[tuple[int, int]]:
        """Append records to a topic; return partition and offset of each. See `TopicData.produce` for the options."""
        return self.call(partial(self.kit.produce, topic, *values, **options))

    def records(self, topic: str, partition: int | None = None, *, committed: bool = True) -> list[StoredRecord]:
        """Return the records of a topic, or of one partition, as a consumer sees them; see `TopicData.records`."""
        return self.call(partial(self.kit.records, topic, partition, committed=committed))

    def seed_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for a group without members, by topic and partition. Raises ValueError."""
        self.call(self.kit.seed_offsets, group, offsets)

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """Return the number of records after the group's committed offset, by topic and partition."""
        return self.call(self.kit.lag, group)

    # Trace

    def story(self, group: str | None = None) -> list[str]:
        """Return the story of a group, or of all groups, as readable lines."""
        return self.call(self.kit.story, group)

    def data_events(self, on: bool = True) -> None:
        """Let Produce, Fetch and ListOffsets have events from now on, or no more; see `LabWorkbench.data_events`."""
        self.call(self.kit.data_events, on)

    def events(self, group: str | None = None) -> list[dict[str, Any]]:
        """Return the trace events of a group, or all of them (`docs/trace.md`)."""
        return self.call(lambda: [event for _, _, event in self.kit.history.since(0, group)])

    def write_trace(self, path: Path | str) -> None:
        """Write the events so far as a trace file."""
        self.call(self.kit.write_trace, Path(path))


def _security_in(config: dict[str, Any]) -> dict[str, str]:
    """Take the settings of security from a configuration, and return them."""
    # Imported here: most tests have no security.
    from kafka_shim.security.config import is_security_setting

    return {name: str(config.pop(name)) for name in list(config) if is_security_setting(str(name))}
