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

# What a list of requirements/ names, each file by its hash, and then the package itself.
define install
	@echo "installing into $(VENV): $$(grep -c '^[A-Za-z].*==' requirements/$(1).txt) Python packages of requirements/$(1).txt, $(DISK_$(1)) on disk; no Debian packages, no jars but PySpark's own; $(LATER_$(1)) …"
	@$(PIP_INSTALL) --require-hashes --requirement requirements/$(1).txt
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
endef

# Set to 1 in many images: each of the thousand processes that the tests start would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo cluster test test-long test-nightly check bench properties faults task-faults dapr-real dapr-go spark-faults yarn hostile fuzz fuzz-events outages datacentre writers newest-spark restore upgrade simulate year clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: $(VENV)/.demo$(if $(filter delta,$(LAKE)),-delta) ## a real pipeline on real data: flights and weather of New York 2013, on Spark; LAKE=delta: in Delta tables
	@$(BIN)/python examples/flights/demo.py --lake $(or $(LAKE),files)

cluster: $(VENV)/.dev ## a whole installation on this machine, until Ctrl-C; ARGS=--check: drive jobs and kills through it, and stop
	@$(BIN)/python -m compose.cluster $(ARGS)

test: check ## style, types, import rules and the short tests, on real PostgreSQL, Kafka and Spark: at most 10 minutes
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m "not long" $(ARGS)

test-long: $(VENV)/.dev ## the other tests but the nightly ones: kills, simulation, hostile content, long properties, whole installations; a failed one is repeated once and named
	@$(BIN)/python -m pytest -n 3 --dist loadfile -m "long and not nightly" --reruns 1 -raR $(ARGS)

test-nightly: $(VENV)/.dev ## long tests of which test-long has a cheaper one of their kind
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m nightly --reruns 1 -raR $(ARGS)

check: $(VENV)/.dev ## style, types and import rules only
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-cache > $(VENV)/imports.txt 2>&1 || { cat $(VENV)/imports.txt; exit 1; }
	@$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(VENV)/.dev ## NAME=api|cluster|pipeline|fold|graph|groups|known_ids|launch_queue|log|open_pages|pages|recovery|spark_start|tasks|timers|warm_starts: measure, print spread and a last line RESULT {json}
	@$(BIN)/python -m bench.$(NAME) $(ARGS)

properties: $(VENV)/.dev ## EXAMPLES=n: every law and model with so many examples; PROFILE=nightly: with 10,000
	@EXAMPLES=$(or $(EXAMPLES),1000) $(BIN)/python -m pytest -q --timeout=0 tests/properties --hypothesis-profile=$(or $(PROFILE),asked) $(ARGS)

faults: $(VENV)/.dev ## BROKER=postgres|kafka TRIALS=n SEED=s: kill and pause every part of an installation under load, judged by an oracle; BUG=name: must be found
	@$(BIN)/python -m tests.trial installation --broker $(or $(BROKER),postgres) -n $(or $(TRIALS),20) --seed $(or $(SEED),1) $(if $(BUG),--bug $(BUG)) $(ARGS)

task-faults: $(VENV)/.dev ## BROKER=postgres|kafka TRIALS=n SEED=s: kill, pause and stop owners of tasks under load, judged by what arrived
	@$(BIN)/python -m tests.trial tasks --broker $(or $(BROKER),postgres) -n $(or $(TRIALS),20) --seed $(or $(SEED),1) $(ARGS)

spark-faults: $(VENV)/.dev ## KIND=fake|standalone|connect|yarn KILLS=n SEED=s: kill launcher, runners and drivers of Spark programs around the submission
	@$(BIN)/python -m tests.faults.spark_kills --kind $(or $(KIND),fake) --kills $(or $(KILLS),100) --seed $(or $(SEED),1) $(ARGS)

yarn: $(VENV)/.dev ## KILLS=n SEED=s: the roles as a service of a real YARN of one node; kill workers, launchers, the API and the service's master under load
	@$(BIN)/python -m tests.faults.yarn_roles --kills $(or $(KILLS),4) --seed $(or $(SEED),1) $(ARGS)

dapr-real: $(VENV)/.dev ## KILLS=n SEED=s: Dapr's SDK and its sidecar, built here (some 10 minutes, once), with launchers as its scheduler, killed
	@$(BIN)/python -m tests.dapr_real.run --kills $(or $(KILLS),10) --seed $(or $(SEED),1) $(ARGS)

dapr-go: $(VENV)/.dev ## Dapr's Go SDK, an app built here (some 4 minutes, once), with an endpoint and a launcher
	@$(BIN)/python -m tests.dapr_real.go_sdk

fuzz: $(VENV)/.dev ## MINUTES=n SEED=s: schemathesis on the OpenAPI document, against a real API
	@$(BIN)/python -m tests.fuzz.api --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1) $(ARGS)

fuzz-events: $(VENV)/.fuzz ## EVENTS=n SECONDS=s SEED=s: mutated events, over HTTP and into Kafka, from a corpus that coverage-guided fuzzing finds first
	@$(BIN)/python -m tests.fuzz.coverage $(VENV)/corpus --seconds $(or $(SECONDS),300) --seed $(or $(SEED),1)
	@$(BIN)/python -m tests.fuzz.events --events $(or $(EVENTS),1000000) --seed $(or $(SEED),1) --corpus $(VENV)/corpus $(ARGS)

hostile: $(VENV)/.dev ## BROKER=postgres|kafka CASES=n SEED=s: hostile content by every way in; canaries must launch all the while; CASE=17: one
	@$(BIN)/python -m tests.hostile.run --broker $(or $(BROKER),postgres) --cases $(or $(CASES),200) --seed $(or $(SEED),1) $(if $(CASE),--case $(CASE)) $(ARGS)

outages: $(VENV)/.dev ## KIND=one|three|cut|apart TRIALS=n SEED=s: kill Kafka's brokers, cut the network (as root), under load
	@$(BIN)/python -m tests.faults.kafka_outages --kind $(or $(KIND),one) --trials $(or $(TRIALS),3) --seed $(or $(SEED),0) $(ARGS)

datacentre: $(VENV)/.dev ## SEED=s: lose a Kafka broker, the PostgreSQL primary and a launcher under load (as root), and promote the standby
	@$(BIN)/python -m tests.faults.datacentre --seed $(or $(SEED),1) $(ARGS)

writers: $(VENV)/.dev ## STORE=s3|file|plain|folder|delta|iceberg KILLS=n SEED=s: kill writers of a file set, or watchers of a table: no half commit, each one event; ZOMBIES=n: attempts that sleep and are replaced commit nothing; CRASHES=n: attempts killed after their commit; ARGS=--spark
	@$(BIN)/python -m tests.faults.writers --store $(or $(STORE),s3) --kills $(or $(KILLS),50) --zombies $(or $(ZOMBIES),0) --crashes $(or $(CRASHES),0) --seed $(or $(SEED),1) $(ARGS)

newest-spark: $(VENV)/.dev ## read and write file sets with the newest Spark of all, in an environment of its own (450 MB, once)
	@$(BIN)/python -m compose.lakes.newest $(ARGS)

restore: $(VENV)/.dev ## SEED=s: back PostgreSQL up under load, kill everything, restore elsewhere, replay the rest from Kafka
	@$(BIN)/python -m tests.faults.restore --seed $(or $(SEED),1) $(ARGS)

upgrade: $(VENV)/.dev ## BROKER=postgres|kafka: workers of two releases take over from each other under load: nothing lost, no pause over 5 s
	@$(BIN)/python -m tests.faults.upgrade --broker $(or $(BROKER),postgres) $(ARGS)

simulate: $(VENV)/.dev ## SEEDS=n or SEED=s: the same code on a simulated log, clock and network, by seeds, judged by an oracle
	@$(BIN)/python -m tests.simulation.run --seeds $(or $(SEEDS),100) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) $(ARGS)

year: $(VENV)/.dev ## SEED=s SPARK=n: a year of hours of three zones through a real dev (n days on Spark) and in virtual time, beside a naive model
	@$(BIN)/python -m tests.year.run --seed $(or $(SEED),1) --spark $(or $(SPARK),20) $(ARGS)

# A folder has the same name.
.PHONY: docs
docs: $(VENV)/.dev ## write the pages of docs/reference/ that are made from the code
	@UPDATE_DOCS=1 $(BIN)/python -m pytest -q tests/unit/domain/test_states.py tests/architecture/test_reference.py tests/architecture/test_decisions.py

clean: ## forget the environment and everything the demo left
	rm -rf $(VENV) .streamsched

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
