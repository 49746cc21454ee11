"""One HTML page that shows what a warehouse holds: who rebalanced, why, how long, and what broke. Needs no network."""

from kafka_shim.pipeline.report.page import report, write_report

__all__ = ["report", "write_report"]
