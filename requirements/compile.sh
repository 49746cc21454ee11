#!/bin/sh
# Rewrites the lock files from pyproject.toml. Needs uv; installing from them needs only pip.
# One resolution of everything fixes the versions; each group's file is then cut from it.
set -eu
cd "$(dirname "$0")/.."
UV=${UV:-uv}
lock() {
    "$UV" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-emit-find-links --no-annotate --no-header "$@"
}
all=$(mktemp)
trap 'rm -f "$all"' EXIT
lock pyproject.toml --all-extras --group build --group wheel --output-file "$all"
lock pyproject.toml --constraint "$all" --output-file requirements/core.txt
lock --group build --constraint "$all" --output-file requirements/build.txt
lock --group docs --output-file requirements/docs.txt
lock --group uv --output-file requirements/uv.txt
lock --group program --constraint "$all" --output-file requirements/program.txt
lock pyproject.toml --group wheel --constraint "$all" --output-file requirements/wheel.txt
for extra in cli postgres clients containers security test spark; do
    lock pyproject.toml --extra "$extra" --constraint "$all" --output-file "requirements/$extra.txt"
done
for old in requirements/old/*.in; do
    lock "$old" --output-file "${old%.in}.txt"
done
# The lowest versions that pyproject.toml allows, for a test that works with these.
lock pyproject.toml --extra cli --extra postgres --extra clients --extra security --group wheel \
    --resolution lowest-direct --output-file requirements/old/lowest.txt
