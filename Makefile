# Everything sets itself up: `make demo` and `make test` need Python 3.11 or later and make, nothing else.
# What is installed is what requirements/*.txt say, checked by hash; a second run finds it done.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# The first interpreter that is new enough and starts.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)

BIN := .venv/bin
INSTALL = $(if $(PYTHON),$(PYTHON),$(error no Python 3.11 or later was found; name one with PYTHON=...)) \
	requirements/install.py --project .venv requirements/build.txt
DOCS_INSTALL = $(if $(PYTHON),$(PYTHON),$(error no Python 3.11 or later was found; name one with PYTHON=...)) \
	requirements/install.py .venvs/docs requirements/docs.txt
JOBS ?= 4
ARGS ?=
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -p tests.unsteady

# Where this is set, as in many containers, each of the hundreds of servers and clients that the tests start would compile
# the project anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo serve check test everything lint unit every-test unsteady mutants docs dist release fuzz conformance kafka-diff bench bench-stores bench-crash

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile

demo: demo-environment ## watch real consumers form a group, lose a member and carry on
	@$(BIN)/kafka-shim demo $(ARGS)

serve: demo-environment ## the server of the demo, left running on port 9092 (ARGS="--trace FILE ...")
	@$(BIN)/kafka-shim serve --control 127.0.0.1:8092 --store memory: --topic orders:6 $(ARGS)

check: lint ## before every commit: formatting, types, every test that needs Python alone
	HYPOTHESIS_PROFILE=quick $(PYTEST) -m "not second_stage" $(ARGS)

test: lint unit ## before a change is sent: formatting, types, the tests of what users do

lint: environment ## ruff, mypy --strict, plain English
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m tests.prose

unit: environment ## the tests alone (ARGS="tests/groups -k sync")
	$(PYTEST) -m "not everything" $(ARGS)

every-test: environment ## the tests alone, those of `make everything` too
	EVERYTHING=1 $(PYTEST) $(ARGS)

unsteady: environment ## one test fifty times, beside two busy loops (TEST=tests/apis/test_uuid.py::test_text)
	$(BIN)/python -m tests.unsteady $(TEST)

mutants: environment ## conformance on copies of the coordinator with one wrong rule each
	$(BIN)/python -m kafka_shim.conformance.mutation.run $(ARGS)

everything: ## all there is: every language, Spark clusters, mutants, kills, fresh environments
	.ci/everything

docs: ## the documentation site, in build/docs; a warning or a link that leads nowhere is an error
	@$(DOCS_INSTALL)
	.venvs/docs/bin/sphinx-build --fail-on-warning --keep-going --nitpicky --quiet docs build/docs $(ARGS)
	@echo "build/docs/index.html"

dist: environment ## every package, in dist/: wheel, sdist, one file, Node.js, Java, Go, image
	@$(BIN)/python requirements/dist.py

release: environment ## a release (VERSION=1.2.3; DRY_RUN=1 tries it in a clone and pushes nothing)
	@$(BIN)/python requirements/release.py $(VERSION) $(if $(DRY_RUN),--dry-run)

fuzz: environment ## a search for faults by chance, with the line that plays each finding again (ARGS="--seconds 300 --seed 7")
	$(BIN)/python -m tests.fuzz $(ARGS)

conformance: environment ## what a coordinator gets wrong (ARGS="--target kafka --level must")
	$(BIN)/kafka-shim conformance $(ARGS)

kafka-diff: environment ## what differs between two releases of Kafka (FROM=4.3.1 TO=4.4.0; RUNS=FOLDER runs both; needs Java and Maven)
	@$(BIN)/python -m kafka_shim.conformance.kafka_diff $(FROM) $(TO) $(if $(RUNS),--runs $(RUNS))

bench: environment ## ours beside librdkafka's mock, kfake and Apache Kafka, where these can be had
	$(BIN)/python -m bench $(ARGS)

bench-stores: environment ## what durability costs, beside Apache Kafka: commits, start and takeover (10 min at most)
	$(BIN)/python -m bench.stores --peers kafka $(ARGS)

bench-crash: environment ## servers killed and paused under load, 200 times for each store (ARGS="--rounds 20")
	$(BIN)/python -m bench.crash $(ARGS)

.PHONY: environment demo-environment
demo-environment:
	@$(INSTALL) requirements/clients.txt

environment:
	@$(INSTALL) requirements/clients.txt requirements/postgres.txt requirements/test.txt requirements/spark.txt
