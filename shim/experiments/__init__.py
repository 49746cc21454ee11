"""Protocols that no release of Kafka has. A coordinator loads one by its entry point, on request alone."""
