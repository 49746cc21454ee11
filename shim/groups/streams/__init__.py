"""Streams groups (KIP-1071): Kafka Streams applications whose tasks the coordinator assigns."""
