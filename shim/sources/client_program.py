"""`ClientProgram`: a client library, with lines about one client each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kafka_shim.sources.layouts import Line
from kafka_shim.sources.patterns import Program
from kafka_shim.sources.signs import Sign
from kafka_shim.trace.clients import Library

PROGRAM: Final = "program"
"""The field of a sign with the name of the program."""
_INSTANCE: Final = "#consumer-"
"""The separator in librdkafka's name of a client."""


@dataclass(frozen=True)
class ClientProgram(Program):
    """A client library, with its loggers as a regular expression, empty for any. Its signs have its name as a field."""

    library: Library = Library.UNKNOWN
    loggers: str = ""

    def sign(self, line: Line) -> Sign | None:
        """Return the sign of a line; None if no pattern matches, or its logger is of another program."""
        if line.logger and self.loggers and re.match(self.loggers, line.logger) is None:
            return None
        sign = super().sign(line)
        if sign is None:
            return None
        group = sign.group or sign.fields.get("of_group", "") or line.fields.get("groupId", "")
        member = sign.member or line.fields.get("memberId", "")
        fields = {**sign.fields, PROGRAM: self.name}
        name = line.fields.get("name", "")
        if _INSTANCE in name:
            fields.setdefault("client_id", name.rpartition(_INSTANCE)[0])
        return sign._replace(group=group, member=member, fields=fields)
