"""Builds every package of a release into `dist/`, and tries each: `make dist`; with `--file-only` those for Python.

The sdist and the wheel, the command as one file and as a program, the packages for Node.js and Java, and the image. The
Go package is its tag, so that it is only compiled. A package whose tools are missing here is named, and not built.
"""

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onefile
import program

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"


def run(*command: str, cwd: Path = ROOT, **variables: str) -> str:
    """Runs a command and returns its output; ends with that output if the command fails."""
    done = subprocess.run(command, cwd=cwd, env=os.environ | variables, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def tool(name: str, *folders: str) -> "str | None":
    """Returns the path of a tool, None if it is not here."""
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *folders]))


def python_packages() -> str:
    """Builds the sdist, the wheel and the file, and returns the version."""
    run(sys.executable, "-m", "build", "--no-isolation")
    (wheel,) = DIST.glob("*.whl")
    version = wheel.name.split("-")[1]
    system = f"{sys.platform}_{platform.machine()}"
    file = DIST / f"kafka-shim-{version}-cp{sys.version_info[0]}{sys.version_info[1]}-{system}.pyz"
    onefile.make(wheel, file)
    with tempfile.TemporaryDirectory() as cache:
        said = run(sys.executable, str(file), "--version", XDG_CACHE_HOME=cache)
        assert version in said, said
    if with_python_inside():
        packed = DIST / f"kafka-shim-{version}-{system}.tar.gz"
        program.make(wheel, packed)
        with tempfile.TemporaryDirectory() as name:
            shutil.unpack_archive(packed, name, filter="data")
            said = run(str(Path(name) / "kafka-shim" / "kafka-shim"), "--version", PATH="")
            assert version in said, said
    return version


def with_python_inside() -> bool:
    """Returns True if this environment has `program.txt`."""
    return importlib.util.find_spec("PyInstaller") is not None


def of_npm(version: str, npm: str, folder: Path) -> None:
    """Packs the package for Node.js, and imports it from the packed file."""
    source, project = folder / "node", folder / "project"
    shutil.copytree(ROOT / "clients" / "node", source, ignore=shutil.ignore_patterns("node_modules"))
    about = json.loads((source / "package.json").read_text())
    # npm takes versions of three numbers; a development version has more parts.
    about["version"] = version if version.count(".") == 2 and "+" not in version else "0.0.0"
    del about["private"]
    (source / "package.json").write_text(json.dumps(about, indent=2) + "\n")
    run(npm, "pack", "--pack-destination", str(DIST), cwd=source)
    (packed,) = DIST.glob("*.tgz")
    project.mkdir()
    run(npm, "install", "--no-audit", "--no-fund", "--offline", str(packed), cwd=project)
    loaded = "import('kafka-group-shim').then(all => { if (!all.Coordinator) process.exit(1) })"
    run("node", "--input-type=module", "--eval", loaded, cwd=project)


def of_java(version: str, maven: str, folder: Path) -> None:
    """Compiles the package for JUnit. Its own tests are among those of the repository."""
    source = folder / "java"
    shutil.copytree(ROOT / "clients" / "java", source, ignore=shutil.ignore_patterns("target"))
    pom = source / "pom.xml"
    pom.write_text(pom.read_text().replace("<version>0-SNAPSHOT</version>", f"<version>{version}</version>", 1))
    run(maven, "--batch-mode", "--quiet", "-DskipTests", "package", cwd=source)
    shutil.copy(source / "target" / f"kafka-group-shim-junit-{version}.jar", DIST)


def main() -> None:
    """Builds them all, and prints the names of the files and of the packages that were not built."""
    shutil.rmtree(DIST, ignore_errors=True)
    version = python_packages()
    if sys.argv[1:] == ["--file-only"]:
        return
    missing = [] if with_python_inside() else ["the program (requirements/program.txt)"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if (npm := tool("npm")) and tool("node"):
            of_npm(version, npm, folder)
        else:
            missing.append("the Node.js package (npm)")
        if (maven := tool("mvn")) and tool("javac"):
            of_java(version, maven, folder)
        else:
            missing.append("the Java package (mvn and a JDK)")
    if go := tool("go", "/usr/local/go/bin"):
        run(go, "vet", "./...", cwd=ROOT / "clients" / "go")
    else:
        missing.append("the Go package (go)")
    if (docker := tool("docker")) and subprocess.run([docker, "info"], capture_output=True).returncode == 0:
        run(docker, "build", "--tag", "kafka-group-shim", "--build-arg", f"VERSION={version}", ".")
        assert version in run(docker, "run", "--rm", "kafka-group-shim", "--version")
    else:
        missing.append("the image (a Docker daemon)")
    print("\n".join(f"dist/{path.name}" for path in sorted(DIST.iterdir())))
    for each in missing:
        print(f"not built: {each}")


if __name__ == "__main__":
    main()
