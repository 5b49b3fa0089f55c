# Each target is one command that you can also type yourself.
.PHONY: help setup check format test fast soak up down verify chaos bench examples measured transcripts pins

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## Install PowerOn and its tools into .venv
	uv sync

check:  ## Lint, format check, types, import rules
	uv run ruff check && uv run ruff format --check && uv run mypy && uv run lint-imports

format:  ## Format the code and mend what can be mended by itself
	uv run ruff check --fix && uv run ruff format

test:  ## Run all tests, as continuous integration does
	uv run pytest

fast:  ## Run the tests that need no Kafka and no Postgres
	uv run pytest -m "not system and not soak"

soak:  ## Let 10,000 simulated worlds fall into every trouble there is, and see whether the laws hold
	uv run python tests/simulation/soak.py --seeds 10000
	uv run pytest -m soak -o faulthandler_timeout=4000

up:  ## Start Kafka and Postgres on this machine and leave them running
	uv run poweron up

down:  ## Stop them
	uv run poweron down

verify:  ## Compare the rows in Postgres with the log
	uv run poweron verify

chaos:  ## Break everything for ten minutes and see whether anything is lost
	uv run poweron chaos --minutes 10

bench:  ## Measure how fast PowerOn is, beside the yardsticks of the same run
	uv run poweron bench

examples:  ## Make the example documents anew
	uv run docs/examples/make.py

measured:  ## Ask real models 40 requests, such as MODELS="builtin qwen=openai:qwen@http://127.0.0.1:8080/v1"
	uv run docs/real_models.py $(or $(MODELS),builtin)

transcripts:  ## Run the commands of the README and write down what they print
	uv run docs/transcripts.py

pins:  ## Pin the newest versions that the requirements allow
	uv run --no-project .ci/pin.py
