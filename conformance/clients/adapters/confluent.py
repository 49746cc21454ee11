"""The adapter of confluent-kafka (librdkafka) to the line protocol."""

import struct
import time

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from lines import Worker, emit, error_name, main, partitions, text


class Confluent(Worker):
    def __init__(self, config):
        super().__init__(config)
        self.rebalanced = False
        self.awaited = []
        self.clients = {}
        if config.get("group"):
            self.consumer = self.subscribe()

    def subscribe(self):
        config = self.config
        options = {"group.instance.id": config["instance"]} if config.get("instance") else {}
        if config.get("max_poll_ms"):
            options["max.poll.interval.ms"] = config["max_poll_ms"]
        if config.get("protocol") == "consumer":
            # The coordinator sets the heartbeat interval and the session timeout.
            options["group.protocol"] = "consumer"
            if config.get("assignors"):
                (options["group.remote.assignor"],) = config["assignors"]
        else:
            options["session.timeout.ms"] = config["session_ms"]
            options["heartbeat.interval.ms"] = config["heartbeat_ms"]
            if config.get("assignors"):
                options["partition.assignment.strategy"] = ",".join(config["assignors"])
        if config.get("verbose"):
            options["debug"] = "cgrp"
        consumer = Consumer(
            {
                "bootstrap.servers": config["bootstrap"],
                "client.id": config["client_id"],
                "group.id": config["group"],
                "topic.metadata.refresh.interval.ms": config["metadata_ms"],
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "on_commit": self.on_commit,
                **options,
            }
        )
        self.listen(consumer, ["^" + config["pattern"].lstrip("^")] if config.get("pattern") else config["topics"])
        return consumer

    def listen(self, consumer, topics):
        consumer.subscribe(topics, on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_lost)

    def do_subscribe(self, topics):
        self.listen(self.consumer, topics)

    def do_unsubscribe(self):
        self.consumer.unsubscribe()

    def on_assign(self, consumer, assigned):
        self.rebalanced = True
        emit(event="assigned", partitions=partitions(assigned))
        offset = self.config.get("assign_seek")
        if offset is not None:
            # Reading starts at the offsets assigned in the callback.
            placed = [TopicPartition(each.topic, each.partition, offset) for each in assigned]
            incremental = "cooperative-sticky" in self.config.get("assignors", ())
            (consumer.incremental_assign if incremental else consumer.assign)(placed)
        if self.config.get("assign_unsubscribe"):
            consumer.unsubscribe()

    def on_revoke(self, consumer, revoked):
        emit(event="revoked", partitions=partitions(revoked))
        if self.config.get("revoke_commit"):
            consumer.commit(asynchronous=False)
        time.sleep(self.config.get("revoke_s", 0))

    def on_lost(self, consumer, revoked):
        emit(event="lost", partitions=partitions(revoked))

    def on_commit(self, error, committed):
        if not self.awaited:
            return
        failed = error or next((tp.error for tp in committed if tp.error), None)
        if failed:
            emit(reply=self.awaited.pop(0), error=failed.name(), text=failed.str())
        else:
            emit(reply=self.awaited.pop(0), value=None)

    def poll(self, seconds):
        message = self.consumer.poll(min(seconds, 0.1))
        batch = {}
        while message is not None:
            if message.error():
                # A fenced client repeats the error for ever; the test decides the next step.
                self.is_held = message.error().fatal()
                emit(event="error", name=message.error().name(), text=message.error().str())
                break
            headers = [[name, text(value)] for name, value in message.headers() or ()]
            record = [message.offset(), text(message.key()), text(message.value()), headers]
            batch.setdefault((message.topic(), message.partition()), []).append(record)
            message = self.consumer.poll(0)
        rebalanced, self.rebalanced = self.rebalanced, False
        self.report_owned(rebalanced)
        for (topic, partition), records in batch.items():
            emit(event="records", topic=topic, partition=partition, records=records)

    def owned(self):
        return self.consumer.assignment()

    def generation(self):
        # The serialised form: a magic, then the generation as a native integer.
        (generation,) = struct.unpack_from("=i", self.consumer.consumer_group_metadata(), len("CGMDv2:"))
        return generation

    def member_id(self):
        return self.consumer.memberid()

    @staticmethod
    def offsets_argument(offsets):
        return {} if offsets is None else {"offsets": [TopicPartition(t, p, o) for t, p, o in offsets]}

    def do_commit(self, offsets=None):
        for committed in self.consumer.commit(asynchronous=False, **self.offsets_argument(offsets)):
            if committed.error:
                raise KafkaException(committed.error)

    def do_commit_async(self, number, offsets=None):
        try:
            self.awaited.append(number)
            self.consumer.commit(asynchronous=True, **self.offsets_argument(offsets))
        except KafkaException as error:
            self.awaited.remove(number)
            emit(reply=number, error=error_name(error), text=str(error))

    def do_committed(self, topic, partition):
        (committed,) = self.consumer.committed([TopicPartition(topic, partition)], timeout=20)
        if committed.error:
            raise KafkaException(committed.error)
        return committed.offset if committed.offset >= 0 else None

    def do_pause(self, partitions):
        self.consumer.pause([TopicPartition(*each) for each in partitions])

    def do_resume(self, partitions):
        self.consumer.resume([TopicPartition(*each) for each in partitions])

    def do_seek(self, offsets):
        for each in offsets:
            self.consumer.seek(TopicPartition(*each))

    def do_close(self):
        if self.config.get("group"):
            self.consumer.close()
        self.closed = True

    def do_produce(self, topic, records, compression=None):
        if "producer" not in self.clients:
            self.clients["producer"] = Producer(
                {
                    "bootstrap.servers": self.config["bootstrap"],
                    "compression.type": compression or "none",
                    "enable.idempotence": True,
                    "linger.ms": 5,
                }
            )
        producer, sent = self.clients["producer"], {}

        def delivered(number):
            def remember(error, message):
                sent[number] = error or [message.partition(), message.offset()]

            return remember

        for number, (partition, key, value, headers) in enumerate(records):
            producer.produce(
                topic,
                value.encode(),
                key=key and key.encode(),
                partition=-1 if partition is None else partition,
                headers=[(k, v.encode()) for k, v in headers],
                on_delivery=delivered(number),
            )
        producer.flush(30)
        return [sent[number] for number in range(len(records))]

    @property
    def admin(self):
        if "admin" not in self.clients:
            self.clients["admin"] = AdminClient({"bootstrap.servers": self.config["bootstrap"]})
        return self.clients["admin"]

    def do_create_topic(self, topic, partitions):
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)

    def do_delete_topic(self, topic):
        self.admin.delete_topics([topic])[topic].result(20)

    def do_grow_topic(self, topic, partitions):
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(20)

    def do_list_groups(self):
        return sorted(group.group_id for group in self.admin.list_consumer_groups().result(20).valid)

    def do_describe_group(self, group):
        result = self.admin.describe_consumer_groups([group])[group].result(20)
        return {
            "state": result.state.name.title().replace("_", ""),
            "protocol": result.partition_assignor,
            "members": [
                [member.member_id, member.client_id, partitions(member.assignment.topic_partitions)]
                for member in result.members
            ],
        }

    def do_group_offsets(self, group):
        result = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(20)
        return sorted([tp.topic, tp.partition, tp.offset] for tp in result.topic_partitions)

    def do_alter_offsets(self, group, offsets):
        request = ConsumerGroupTopicPartitions(group, [TopicPartition(t, p, o) for t, p, o in offsets])
        result = self.admin.alter_consumer_group_offsets([request])[group].result(20)
        return sorted({tp.error.name() if tp.error else "NoError" for tp in result.topic_partitions})

    def do_delete_group(self, group):
        try:
            self.admin.delete_consumer_groups([group])[group].result(20)
        except KafkaException as error:
            return error_name(error)
        return "OK"


main(Confluent)
