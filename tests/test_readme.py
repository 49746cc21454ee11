"""The commands and programs of the README run unchanged, except for ports and paths."""

import json
import re
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.second_stage("the README, Spark and its time")

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

MARKED = r"<!-- run: tests/test_readme.py -->\n```{language}\n(.*?)```"


def blocks(language: str) -> list[str]:
    return re.findall(MARKED.format(language=language), (ROOT / "README.md").read_text(), re.S)


def test_the_commands_of_the_readme_serve_a_client(tmp_path: Path) -> None:
    (serve,), looks = blocks("sh")[0].splitlines(), blocks("sh")[1].splitlines()
    assert serve.startswith("kafka-shim serve ")
    words = [re.sub(r":(9092|8092)$", ":0", word) for word in shlex.split(serve)[1:]]
    server = subprocess.Popen([BIN / "kafka-shim", *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        ready = re.fullmatch(r"ready kafka=(\S+) control=(\S+)\n", server.stdout.readline())
        kafka, control = ready.groups()
        program = blocks("python")[0].replace("127.0.0.1:9092", kafka)
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert (ran.stdout, ran.returncode) == ("b'hello'\n", 0), ran.stderr

        *urls, search = looks
        pages = {}
        for url in urls:
            address = url.removeprefix("curl ").replace("http://127.0.0.1:8092", control)
            with urllib.request.urlopen(address, timeout=10) as page:
                pages[url.rpartition("8092")[2]] = page.read().decode()
        assert json.loads(pages["/health"]) == {"status": "ok"}
        assert "# TYPE " in pages["/metrics"]
        assert "billing" in pages["/v1/groups/billing"]
        result = subprocess.run(
            [BIN / "kafka-shim", *shlex.split(search)[1:]], cwd=tmp_path, capture_output=True, text=True
        )
        assert "NEW_MEMBER" in result.stdout
    finally:
        server.terminate()
        assert server.wait(20) == 0


@pytest.mark.parametrize(("block", "tests"), [(1, 1)])
def test_the_tests_in_the_readme_pass(tmp_path: Path, block: int, tests: int) -> None:
    module = tmp_path / "test_shown.py"
    module.write_text(blocks("python")[block])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, module]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert f"{tests} passed" in ran.stdout, ran.stdout


def test_the_pipeline_reports_on_its_generated_trace(tmp_path: Path) -> None:
    for command in blocks("sh")[2].splitlines():
        words = [BIN / "kafka-shim", *shlex.split(command)[1:]]
        ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr[-2000:]
    assert "<html" in (tmp_path / "report/report.html").read_text()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
