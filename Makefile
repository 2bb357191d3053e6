# Every target does the set-up it needs and may be called again at any time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Nothing outside this directory is written.
export PIP_CACHE_DIR = $(CURDIR)/$(VENV)/cache/pip
export UV_CACHE_DIR = $(CURDIR)/$(VENV)/cache/uv
# Compiled sources are kept, whatever the environment says: the product and its tests start many processes.
export PYTHONDONTWRITEBYTECODE =

.PHONY: run demo setup wheels test test-all chaos soak bench reproduce fidelity gpu-check lint pictures clean
.DEFAULT_GOAL := run

# uv installs all but torch (about five times faster than pip); pip installs torch, because it also looks at locally
# offered wheels, which is how a machine without a GPU gets the small CPU build.
$(VENV)/runtime.stamp: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Clusterweb needs Python 3.11 or newer; this is " + sys.version.split()[0])'
	@echo "Installing packages into $(VENV): about a minute the first time."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet $$(grep '^uv==' requirements.txt)
	@grep -v '^torch==' requirements.txt > $(VENV)/without-torch.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -r $(VENV)/without-torch.txt
	@$(BIN)/python -m pip install --quiet $$(grep '^torch==' requirements.txt)
	@printf '#!/bin/sh\nPYTHONPATH="%s" exec "%s" -m clusterweb.cli "$$@"\n' '$(CURDIR)' '$(CURDIR)/$(BIN)/python' > $(BIN)/clusterweb
	@chmod +x $(BIN)/clusterweb
	@touch $@

$(VENV)/dev.stamp: requirements-dev.txt $(VENV)/runtime.stamp
	@echo "Installing what the tests need into $(VENV)."
	@grep -v '^-r ' requirements-dev.txt > $(VENV)/dev-only.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -r $(VENV)/dev-only.txt
	@touch $@

setup: $(VENV)/runtime.stamp

run: setup
	@exec $(BIN)/python -m clusterweb.stack

# A simulated cluster with a week behind it, in a folder of its own; the first start takes about a minute.
demo: setup
	@DEMO_WEEK=1 VAR_DIR=$${VAR_DIR:-var/week} exec $(BIN)/python -m clusterweb.stack

# docs/testing.md says what each of the two runs, and why.
test: $(VENV)/dev.stamp
	@$(BIN)/python -m pytest -m quick -n 3 --durations=25

# Browser tests come last, by themselves. Chromium and fonts are installed by apt where they are missing and it may.
test-all: $(VENV)/dev.stamp
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium fonts-inter fonts-jetbrains-mono >/dev/null; } || echo "Chromium is missing and could not be installed."
	@EXAMPLES=full $(BIN)/python -m pytest -m "not browser and (examples or not quick)" -n 3 --durations=40
	@$(BIN)/python -m pytest -m browser -rs --durations=15 tests/browser

# Real processes of the whole product under kills, stops, cuts, locks, a full disk and hosts whose network is parted, slow
# or loses packets (the last two need root); POSTGRES=1 for a PostgreSQL of its own, which is restarted as well.
MINUTES ?= 10
SEED ?= 1
chaos: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.chaos --minutes $(MINUTES) --seed $(SEED) $(if $(POSTGRES),--postgres)

# The jobs of three days in an hour, kept for minutes: memory, file handles and threads of every process of the control
# plane stay flat, and so does the database.
soak: MINUTES = 60
soak: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.chaos.soak --minutes $(MINUTES) $(if $(POSTGRES),--postgres)

bench: $(VENV)/dev.stamp
	@$(BIN)/python -m benchmarks

reproduce: $(VENV)/dev.stamp
	@$(BIN)/python -m benchmarks.reproduce

# Runs 40 real jobs twice, about 10 minutes; best on a quiet machine.
fidelity: $(VENV)/dev.stamp
	@$(BIN)/python -m benchmarks.reproduce fidelity

# Measures the runtime on the GPUs of this machine; says so where there is none.
gpu-check: $(VENV)/dev.stamp
	@$(BIN)/python -m benchmarks.runtime gpu

# The runtime and the client, for machines without this tree: dist/*.whl
wheels: setup
	@$(BIN)/python -m clusterweb.wheels

pictures: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.browser.pictures

lint: $(VENV)/dev.stamp
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports
	@$(BIN)/mypy clusterweb clusterweb_runtime scheduler agents frontend tests benchmarks

clean:
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
