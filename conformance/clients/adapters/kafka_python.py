"""The adapter of kafka-python 3.0, 2.3 and 2.0 to the line protocol."""

import sys
import time

from lines import Worker, emit, error_name, main, partitions, text

if sys.version_info >= (3, 12):
    # kafka-python 2.0 contains a copy of six that newer Pythons cannot import from.
    try:
        import kafka.vendor.six.moves  # noqa: F401
    except ImportError:
        import six

        sys.modules["kafka.vendor.six"] = six
        sys.modules["kafka.vendor.six.moves"] = six.moves

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka import __version__ as version
from kafka.admin import NewPartitions, NewTopic
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.structs import OffsetAndMetadata

NEW = version.startswith("3")
IDLE_SECONDS = 0.2
JOINING_SECONDS = 1.0
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
if NEW:
    from kafka.coordinator.assignors.abstract import RebalanceProtocol
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

    class BothWays(CooperativeStickyAssignor):
        """Cooperative-sticky beside an eager assignor, as in Java: for the first of the two rolling restarts."""

        def supported_protocols(self):
            return [RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE]

        def metadata(self, topics):
            # An eager member owns nothing when it joins.
            self.member_assignment = None
            return super().metadata(topics)

    ASSIGNORS["cooperative-sticky"] = CooperativeStickyAssignor
    ASSIGNORS["cooperative-sticky beside eager"] = BothWays


def offset_and_metadata(offset):
    extra = () if version.startswith("2.0") else (-1,)
    return OffsetAndMetadata(offset, "", *extra)


def offsets_of(offsets):
    return None if offsets is None else {TopicPartition(t, p): offset_and_metadata(o) for t, p, o in offsets}


class Listener(ConsumerRebalanceListener):
    def __init__(self, worker):
        self.worker = worker

    def on_partitions_revoked(self, revoked):
        emit(event="revoked", partitions=partitions(revoked))
        if self.worker.config.get("revoke_commit"):
            self.worker.consumer.commit()
        time.sleep(self.worker.config.get("revoke_s", 0))

    def on_partitions_lost(self, revoked):
        emit(event="lost", partitions=partitions(revoked))

    def on_partitions_assigned(self, assigned):
        emit(event="assigned", partitions=partitions(assigned))
        if self.worker.config.get("assign_seek") is not None:
            for each in assigned:
                self.worker.consumer.seek(each, self.worker.config["assign_seek"])
        if self.worker.config.get("assign_unsubscribe"):
            self.worker.consumer.unsubscribe()
        self.worker.report_owned(rebalanced=True)


class KafkaPython(Worker):
    def __init__(self, config):
        super().__init__(config)
        self.clients = {}
        self.consumer = None
        if config.get("group"):
            self.consumer = self.subscribe()

    def subscribe(self):
        config = self.config
        options = {"group_instance_id": config["instance"]} if config.get("instance") else {}
        if config.get("max_poll_ms"):
            options["max_poll_interval_ms"] = config["max_poll_ms"]
        if config.get("assignors"):
            names = config["assignors"]
            beside = " beside eager" if len(names) > 1 else ""
            options["partition_assignment_strategy"] = [
                ASSIGNORS[name + beside if name == "cooperative-sticky" else name] for name in names
            ]
        consumer = KafkaConsumer(
            bootstrap_servers=config["bootstrap"],
            client_id=config["client_id"],
            group_id=config["group"],
            session_timeout_ms=config["session_ms"],
            heartbeat_interval_ms=config["heartbeat_ms"],
            metadata_max_age_ms=config["metadata_ms"],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            **options,
        )
        consumer.subscribe(topics=config.get("topics") or (), pattern=config.get("pattern"), listener=Listener(self))
        # A leader without metadata assigns no partitions and joins again when it has metadata. If a short poll
        # ends while such a join is in flight, kafka-python ignores the assignment from that join.
        for topic in config.get("topics") or ():
            consumer.partitions_for_topic(topic)
        return consumer

    def poll(self, seconds):
        # kafka-python 3.0 ignores a join that ends between two polls, and joins again. An application that polls as
        # documented never sees that: here too a poll that joins lasts long enough for most joins.
        seconds = max(seconds, JOINING_SECONDS if self.consumer._coordinator.need_rejoin() else IDLE_SECONDS)
        batches = self.consumer.poll(timeout_ms=int(seconds * 1000))
        self.report_owned(rebalanced=False)
        for tp, records in batches.items():
            lines = [[r.offset, text(r.key), text(r.value), [[k, text(v)] for k, v in r.headers]] for r in records]
            emit(event="records", topic=tp.topic, partition=tp.partition, records=lines)

    def owned(self):
        return self.consumer.assignment()

    def generation(self):
        return self.consumer._coordinator._generation.generation_id

    def member_id(self):
        return self.consumer._coordinator._generation.member_id

    def do_commit(self, offsets=None):
        self.consumer.commit(offsets_of(offsets))

    def do_commit_async(self, number, offsets=None):
        def done(committed, outcome):
            if isinstance(outcome, Exception):
                emit(reply=number, error=error_name(outcome), text=str(outcome))
            else:
                emit(reply=number, value=None)

        self.consumer.commit_async(offsets_of(offsets), callback=done)

    def do_committed(self, topic, partition):
        return self.consumer.committed(TopicPartition(topic, partition))

    def do_pause(self, partitions):
        self.consumer.pause(*[TopicPartition(*each) for each in partitions])

    def do_resume(self, partitions):
        self.consumer.resume(*[TopicPartition(*each) for each in partitions])

    def do_seek(self, offsets):
        for topic, partition, offset in offsets:
            self.consumer.seek(TopicPartition(topic, partition), offset)

    def do_close(self):
        if self.consumer is not None:
            self.consumer.close()
        for client in self.clients.values():
            client.close()
        self.closed = True

    def do_produce(self, topic, records, compression=None):
        producer = self.clients.get("producer") or KafkaProducer(
            bootstrap_servers=self.config["bootstrap"], acks="all", compression_type=compression
        )
        self.clients["producer"] = producer
        sent = [
            producer.send(
                topic, value.encode(), key=key and key.encode(), headers=[(k, v.encode()) for k, v in headers]
            )
            if partition is None
            else producer.send(
                topic,
                value.encode(),
                key=key and key.encode(),
                headers=[(k, v.encode()) for k, v in headers],
                partition=partition,
            )
            for partition, key, value, headers in records
        ]
        return [[sent.partition, sent.offset] for sent in (future.get(30) for future in sent)]

    @property
    def admin(self):
        if "admin" not in self.clients:
            self.clients["admin"] = KafkaAdminClient(bootstrap_servers=self.config["bootstrap"])
        return self.clients["admin"]

    def do_create_topic(self, topic, partitions):
        if NEW:
            self.admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})
        else:
            self.admin.create_topics([NewTopic(topic, partitions, 1)])

    def do_delete_topic(self, topic):
        self.admin.delete_topics([topic])

    def do_grow_topic(self, topic, partitions):
        self.admin.create_partitions({topic: partitions if NEW else NewPartitions(partitions)})

    def do_list_groups(self):
        if NEW:
            return sorted(group["group_id"] for group in self.admin.list_groups())
        return sorted(group for group, protocol in self.admin.list_consumer_groups())

    def do_describe_group(self, group):
        if NEW:
            result = self.admin.describe_groups([group])[group]
            return {
                "state": result["group_state"],
                "protocol": result["protocol_data"],
                "members": [
                    [
                        member["member_id"],
                        member["client_id"],
                        sorted(
                            [topic["topic"], partition]
                            for topic in (member["member_assignment"] or {}).get("assigned_partitions", ())
                            for partition in topic["partitions"]
                        ),
                    ]
                    for member in result["members"]
                ],
            }
        (result,) = self.admin.describe_consumer_groups([group])
        return {
            "state": result.state,
            "protocol": result.protocol,
            "members": [
                [
                    member.member_id,
                    member.client_id,
                    sorted(
                        [topic, partition]
                        for topic, numbers in member.member_assignment.assignment
                        for partition in numbers
                    ),
                ]
                for member in result.members
            ],
        }

    def do_group_offsets(self, group):
        result = (
            self.admin.list_group_offsets({group: None})[group]
            if NEW
            else self.admin.list_consumer_group_offsets(group)
        )
        return sorted([tp.topic, tp.partition, committed.offset] for tp, committed in result.items())

    def do_alter_offsets(self, group, offsets):
        outcome = self.admin.alter_group_offsets(group, offsets_of(offsets))
        return sorted({error.__name__ for error in outcome.values()})

    def do_delete_offsets(self, group, partitions):
        outcome = self.admin.delete_group_offsets(group, [TopicPartition(*tp) for tp in partitions])
        return sorted({error.__name__ for error in outcome.values()})

    def do_delete_group(self, group):
        if NEW:
            return self.admin.delete_groups([group])[group]
        ((_, error),) = self.admin.delete_consumer_groups([group])
        return "OK" if error.errno == 0 else error.__name__


DESCRIPTION = {
    "name": f"kafka-python-{version}",
    "protocols": ["classic"],
    "assignors": sorted(name for name in ASSIGNORS if " " not in name),
    "static": not version.startswith("2.0"),
    "abilities": ["revoke-pause", "max-poll", "pause", "seek", "assign-seek"],
}
main(KafkaPython, DESCRIPTION)
