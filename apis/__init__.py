"""What the bytes mean: one module per API key, and in `kafka_shim.apis.wire` how messages become bytes.

Knows nothing of groups, sockets or clocks.
"""
