# EventLake in six words; each sets up what it needs.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
BENCH_STAMP := $(VENV)/.ready-bench
# Without the cache of compiled files, every process of a run would compile all code and tests anew.
export PYTHONDONTWRITEBYTECODE :=
# Tests wait for other processes a third of their time, so that three keep two cores busy.
WORKERS ?= 3
# The tests of one file share servers and lakes, so one worker runs them; tests/unit comes last,
# whose files are short, so that the workers end together.
PARALLEL = --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
# The first of these that is new enough makes the environment.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: help setup demo test long test-unity unit lint abuse changes kills recover bench bench-collect bench-small bench-up bench-api docs

help:  ## these words, one line each
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv; instant when nothing changed

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "EventLake needs Python 3.11 or newer, and found none: install one, or say make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(BENCH_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	@touch $@

demo: setup  ## land a sample in ./demo-lake, show the tables, run a query
	@rm -rf demo-raw demo-lake
	$(BIN)/eventlake sample --events 100000 --types 50 --hours 3 --duplicates 0.01 --bad 0.001 --seed 7 --out demo-raw
	$(BIN)/eventlake load demo-raw --source web --lake demo-lake
	$(BIN)/eventlake tables --lake demo-lake
	$(BIN)/eventlake query "select day, hr, count(*) as orders, sum(total) as revenue from web.order_completed group by all order by all" --lake demo-lake

test: setup  ## the tests, exactly as CI
	@$(BIN)/python -m tests.prefetch & \
	$(BIN)/python -m pytest $(PARALLEL)

test-unity: setup  ## Unity Catalog's tests against an independent server, which is built first
	EVENTLAKE_UNITY=1 CARGO_PROFILE_DEV_DEBUG=0 \
	$(BIN)/python -m pytest tests/contracts/test_catalog.py -k unity-server

long: setup  ## what `make test` leaves out: every point of every sweep, more releases and servers
	EVENTLAKE_LONG=1 $(BIN)/python -m pytest $(PARALLEL) -m 'long or sweep'

unit: setup  ## rules and kernels only: no Spark, seconds
	$(BIN)/python -m pytest tests/unit --numprocesses auto --dist loadfile

abuse: setup  ## hostile clients and files at random, a minute each; EVENTLAKE_ABUSE_SECONDS for longer
	EVENTLAKE_ABUSE_SECONDS=$${EVENTLAKE_ABUSE_SECONDS:-60} \
	EVENTLAKE_ABUSE_SEED=$${EVENTLAKE_ABUSE_SEED:-$$(date +%s)} \
	$(BIN)/python -m pytest tests/abuse tests/collect/test_fuzz.py tests/server/test_fuzz.py

changes: setup  ## 2,000 random sequences of everything that changes a lake, with kills, of a seed of the clock
	EVENTLAKE_SEQUENCES=$${EVENTLAKE_SEQUENCES:-2000} \
	EVENTLAKE_FIRST_SEQUENCE=$${EVENTLAKE_FIRST_SEQUENCE:-$$(date +%s)} \
	$(BIN)/python -m pytest tests/pipeline/test_changes.py --numprocesses auto

lint: setup  ## ruff, mypy --strict, the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

kills: setup  ## kill -9 of servers and workers under load, ten minutes on each database
	EVENTLAKE_KILL_SECONDS=$${EVENTLAKE_KILL_SECONDS:-600} \
	EVENTLAKE_KILL_SEED=$${EVENTLAKE_KILL_SEED:-$$(date +%s)} \
	$(BIN)/python -m pytest tests/server/test_kills.py -s -m ''

recover: setup  ## rebuild a lost database of 10,000 runs from its lake, on both databases
	EVENTLAKE_RECOVER_RUNS=10000 $(BIN)/python -m pytest tests/control/test_recover.py -k months -s

bench: setup $(BENCH_STAMP)  ## the benchmark beside its peers, one table of ratios
	$(BIN)/python -m bench --repeat 3

bench-collect: setup  ## the collector under load, beside its targets
	$(BIN)/python -m bench.collect

bench-small: setup  ## a small load from its start, and others in a warm process, beside their targets
	$(BIN)/python -m bench.small

bench-up: setup  ## the collector in `eventlake up` beside `eventlake serve`
	$(BIN)/python -m bench.up

bench-api: setup  ## the API with 200,000 runs in the database, beside its targets
	EVENTLAKE_API_RUNS=200000 $(BIN)/python -m pytest tests/server/test_latency.py -s

docs: setup  ## regenerate docs/cli.md, docs/settings.md and docs/api.md
	$(BIN)/python -m eventlake.cli.reference cli > docs/cli.md
	$(BIN)/python -m eventlake.cli.reference settings > docs/settings.md
	$(BIN)/python -m eventlake.server.reference > docs/api.md

screenshots: setup  ## make the pictures of the pages in docs/images; needs Chromium
	$(BIN)/python -m tests.pages.screenshots
