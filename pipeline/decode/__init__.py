"""Bytes to Arrow: batches and records of log segments, lines of traces. None of it knows Spark."""
