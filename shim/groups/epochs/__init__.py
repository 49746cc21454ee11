"""The parts that all kinds of groups with epochs share, after Kafka's `group/modern/`."""
