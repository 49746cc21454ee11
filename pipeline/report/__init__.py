"""The report of a warehouse: one HTML page about causes, durations, slow members and faults. It needs no network."""

from kafka_shim.pipeline.report.page import report, write_report

__all__ = ["report", "write_report"]
