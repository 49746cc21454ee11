"""All Java parts in one run of Maven: package, example, and the programs of docs/recipes/test_frameworks.md."""

import re
import shutil
from pathlib import Path

import pytest

from tests.testing.languages.test_examples import PUBLIC, example, program, run, scenarios
from tests.testing.test_recipes import POMS, RECIPES

pytestmark = pytest.mark.second_stage("Java, Go and Node.js")

_PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId><artifactId>all</artifactId><version>1</version>
  <packaging>pom</packaging><modules>{modules}</modules>
</project>
"""


def saved(folder: Path, title: str, name: str) -> None:
    """The project of a recipe, as the page has it."""
    path = folder / "src/test/java/billing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(RECIPES[title][1])
    (folder / "pom.xml").write_text(POMS[title])


def test_package_example_and_recipes() -> None:
    maven = program("mvn")
    program("javac")
    folder = example("java")
    shutil.copy(PUBLIC / "LostPartitionsTest.java", folder / "src/test/java/example")
    home = folder.parents[1]
    saved(home / "junit", "JUnit 5", "OrdersTest.java")
    saved(home / "spring", "Spring Boot", "BillingApplicationTest.java")
    modules = "".join(f"<module>{each}</module>" for each in ("clients/java", "examples/java", "junit", "spring"))
    (home / "pom.xml").write_text(_PROJECT.format(modules=modules))
    run([maven, "-q", "-B", "test"], home)
    ran = {}
    for report in home.glob("**/surefire-reports/*.xml"):
        head = re.search(r'<testsuite [^>]*?name="([\w.]+)"[^>]*', report.read_text())
        assert head is not None
        ran[head[1]] = re.findall(r' (tests|errors|skipped|failures)="(\d+)"', head[0])
    tests = {
        "kafkashim.CoordinatorTest": 5,
        "kafkashim.FailedTest": 1,
        "example.BillingTest": len(scenarios("java")),
        "example.LostPartitionsTest": 2,
        "billing.OrdersTest": 1,
        "billing.BillingApplicationTest": 1,
    }
    assert {name: dict(counts) for name, counts in ran.items()} == {
        name: {"tests": str(count), "errors": "0", "skipped": "0", "failures": "0"} for name, count in tests.items()
    }
