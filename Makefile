# Seiche: `make` lists what there is. Every target sets up what it needs, once; a second run starts at once.

PYTHON3 ?= python3
VENV ?= .venv
PYTHON := $(VENV)/bin/python
WORKERS ?= auto
ARGS ?=

# Ready means: this environment was set up for exactly this content of pyproject.toml.
KEY := $(firstword $(shell cksum pyproject.toml))
READY ?= $(VENV)/.ready-dev-$(KEY)
READY_SPARK ?= $(VENV)/.ready-spark-$(KEY)
READY_BENCH ?= $(VENV)/.ready-bench-$(KEY)
# For targets that start Spark: Java 17 or newer, from PyPI if need be, and workers that use this environment.
WITH_SPARK = JAVA_HOME="$$($(PYTHON) -m tools.java_home)" PYSPARK_PYTHON="$(abspath $(PYTHON))"

# Many images forbid Python to keep what it has compiled. Then each of the hundreds of processes that tests start would
# compile every library anew, which is most of what it does.
unexport PYTHONDONTWRITEBYTECODE

# The one test with Schemathesis calls it by name. As a plugin it is loaded by every process of every run: half a second.
PYTEST = $(PYTHON) -m pytest -p no:schemathesis
CHECKED = src tests tools bench examples

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint format-check types layers proto-check format proto docs bench soak java interop-jvm clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(VENV)/.ready-%-$(KEY):
	@$(PYTHON3) tools/setup.py --venv $(VENV) --extras $* --stamp $@

setup: $(READY) ## make .venv with everything that development needs

demo: $(READY) ## see what Seiche does
	@$(WITH_SPARK) $(VENV)/bin/seiche demo $(ARGS)

test: $(READY) ## run all tests (ARGS="-k name" for some)
	$(PYTEST) -n $(WORKERS) -m "not jvm" --junitxml=build/test-report.xml $(ARGS)

check: lint format-check types layers proto-check ## everything that is not a test run: the next five

lint: $(READY) ## ruff: style, likely bugs, no clock, randomness or uuid outside seiche.core
	$(PYTHON) -m ruff check $(CHECKED)

format-check: $(READY) ## ruff: formatting
	$(PYTHON) -m ruff format --check $(CHECKED)

types: $(READY) ## mypy --strict
	$(PYTHON) -m mypy

layers: $(READY) ## imports point down the layers only
	$(PYTEST) -q tests/unit/test_layers.py

proto-check: $(READY) ## the generated code is what proto/ generates
	$(PYTHON) -m tools.protoc --check

format: $(READY) ## format the code and fix what can be fixed
	$(PYTHON) -m ruff format $(CHECKED)
	$(PYTHON) -m ruff check --fix $(CHECKED)

proto: $(READY) ## generate code from proto/
	$(PYTHON) -m tools.protoc

docs: $(READY) ## build the documentation in build/docs; a warning is an error
	$(PYTHON) -m mkdocs build --strict

bench: $(READY) $(READY_BENCH) ## measure, side by side (ARGS="store" for one)
	@$(PYTHON) -m bench $(ARGS)

soak: $(READY) ## the long forms of the proofs in the test suite
	$(PYTEST) -n $(WORKERS) -m "soak and not jvm" --soak --timeout=7200 $(ARGS)

java: $(READY) ## print a JAVA_HOME for Spark, taking a Java from PyPI if there is none
	@$(PYTHON) -m tools.java_home

interop-jvm: $(READY) ## tests against JVM engines; needs mvn, or a Maven repository in MAVEN_REPOSITORY
	@JAVA_HOME="$$($(PYTHON) -m tools.java_home)" $(PYTHON) -m tools.interop_jvm $(ARGS)

clean: ## remove everything that was made here
	rm -rf $(VENV) .java build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
