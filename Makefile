# Everything starts from here: `make demo` and `make test` set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PLAIN := $(VENV)/plain
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# the two medical data sets, where somebody has put them beside the project
ifneq ($(wildcard ../shared/data/pima-indians-diabetes.csv),)
export WEAKFEEDBACK_DATA ?= $(abspath ../shared/data)
endif

# the tests start the package some hundred times, and without bytecode each start compiles it from its source
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo quick-test test test-all test-integrations coverage lint check bench docs lock release clean

help:
	@echo "make setup       install into $(VENV), with what is needed to change the package"
	@echo "make demo        install into $(VENV) and run a first experiment on built-in data"
	@echo "make quick-test  lint, types and some tests of every package, about two minutes"
	@echo "make test        lint, types and tests, about 10 minutes on two cores"
	@echo "make test-all    the same with the long runs and every supported Python found here"
	@echo "make test-integrations   the adapters and snippets with the newest LiteLLM, LangChain, LlamaIndex, Pydantic AI and AI SDK"
	@echo "make coverage    the tests with the lines that they reach, about 30 minutes"
	@echo "make check POLICY=NAME   the conformance checks, twins and mutants of one policy"
	@echo "make bench       speed against the floor of the random draws, and against other libraries"
	@echo "make docs        the documentation, in out/docs; its numbers are played first (about 4 minutes, once)"
	@echo "make docs PAGE=NAME      one page of it, without its numbers, in seconds"
	@echo "make lock        renew requirements.lock"
	@echo "make release     the files of a release, in out/release; the README's commands run with them, about 15 minutes"

# a virtual environment with a supported Python, and a word about it
define make_venv
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "weakfeedback needs Python 3.11 to 3.13; $(PYTHON) is `$(PYTHON) --version`. Try: make PYTHON=python3.12 ..." >&2; exit 2; }
	@echo "installing into $(VENV) with `$(PYTHON) --version` (once, about half a minute)"
	@$(PYTHON) -m venv $(VENV)
endef

# by uv, in the locked version as all else; by pip, four times slower, where only pip finds the packages
$(READY): requirements.lock pyproject.toml
	$(make_venv)
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.txt
	@{ $(PIP) --require-hashes -r $(VENV)/uv.txt && \
	  $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock; } || \
	  $(PIP) --no-compile --require-hashes -r requirements.lock
	@$(PIP) --no-deps --editable .
	@touch $@

# the package and what it needs, without the tools to change it, in the locked versions
$(PLAIN): requirements.lock pyproject.toml
	$(make_venv)
	@sed -e '/^ *--hash/d' -e 's/ \\$$//' requirements.lock > $(VENV)/constraints.txt
	@{ $(BIN)/python -m pip install --disable-pip-version-check --constraint $(VENV)/constraints.txt --editable . && touch $@; } | \
	  grep -oE '^(Collecting [^ ]*|Installing collected packages|Successfully installed)'; test -e $@

setup: $(READY)
	@echo "ready: $(BIN)/python, $(BIN)/weakfeedback"

demo: $(if $(wildcard $(READY)),$(READY),$(PLAIN))
	@echo "From now on: $(BIN)/weakfeedback list (or first '. $(BIN)/activate', then weakfeedback list)"
	@$(BIN)/python -m weakfeedback demo --out out/demo

lint: $(READY)
	@echo "`$(BIN)/python --version` in $(VENV)"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --num-workers 2 || { test $$? = 2 && $(BIN)/mypy; } # on a busy machine its workers can start too late

# the list is kept in a file: fast where nothing is compiled yet, and with a share of every package
quick-test: lint
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow and not given" @tests/quick.txt

test: lint
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" tests
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal --doctest-modules src/weakfeedback

test-all: coverage
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal --doctest-modules src/weakfeedback
	@$(BIN)/python tests/installation.py

# the packages of others are not in the lock: they have an environment of their own; needs uv's index and npm
# the newest of each in an environment of its own: they want different versions of OpenAI's client
INTEGRATIONS := $(abspath out/integrations)
FRAMEWORKS := litellm langchain-openai llama-index-llms-openai-like pydantic-ai-slim[openai]
test-integrations: $(READY)
	@mkdir -p $(INTEGRATIONS)/node && cd $(INTEGRATIONS)/node && \
	  npm install --silent --no-fund --no-audit ai@latest @ai-sdk/openai-compatible@latest
	@set -e; for package in $(FRAMEWORKS); do \
	  place=$(INTEGRATIONS)/$${package%[*}; \
	  $(BIN)/python -m venv $$place; \
	  $(BIN)/uv pip install --quiet --upgrade --python $$place/bin/python --editable '.[dev]' $$package; \
	  WEAKFEEDBACK_NODE_MODULES=$(INTEGRATIONS)/node WEAKFEEDBACK_INTEGRATION=$${package%[*} $$place/bin/python -m pytest -q -rs \
	    tests/adapters/test_langchain.py tests/adapters/test_litellm.py tests/docs/test_frameworks.py; \
	  $(BIN)/uv pip list --python $$place/bin/python | grep -E "^($${package%[*}|openai|pydantic) "; \
	done; cd $(INTEGRATIONS)/node && npm ls --depth=0

# compiled code is not traced: what only runs compiled counts as missed
coverage: lint
	@$(BIN)/python -m pytest -n 2 --dist worksteal --cov=weakfeedback --cov-report=term:skip-covered --cov-report=html:out/coverage tests

# POLICY is a name as in `weakfeedback list`
check: $(READY)
	@test -n "$(POLICY)" || { echo "make check POLICY=NAME, a name as in: weakfeedback list policies" >&2; exit 2; }
	@$(BIN)/python tests/check_policy.py "$(POLICY)"

bench: $(READY)
	@$(BIN)/python -m benchmarks

# the pages show stored results: those they name are played first and kept from run to run; with
# RESULTS=FOLDER those of a reproduction of your own are shown
docs: $(READY)
	@$(BIN)/python docs/build.py out/docs $(if $(PAGE),--page $(PAGE),$(if $(RESULTS),--results $(RESULTS),--results out/docs-results --play))

lock:
	@$(BIN)/uv --version >/dev/null 2>&1 || $(PIP) uv
	@$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --extra dev --generate-hashes --no-header \
	  --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-package weakfeedback --output-file requirements.lock --quiet

# wheel, source, bill of materials and checksums, from a clean clone; the README's commands run with each; see CONTRIBUTING.md
release: $(READY)
	@$(BIN)/python tests/release.py out/release

clean:
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis
