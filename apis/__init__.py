"""Kafka's messages as bytes: one module per API key, and the wire codec in `kafka_shim.apis.wire`."""
