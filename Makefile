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

.PHONY: run demo setup test test-long test-timed test-browser bench reproduce fidelity gpu-check lint pictures clean
.DEFAULT_GOAL := run

# uv installs all but torch (about five times faster than pip); pip installs torch, because it also looks at locally
# offered wheels, which is how a machine without a GPU gets the small CPU build.
$(VENV)/runtime.stamp: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Clusterweb needs Python 3.11 or newer; this is " + sys.version.split()[0])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet uv==0.13.8
	@grep -v '^torch==' requirements.txt > $(VENV)/without-torch.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -r $(VENV)/without-torch.txt
	@$(BIN)/python -m pip install --quiet $$(grep '^torch==' requirements.txt)
	@printf '#!/bin/sh\nPYTHONPATH="%s" exec "%s" -m clusterweb.cli "$$@"\n' '$(CURDIR)' '$(CURDIR)/$(BIN)/python' > $(BIN)/clusterweb
	@chmod +x $(BIN)/clusterweb
	@touch $@

$(VENV)/dev.stamp: requirements-dev.txt $(VENV)/runtime.stamp
	@grep -v '^-r ' requirements-dev.txt > $(VENV)/dev-only.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -r $(VENV)/dev-only.txt
	@touch $@

setup: $(VENV)/runtime.stamp

run: setup
	@exec $(BIN)/python -m clusterweb.stack

# A simulated cluster with a week behind it, in a folder of its own; the first start takes about two minutes.
demo: setup
	@DEMO_WEEK=1 VAR_DIR=$${VAR_DIR:-var/week} exec $(BIN)/python -m clusterweb.stack

# One worker waits with the end-to-end tests, two compute: ``tests/support/suite/order.py`` says who does what when.
test: $(VENV)/dev.stamp
	@$(BIN)/python -m pytest -m "not browser and not timed and not long" -n 3

# More of the same: seeds, weeks of real traces, odd values one by one; then more examples of what is tried on examples.
test-long: $(VENV)/dev.stamp
	@$(BIN)/python -m pytest -m long -n 2
	@EXAMPLES_TIMES=3 $(BIN)/python -m pytest -m "not long" -n 2 tests/property tests/integration/api/http/test_contract.py

# What depends on seconds of real processes; the machine should do nothing else.
test-timed: $(VENV)/dev.stamp
	@$(BIN)/python -m pytest -m timed

# Installs Chromium and fonts by apt when it may and they are missing; the tests say loudly when they cannot run.
test-browser: $(VENV)/dev.stamp
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium fonts-inter fonts-jetbrains-mono >/dev/null; } || echo "Chromium is missing and could not be installed."
	@$(BIN)/python -m pytest -m browser -rs tests/browser

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

pictures: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.browser.pictures

lint: $(VENV)/dev.stamp
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports
	@$(BIN)/mypy clusterweb scheduler agents frontend tests benchmarks

clean:
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
