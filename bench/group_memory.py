"""A server's memory per member of a KIP-848 group and per assigned partition.

    python -m bench.group_memory [--servers shim,kfake,kafka] [--members 500] [--topics 10] [--partitions 500]

The group forms twice, each time on a new server: once with `FEW` partitions per topic, once with all; `AT_ONCE` members
join together. The growth of the server since the topics were created is its resident memory by the kernel. The figure
per member is the growth with few partitions, including the connection; the figure per partition comes from the
difference. Freed memory that was not returned to the kernel counts.
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from bench.forming import measure
from kafka_shim.conformance.targets.base import TargetError

FEW = 5
AT_ONCE = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="shim,kfake,kafka")
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--topics", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=500)
    arguments = parser.parse_args()
    members, topics, partitions = arguments.members, arguments.topics, arguments.partitions
    table = Table(title=f"{members} members, {topics} topics of {partitions} partitions")
    for column in ("server", "bytes a member", "bytes a partition"):
        table.add_column(column, justify="left" if column == "server" else "right")
    for name in arguments.servers.split(","):
        try:
            few, many = (measure(name, members, topics, count, AT_ONCE).grown_kib * 1024 for count in (FEW, partitions))
            by_partition = (many - few) / (topics * (partitions - FEW))
            table.add_row(name, f"{few / members:,.0f}", f"{by_partition:,.0f}")
        except (TargetError, RuntimeError, OSError) as error:
            table.add_row(name, str(error))
        Console(width=100).print(table)


if __name__ == "__main__":
    main()
