# Everything a person or a machine does with this repository. `make` alone lists the targets.
# ARGS goes to the program that a target runs: make test ARGS="tests/unit -x"

PYTHON ?= python3
ARGS :=
NAME :=
DATA :=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
COMPILE := $(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header
SAME := $(COMPILE) -c requirements/dev.txt

.DEFAULT_GOAL := help
.PHONY: help demo test chaos compose-test check docs client bench coverage lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/run.stamp ## start lastword on this machine and show what it does
	@$(BIN)/lastword demo $(ARGS)

test: $(VENV)/dev.stamp ## run the tests, two files at a time; some start a real Apache Kafka (Java 17, Maven)
	@$(BIN)/pytest -n 2 --dist loadscope $(ARGS) || { $(call advise,a test failed. One test again: make test ARGS='-n 0 -x -k part_of_its_name'); }

chaos: $(VENV)/dev.stamp ## run the fault tests on a real Kafka and Redis: parts are killed, paused, set back; some minutes
	@$(BIN)/pytest tests/chaos -o timeout=300 $(ARGS) || { $(call advise,a fault was not weathered; see above); }

compose-test: $(VENV)/dev.stamp ## try docker-compose.yml on a real Docker engine; as root on Debian it starts one
	@tests/packaging/with-engine tests/packaging/check $(BIN)/python

check: $(VENV)/dev.stamp ## check style, types and the direction of the imports
	@echo "check: style"
	@$(BIN)/ruff check . || { $(call advise,some of it mends itself: $(BIN)/ruff check --fix .); }
	@$(BIN)/ruff format --check . || { $(call advise,format it: $(BIN)/ruff format .); }
	@echo "check: types"
	@$(BIN)/mypy || { $(call advise,mend the types named above); }
	@echo "check: imports"
	@$(BIN)/lint-imports || { $(call advise,see above; the layers and their rules are in pyproject.toml); }

docs: $(VENV)/dev.stamp ## write the tables of docs/ and the contracts' documents from the code
	@$(BIN)/python docs/generate.py
	@$(BIN)/python docs/generate_openapi.py
	@$(BIN)/python docs/generate_asyncapi.py
	@$(BIN)/python docs/generate_python.py
	@$(BIN)/python docs/generate_charts.py

client: $(VENV)/dev.stamp ## write the blocking client from the asynchronous one
	@$(BIN)/python tools/blocking.py

bench: $(VENV)/dev.stamp ## measure: make bench NAME=... [DATA=file]; without NAME it lists what there is
	@$(BIN)/python -m tests.bench $(NAME) $(if $(DATA),--data "$(DATA)") $(ARGS)

coverage: $(VENV)/dev.stamp ## run the tests and show the lines that none of them reached
	@$(BIN)/coverage run -m pytest $(ARGS) || { $(call advise,coverage counts when the tests pass: make test); }
	@$(BIN)/coverage report

lock: $(BIN)/pip ## resolve requirements/*.txt anew; newest versions with ARGS=--upgrade
	@echo "lock: resolving requirements/*.txt"
	@$(PIP) install uv || { $(call advise,uv could not be installed; is the package index reachable?); }
	@$(COMPILE) --extra dev pyproject.toml -o requirements/dev.txt $(ARGS) || { $(MISFIT); }
	@$(SAME) --extra server --extra extractor --extra embedded --extra build pyproject.toml -o requirements/run.txt || { $(MISFIT); }
	@$(SAME) --extra server --extra extractor pyproject.toml -o requirements/server.txt || { $(MISFIT); }
	@echo hatchling | $(SAME) - -o requirements/build.txt || { $(MISFIT); }
	@echo "lock: done. Look at the difference, then: make check test"

clean: ## remove the virtual environment, Kafka's jars, Compose and all caches
	@rm -rf $(VENV) .cache .coverage .coverage.* htmlcov build dist
	@rm -rf .hypothesis .schemathesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "clean: done"

MISFIT = $(call advise,no set of versions fits; see the conflict above and pyproject.toml)

# $(call advise,text): say what to do after a failure, and fail.
advise = echo "make: $(1)" >&2; exit 1

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { $(call advise,"$(PYTHON)" is no Python 3.11 or newer. Install one and name it: make demo PYTHON=python3.12); }
	@echo "make: creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); $(call advise,no virtual environment. On Debian and Ubuntu: apt install python3-venv); }

$(VENV)/run.stamp $(VENV)/dev.stamp: $(VENV)/%.stamp: requirements/%.txt pyproject.toml | $(BIN)/pip
	@echo "make: installing requirements/$*.txt into $(VENV); a minute or so, once"
	@$(PIP) install --require-hashes -r requirements/$*.txt \
	  || { $(call advise,not installed. Is the package index reachable? Then again; after odd errors first: make clean); }
	@$(PIP) install --no-deps --no-build-isolation -e . \
	  || { $(call advise,lastword itself could not be installed; see above. After odd errors: make clean); }
	@touch $@
