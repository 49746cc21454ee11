"""aiokafka 0.14 and 0.11 behind the line protocol. Its own tasks run on while it is not polled."""

import asyncio
import json
import re
import sys
import traceback

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from lines import commands, emit, error_name, partitions, text

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):
    def __init__(self, worker):
        self.worker = worker

    async def on_partitions_revoked(self, revoked):
        emit(event="revoked", partitions=partitions(revoked))
        await asyncio.sleep(self.worker.config.get("revoke_s", 0))

    async def on_partitions_assigned(self, assigned):
        emit(event="assigned", partitions=partitions(assigned))
        self.worker.report_owned(True)


class Aiokafka:
    def __init__(self, config):
        self.config = config
        self.consumer = None
        self.going = asyncio.Event()
        self.last_report = None
        self.clients = {}

    async def subscribe(self):
        config = self.config
        options = {"group_instance_id": config["instance"]} if config.get("instance") else {}
        if config.get("max_poll_ms"):
            options["max_poll_interval_ms"] = config["max_poll_ms"]
        if config.get("assignors"):
            options["partition_assignment_strategy"] = [ASSIGNORS[name] for name in config["assignors"]]
        self.consumer = AIOKafkaConsumer(
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
        self.consumer.subscribe(
            topics=config.get("topics") or (), pattern=config.get("pattern"), listener=Listener(self)
        )
        await self.consumer.start()

    def generation(self):
        return self.consumer._coordinator.generation

    def member_id(self):
        return self.consumer._coordinator.member_id

    def report_owned(self, rebalanced):
        owned = partitions(self.consumer.assignment())
        now = {"partitions": owned, "generation": self.generation(), "member": self.member_id()}
        if rebalanced or now != self.last_report:
            self.last_report = now
            emit(event="owns", **now)

    async def poll(self):
        while True:
            await self.going.wait()
            try:
                batches = await self.consumer.getmany(timeout_ms=100)
            except Exception as error:
                emit(event="error", name=error_name(error), text=str(error))
                # A fenced client repeats the error for ever; the test decides the next step.
                if "Fenced" in type(error).__name__:
                    self.going.clear()
                continue
            self.report_owned(False)
            for tp, records in batches.items():
                lines = [[r.offset, text(r.key), text(r.value), [[k, text(v)] for k, v in r.headers]] for r in records]
                emit(event="records", topic=tp.topic, partition=tp.partition, records=lines)

    async def run(self):
        waiting = commands()
        emit(event="started")
        polling = None
        if self.config.get("group"):
            await self.subscribe()
            self.going.set()
            polling = asyncio.create_task(self.poll())
        loop = asyncio.get_running_loop()
        while True:
            command = await loop.run_in_executor(None, waiting.get)
            if command is None:
                return
            number, name = command.pop("id"), command.pop("do")
            if name == "close" and polling is not None:
                polling.cancel()
            try:
                value = await getattr(self, "do_" + name)(**command)
            except Exception as error:
                traceback.print_exc()
                emit(reply=number, error=error_name(error), text=str(error))
            else:
                emit(reply=number, value=value)
            if name == "close":
                emit(event="closed")
                return

    async def do_hold(self):
        self.going.clear()

    async def do_go(self):
        self.going.set()

    async def do_describe(self):
        owned = partitions(self.consumer.assignment())
        return {"generation": self.generation(), "member": self.member_id(), "partitions": owned}

    async def do_commit(self, offsets=None):
        await self.consumer.commit(None if offsets is None else {TopicPartition(t, p): o for t, p, o in offsets})

    # Nothing here blocks: each caller awaits its own commit.
    do_commit_async = do_commit

    async def do_committed(self, topic, partition):
        return await self.consumer.committed(TopicPartition(topic, partition))

    async def do_close(self):
        if self.consumer is not None:
            await self.consumer.stop()
        for client in self.clients.values():
            await (client.stop() if hasattr(client, "stop") else client.close())

    async def do_produce(self, topic, records, compression=None):
        if "producer" not in self.clients:
            self.clients["producer"] = AIOKafkaProducer(
                bootstrap_servers=self.config["bootstrap"], acks="all", compression_type=compression
            )
            await self.clients["producer"].start()
        futures = [
            await self.clients["producer"].send(
                topic,
                value.encode(),
                key=key and key.encode(),
                partition=partition,
                headers=[(k, v.encode()) for k, v in headers],
            )
            for partition, key, value, headers in records
        ]
        return [[sent.partition, sent.offset] for sent in [await future for future in futures]]

    async def admin(self):
        if "admin" not in self.clients:
            self.clients["admin"] = AIOKafkaAdminClient(bootstrap_servers=self.config["bootstrap"])
            await self.clients["admin"].start()
        return self.clients["admin"]

    async def do_create_topic(self, topic, partitions):
        response = await (await self.admin()).create_topics([NewTopic(topic, partitions, 1)])
        raise_errors(response.topic_errors)

    async def do_delete_topic(self, topic):
        response = await (await self.admin()).delete_topics([topic])
        raise_errors(response.topic_error_codes)

    async def do_grow_topic(self, topic, partitions):
        await (await self.admin()).create_partitions({topic: NewPartitions(partitions)})

    async def do_list_groups(self):
        return sorted(group[0] for group in await (await self.admin()).list_consumer_groups())

    async def do_describe_group(self, group):
        (response,) = await (await self.admin()).describe_consumer_groups([group])
        ((_, _, state, _, protocol, members, *_),) = response.groups
        return {
            "state": state,
            "protocol": protocol,
            "members": [
                [
                    member_id,
                    client_id,
                    sorted(
                        [topic, partition]
                        for topic, numbers in ConsumerProtocolMemberAssignment.decode(assignment).assignment
                        for partition in numbers
                    ),
                ]
                for member_id, client_id, _, _, assignment in (without_instance(member) for member in members)
            ],
        }

    async def do_group_offsets(self, group):
        offsets = await (await self.admin()).list_consumer_group_offsets(group)
        return sorted([tp.topic, tp.partition, committed.offset] for tp, committed in offsets.items())


def without_instance(member):
    """Drop the instance id, the second field of a member since DescribeGroups v4."""
    return member if len(member) == 5 else (member[0], *member[2:])


def raise_errors(errors):
    failed = [error for error in errors if error[1]]
    if failed:
        raise RuntimeError(re.sub(r"\s+", " ", repr(failed)))


async def main():
    await Aiokafka(json.loads(sys.argv[1])).run()


asyncio.run(main())
