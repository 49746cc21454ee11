"""Apache Kafka with its own log: `server.log` in the layout of its distribution, at its level INFO."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafka_shim.conformance.targets.kafka import NEWEST, KafkaTarget, jars_of

_LAYOUT: Final = "[%d] %p %m (%c)%n"
"""The pattern of log4j.properties (to 3.9) and of log4j2.yaml (4.0 and later)."""
_LOG4J: Final = """\
log4j.rootLogger=INFO, server
log4j.appender.server=org.apache.log4j.FileAppender
log4j.appender.server.File={file}
log4j.appender.server.layout=org.apache.log4j.PatternLayout
log4j.appender.server.layout.ConversionPattern={layout}
"""
_LOG4J2: Final = """\
appender.server.type=File
appender.server.name=server
appender.server.fileName={file}
appender.server.layout.type=PatternLayout
appender.server.layout.pattern={layout}
rootLogger.level=INFO
rootLogger.appenderRef.server.ref=server
"""
SETTINGS: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "3000",
    "group.min.session.timeout.ms": "6000",
}
"""Kafka's own defaults, in place of those of a profile that is quick."""
EPOCHS: Final[Mapping[str, str]] = {
    "group.consumer.assignment.interval.ms": "1000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
"""Sessions of consumer groups that a recording may wait for: clients have no setting for them."""


class LoggingKafka(KafkaTarget):
    """A broker of this release line, `4.4`; its lines of level INFO are in the file `log`."""

    def __init__(self, line: str, log: Path) -> None:
        self._is_new = int(line.partition(".")[0]) >= 4
        super().__init__(line, {**SETTINGS, **(EPOCHS if self._is_new else {})})
        self.log = log

    def logging_options(self) -> list[str]:
        """Return Java's options for the log in the file, with the class path."""
        kafka = f"org.apache.kafka:kafka_2.13:{NEWEST.get(self.version, self.version)}"
        layout = self.log.with_name("log4j2.properties" if self._is_new else "log4j.properties")
        layout.write_text((_LOG4J2 if self._is_new else _LOG4J).format(file=self.log, layout=_LAYOUT))
        name = f"kafka-{self.version}-log4j"
        if self._is_new:
            backend = ("org.apache.logging.log4j:log4j-slf4j-impl:2.25.5", "org.apache.logging.log4j:log4j-core:2.25.5")
            return [f"-Dlog4j2.configurationFile={layout}", "-cp", jars_of(name, kafka, *backend)]
        backend = ("org.slf4j:slf4j-reload4j:1.7.36",)
        return [f"-Dlog4j.configuration=file:{layout}", "-cp", jars_of(name, kafka, *backend)]
