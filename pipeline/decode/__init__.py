"""Decoders from bytes to Arrow: batches and records of log segments, lines of traces. They do not use Spark."""
