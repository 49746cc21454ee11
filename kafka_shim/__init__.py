"""A Kafka-compatible group coordinator on trio: for tests, for conformance, for understanding rebalances.

Every part is a link to its folder at the top of the repository, `kafka_shim/apis` to `apis/` and so on, so that a
module has one name and an installation one place on the path. The public surface is `kafka_shim.testing`, the command
line `kafka-shim`, and what `docs/` names.
"""
