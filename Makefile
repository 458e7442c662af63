# Every recipe does its own set-up into .venv and is quick when nothing changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# On disk, with the jars of PySpark; and what is not installed here but asked for, or downloaded, by what runs.
DISK_demo := 1.2 GB
DISK_delta := 1.3 GB
DISK_dev := 1.9 GB
DISK_fuzz := 1.9 GB
LATER_demo := Java 17 must be there (Debian: default-jre-headless)
LATER_delta := $(LATER_demo), and Maven, which downloads 10 MB of jars once
LATER_dev := tests skip what is missing and name its Debian package, and say what jars they download (Kafka: 43 MB, once)
LATER_fuzz := the same holds as for requirements/dev.txt

# What a list of requirements/ names, each file by its hash, and then the package itself. A list is complete, and Python
# compiles a module when it is first imported: to resolve and to compile all takes as long as the rest.
define install
	@echo "installing into $(VENV): $$(grep -c '^[A-Za-z].*==' requirements/$(1).txt) Python packages of requirements/$(1).txt, $(DISK_$(1)) on disk; no Debian packages, no jars but PySpark's own; $(LATER_$(1)) …"
	@$(PIP_INSTALL) --no-deps --no-compile --require-hashes --requirement requirements/$(1).txt
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
endef

# Tests, and beside them archives of Java's classes: they are made once, and JVMs that start before do without.
define pytest
	@$(BIN)/python -m tests.support.quick_java & $(BIN)/python -m pytest $(1) $(ARGS); status=$$?; wait; exit $$status
endef

# Set to 1 in many images: each of the thousand processes that the tests start would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo cluster test test-long test-nightly check bench properties trial soak simulate mutation coverage matrix fuzz fuzz-events newest-spark clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

demo: $(VENV)/.demo$(if $(filter delta,$(LAKE)),-delta) ## a real pipeline, on Spark; LAKE=delta: in Delta tables
	@$(BIN)/python examples/flights/demo.py --lake $(or $(LAKE),files)

cluster: $(VENV)/.dev ## an installation until Ctrl-C; ARGS=--check: try it, and stop
	@$(BIN)/python -m compose.cluster $(ARGS)

test: check ## check, then the short tests: about 9 minutes with the set-up
	$(call pytest,-n 3 --dist loadfile -m "not long" --hypothesis-profile=short)

test-long: $(VENV)/.dev ## the other tests but nightly ones; repeats a failed one once
	$(call pytest,-n 5 --dist loadfile --no-loadscope-reorder -m "long and not nightly" --reruns 1 -raR)

test-nightly: $(VENV)/.dev ## long tests of which test-long has a cheaper one
	$(call pytest,-n 2 --dist loadfile -m nightly --reruns 1 -raR)

# Types are checked by two processes, each of which has one core: of the product, and of all that is not shipped.
check: $(VENV)/.dev ## style, types and import rules only
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-cache > $(VENV)/imports.txt 2>&1 || { cat $(VENV)/imports.txt; exit 1; }
	@$(BIN)/pyright --version > /dev/null # which downloads it where it is not yet there
	@$(BIN)/pyright --project tests/pyrightconfig.json --pythonpath $(abspath $(BIN)/python) > $(VENV)/types.txt 2>&1 & \
	  $(BIN)/pyright --pythonpath $(BIN)/python; product=$$?; \
	  wait $$! || { cat $(VENV)/types.txt; exit 1; }; exit $$product

bench: $(VENV)/.dev ## NAME=pipeline, or another of bench/: measure; RESULT {json}
	@$(BIN)/python -m bench.$(NAME) $(ARGS)

properties: $(VENV)/.dev ## EXAMPLES=n: every law and model with so many examples
	@EXAMPLES=$(or $(EXAMPLES),1000) $(BIN)/python -m pytest -q --timeout=0 tests/properties --hypothesis-profile=$(or $(PROFILE),asked) $(ARGS)

trial: $(VENV)/.dev ## KIND= BROKER= SEED= N=: faults under load; alone: the kinds
	@$(BIN)/python -m tests.trial $(KIND) $(if $(BROKER),--broker $(BROKER)) $(if $(SEED),--seed $(SEED)) $(if $(N),-n $(N)) $(ARGS)

soak: $(VENV)/.dev ## MINUTES= BROKER=: an installation under load, and what grows
	@$(BIN)/python -m tests.trial soak --minutes $(or $(MINUTES),60) $(if $(BROKER),--broker $(BROKER)) $(ARGS)

simulate: $(VENV)/.dev ## SEEDS=n or SEED=s: the same code on a simulated log and clock
	@$(BIN)/python -m tests.simulation.run --seeds $(or $(SEEDS),100) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) $(ARGS)

mutation: $(VENV)/.dev ## N= SEED=: faults put into the rules; how many do tests notice
	@$(BIN)/python -m tests.mutation --seed $(or $(SEED),1) -n $(or $(N),40) $(ARGS)

coverage: $(VENV)/.dev ## lines and branches of domain and launcher that tests run
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not long" --cov=streamsched/domain --cov=streamsched/launcher --cov-branch --cov-report=term:skip-covered tests/unit tests/properties tests/integration/launcher $(ARGS)

matrix: $(VENV)/.dev ## other versions of Python and PostgreSQL
	@$(BIN)/python -m tests.matrix $(ARGS)

fuzz: $(VENV)/.dev ## MINUTES=n SEED=s: schemathesis against a real API
	@$(BIN)/python -m tests.fuzz.api --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1) $(ARGS)

fuzz-events: $(VENV)/.fuzz ## EVENTS=n SECONDS=s SEED=s: mutated events from a fuzzed corpus
	@$(BIN)/python -m tests.fuzz.coverage $(VENV)/corpus --seconds $(or $(SECONDS),300) --seed $(or $(SEED),1)
	@$(BIN)/python -m tests.fuzz.events --events $(or $(EVENTS),1000000) --seed $(or $(SEED),1) --corpus $(VENV)/corpus $(ARGS)

newest-spark: $(VENV)/.dev ## file sets with the newest Spark (450 MB, once)
	@$(BIN)/python -m compose.lakes.newest $(ARGS)

# A folder has the same name.
.PHONY: docs
docs: $(VENV)/.dev ## write the pages of docs/reference/ that are made from code
	@UPDATE_DOCS=1 $(BIN)/python -m pytest -q tests/unit/domain/test_states.py tests/architecture/test_reference.py tests/architecture/test_decisions.py

clean: ## forget the environment, classes of Java, and what the demo left
	rm -rf $(VENV) .streamsched .cache

$(BIN)/python:
	@command -v $(PYTHON) > /dev/null || { echo "Python 3.11 or newer is needed, and '$(PYTHON)' is not on the PATH."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; '$(PYTHON)' is $$($(PYTHON) --version). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "making the Python environment $(VENV) with '$(PYTHON)' (once; a minute or two with what is installed into it) …"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml requirements/demo.txt | $(BIN)/python
	$(call install,demo)
	@touch $@

$(VENV)/.demo-delta: pyproject.toml requirements/delta.txt | $(BIN)/python
	$(call install,delta)
	@touch $@ $(VENV)/.demo

$(VENV)/.dev: pyproject.toml requirements/dev.txt | $(BIN)/python
	$(call install,dev)
	@touch $@ $(VENV)/.demo $(VENV)/.demo-delta

$(VENV)/.fuzz: pyproject.toml requirements/fuzz.txt | $(VENV)/.dev
	$(call install,fuzz)
	@touch $@
