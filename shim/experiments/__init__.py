"""Protocols that no release of Kafka has. A coordinator imports one only with `--experimental NAME`."""
