"""Containers of docker-compose.yml and of the docs are reached from this machine alone: they ask for no password."""

import re

import yaml

from tests.packaging.conftest import ROOT

PUBLISHED = re.compile(r"(?:-p|--publish)[ =](\S*\d:\d+)")
PAGES = [*ROOT.glob("*.md"), ROOT / "Dockerfile", *(ROOT / "docs").rglob("*.md")]


def test_ports_are_published_on_loopback() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert len(ports) >= 5
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_commands_of_the_docs_publish_on_loopback() -> None:
    ports = [(page.name, port) for page in PAGES for port in PUBLISHED.findall(page.read_text())]
    assert {"Dockerfile", "installing.md"} <= {name for name, _ in ports}
    assert [each for each in ports if not each[1].startswith("127.0.0.1:")] == []
