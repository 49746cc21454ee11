"""What is in Java, in one run of Maven: package, example, and the programs of docs/recipes/test_frameworks.md."""

import re
from pathlib import Path

import pytest

from tests.testing.languages.test_examples import example, program, run, scenarios
from tests.testing.test_recipes import RECIPES

SPRING_BOOT = "3.5.7"
_BOM = f"""
  <dependencyManagement><dependencies><dependency>
    <groupId>org.springframework.boot</groupId><artifactId>spring-boot-dependencies</artifactId>
    <version>{SPRING_BOOT}</version><type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>"""
_PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId><artifactId>{name}</artifactId><version>1</version>{more}
</project>
"""


def dependency(group: str, artifact: str, version: str = "") -> str:
    found = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
    return f"<dependency>{found}{f'<version>{version}</version>' if version else ''}</dependency>"


def saved(folder: Path, title: str, name: str) -> None:
    """The program of a recipe among the tests of a project."""
    path = folder / "src/test/java/billing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(RECIPES[title][1])


def spring_project(folder: Path) -> None:
    """A project that has what the page says a test with Spring Boot needs."""
    needed = [
        dependency("org.springframework.boot", "spring-boot-starter-test"),
        dependency("org.springframework.kafka", "spring-kafka"),
        dependency("io.github.kafka-group-shim", "kafka-group-shim-junit", "0-SNAPSHOT"),
    ]
    properties = "<properties><maven.compiler.release>17</maven.compiler.release></properties>"
    surefire = "<artifactId>maven-surefire-plugin</artifactId><version>3.5.4</version>"
    compiler = (
        "<artifactId>maven-compiler-plugin</artifactId><version>3.14.0</version>"
        "<configuration><parameters>true</parameters></configuration>"
    )
    build = f"<build><plugins><plugin>{compiler}</plugin><plugin>{surefire}</plugin></plugins></build>"
    more = f"{properties}{_BOM}<dependencies>{''.join(needed)}</dependencies>{build}"
    folder.mkdir(exist_ok=True)
    (folder / "pom.xml").write_text(_PROJECT.format(name="spring", more=more))
    saved(folder, "Spring Boot", "BillingApplicationTest.java")


@pytest.mark.timeout(400)
def test_package_example_and_recipes() -> None:
    maven = program("mvn")
    program("javac")
    project = example("java")
    saved(project, "JUnit 5", "OrdersTest.java")
    home = project.parents[1]
    spring_project(home / "spring")
    modules = "".join(f"<module>{each}</module>" for each in ("clients/java", "examples/java", "spring"))
    more = f"<packaging>pom</packaging><modules>{modules}</modules>"
    (home / "pom.xml").write_text(_PROJECT.format(name="all", more=more))
    run([maven, "-q", "-B", "test"], home)
    ran = {}
    for report in home.glob("**/surefire-reports/*.xml"):
        head = re.search(r'<testsuite [^>]*?name="([\w.]+)"[^>]*', report.read_text())
        assert head is not None
        ran[head[1]] = re.findall(r' (tests|errors|skipped|failures)="(\d+)"', head[0])
    tests = {
        "kafkashim.CoordinatorTest": 4,
        "example.BillingTest": len(scenarios("java")),
        "billing.OrdersTest": 1,
        "billing.BillingApplicationTest": 1,
    }
    assert {name: dict(counts) for name, counts in ran.items()} == {
        name: {"tests": str(count), "errors": "0", "skipped": "0", "failures": "0"} for name, count in tests.items()
    }
