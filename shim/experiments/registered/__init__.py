"""An experiment: groups of consumers that register with a controller, which assigns, as the Client Rewrite proposed
before Kafka 0.9. A coordinator imports it only with `--experimental designs`. docs/designs.md.
"""
