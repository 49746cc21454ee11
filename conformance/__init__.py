"""A conformance suite for Kafka group coordinators: cases, the runner, and reports with the bytes as evidence.

A case is a function with a stable id that plays scripted members against a target over plain sockets. The runner gives
each cell (case, version) a verdict and compares it with the expectations for that target. Real Apache Kafka is the
oracle: where it disagrees with a case, the case is wrong.
"""
