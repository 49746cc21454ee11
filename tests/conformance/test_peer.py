"""Facts about a target that cells in several threads share."""

import sys
import threading

from kafka_shim.conformance.peer import Peer
from kafka_shim.conformance.targets.base import Instance, Limits


def test_topic_names_can_be_read_while_other_cells_create_topics() -> None:
    peer = Peer(Instance("127.0.0.1", 1, "default", Limits(initial_rebalance_delay=0)), {})
    peer.topic_ids.update({f"old-{number}": number.to_bytes(16, "big") for number in range(5_000)})
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def create() -> None:
        for number in range(5_000, 30_000):
            peer.topic_ids[f"new-{number}"] = number.to_bytes(16, "big")

    creator = threading.Thread(target=create)
    creator.start()
    try:
        while creator.is_alive():
            assert len(peer.topic_names()) >= 5_000
    finally:
        sys.setswitchinterval(interval)
        creator.join()
    assert len(peer.topic_names()) == 30_000


def test_the_versions_tell_the_release_unless_it_is_chosen() -> None:
    instance = Instance("127.0.0.1", 1, "default", Limits(initial_rebalance_delay=0))
    newest = {28: (0, 6), 35: (1, 5)}
    releases = [Peer(instance, versions).release for versions in (newest, {28: (0, 5), 35: (1, 5)}, {28: (0, 5)}, {})]
    assert releases == ["4.4", "4.3", "4.2", "4.2"]
    assert Peer(instance, newest, release="4.3").release == "4.3"
