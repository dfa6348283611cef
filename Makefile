# Two commands need nothing but Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# A module's tests stay in one process, because they share its daemon.
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder
EXAMPLES ?= 2000
PROOFS ?= slow or proof or law or hypothesis

.PHONY: help demo test proof hosts check docs messages vendor screenshots bench clean

help: ## what each target does
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## recorded sessions through the real hooks: what is learned, replaced and recalled
	@$(BIN)/filrouge demo

test: $(VENV)/.test ## all tests but the slow ones; TESTS=tests/unit/threads runs a part
	@$(BIN)/python -m pytest $(PARALLEL) $(TESTS)

proof: $(VENV)/.test ## kills, full disks, large stores, and every law with many examples (hours)
	@FILROUGE_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest $(PARALLEL) -m "$(PROOFS)" --timeout 7200 $(TESTS)

hosts: $(VENV)/.test ## the real agents, installed from npm once (2 GB)
	@FILROUGE_HOST_TESTS=1 $(BIN)/python -m pytest -m hosts --timeout 1800 $(TESTS)

check: $(VENV)/.lint ## ruff and pyright
	@$(BIN)/ruff check .
	@$(BIN)/pyright

docs: $(VENV)/.test ## write docs/reference/api.md from the OpenAPI document and its examples
	@$(BIN)/python -m tests.support.api_reference

messages: $(VENV)/.test ## collect the dashboard's texts into its .po files, and compile them
	@$(BIN)/python -m tests.support.messages

vendor: $(VENV)/.test ## copy the dashboard's JavaScript libraries from their npm packages
	@$(BIN)/python -m tests.support.vendor

screenshots: $(VENV)/.test ## make the pictures of the dashboard in docs/images/dashboard (needs Chromium)
	@$(BIN)/python -m tests.support.dashboard_screenshots

bench: $(VENV)/.test ## what Filrouge costs, in a table: DATA=DIR, BEFORE=CHECKOUT/.venv/bin/python
	@test -n "$(DATA)" || { echo "The data of the benchmarks is missing: make bench DATA=DIR"; exit 2; }
	@$(BIN)/python bench/hook.py --out bench/results/hook.json
	@$(BIN)/python bench/speed.py --data $(DATA) $(if $(BEFORE),--before $(BEFORE)) --pictures bench/results --out bench/results/speed.md
	@$(BIN)/python bench/peers.py --data $(DATA) --out bench/results/peers.json

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis

$(VENV)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Filrouge needs Python 3.11 or newer."; exit 1; }
	@echo "Installing Filrouge into $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade "pip>=25.1"
	@$(PIP) install --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	@echo "Installing the test tools ..."
	@$(PIP) install --group test
	@touch $@

$(VENV)/.lint: $(VENV)/.test
	@echo "Installing the linters ..."
	@$(PIP) install --group lint
	@touch $@
