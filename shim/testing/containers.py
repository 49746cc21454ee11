"""`KafkaShimContainer`: the image as a Testcontainers module, for tests whose other services are containers too.

It chooses the published ports, because the server must advertise them. A test in Python alone does not need it:
`CoordinatorServer` runs in its own process.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping
from typing import Any, Final, Self

try:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy
except ImportError as error:
    raise ImportError("this needs testcontainers: pip install 'kafka-group-shim[containers]'") from error

KAFKA_PORT: Final = 9092
CONTROL_PORT: Final = 8092
READY: Final = "ready kafka="
"""Prefix of the line that the server prints once it listens."""


class KafkaShimContainer(DockerContainer):
    """A coordinator in a container, with its control server and laboratory. Use it in a `with` block.

    `topics` are names and numbers of partitions, `config` broker settings by Kafka's names; keywords go to
    `DockerContainer`.
    """

    def __init__(
        self,
        image: str = "kafka-group-shim",
        *,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__(image, **keywords)
        self.token: Final = secrets.token_urlsafe()
        # Chosen here and not by the engine: the server advertises the outside port, so it needs it at its start.
        self._kafka_port, self._control_port = _free_port(), _free_port()
        self.with_bind_ports(KAFKA_PORT, self._kafka_port)
        self.with_bind_ports(CONTROL_PORT, self._control_port)
        command = ["serve", "--lab", "--store", "memory:", "--control", f"0.0.0.0:{CONTROL_PORT}"]
        for topic, partitions in (topics or {}).items():
            command += ["--topic", f"{topic}:{partitions}"]
        for name, value in (config or {}).items():
            command += ["--config", f"{name}={value}"]
        self.with_command(command)
        self.with_env("KAFKA_SHIM_CONTROL_TOKEN", self.token)
        self.waiting_for(LogMessageWaitStrategy(READY))

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients outside of the container."""
        return f"{self._host}:{self._kafka_port}"

    @property
    def control(self) -> str:
        """The base URL of the control server; requests need the header `Authorization: Bearer TOKEN`, see `token`."""
        return f"http://{self._host}:{self._control_port}"

    @property
    def _host(self) -> str:
        # Not `get_container_host_ip`, which may query a container that does not run yet.
        return self.get_docker_client().host()

    def start(self) -> Self:
        self.with_env("KAFKA_SHIM_SERVE_ADVERTISE", self.bootstrap)
        return super().start()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port
