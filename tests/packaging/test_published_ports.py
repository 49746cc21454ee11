"""The containers of docker-compose.yml are reached from this machine alone: they ask for no password."""

import yaml

from tests.packaging.conftest import ROOT


def test_ports_are_published_on_loopback() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert len(ports) >= 5
    assert all(port.startswith("127.0.0.1:") for port in ports)
