"""The actions of faults are the same in the code, the documentation, the page and the client packages."""

import re
from pathlib import Path

from kafka_shim.control.api import operations
from kafka_shim.control.openapi import openapi
from kafka_shim.lab import faults
from kafka_shim.trace.events import FAULT_ACTIONS
from kafka_shim.why.page import asset

ROOT = Path(__file__).resolve().parents[2]


def test_one_file_of_the_client_packages_lists_the_actions() -> None:
    sources = [path for path in (ROOT / "clients").rglob("*.*") if path.suffix in {".js", ".ts", ".go", ".java"}]
    listing = {path.name: path.read_text() for path in sources if FAULT_ACTIONS[-2] in path.read_text()}
    assert listing.keys() == {"index.d.ts"}
    listed = " | ".join(f"'{action}'" for action in FAULT_ACTIONS)
    assert f" {listed}," in listing["index.d.ts"]


def test_the_page_offers_what_the_server_describes() -> None:
    """The page fills its list from this document, and has an input for each field that an action must be given."""
    document = openapi(operations(lab=True))
    body = document["paths"]["/v1/faults"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert tuple(body["discriminator"]["mapping"]) == FAULT_ACTIONS
    form = asset("index.html").decode().partition('<form id="lab-fault">')[2].partition("</form>")[0]
    assert "<option" not in form
    schemas = [document["components"]["schemas"][each["$ref"].rpartition("/")[2]] for each in body["anyOf"]]
    required = {name for each in schemas for name in each["required"]}
    assert {"error", "seconds"} < required <= set(re.findall(r' name="(\w+)"', form))


def test_the_documentation_describes_every_action() -> None:
    section = (ROOT / "docs/testing.md").read_text().partition("## Faults and barriers")[2].partition("\n\n`group`")[0]
    assert tuple(re.findall(r"^\| `([\w-]+)`", section, re.MULTILINE)) == FAULT_ACTIONS


def test_the_module_describes_every_action() -> None:
    assert tuple(re.findall(r"^    ([\w-]+)  ", faults.__doc__ or "", re.MULTILINE)) == FAULT_ACTIONS
