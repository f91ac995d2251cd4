# Needs Python 3.10 or newer, make and git. Node and the cdk CLI come with requirements.txt.
PYTHON ?= python3
VENV ?= .venv
DOCS ?= .venv-docs
STACK ?= GpuClusterStack
BASE ?= HEAD
ARGS ?=
RULE ?=
# Tests that generate their inputs, a few in `make test`.
LONG = tests/preflight/properties tests/preflight/scheduling/test_properties.py tests/preflight/hostile/test_fuzz.py tests/preflight/hostile/test_patterns.py tests/preflight/reading/test_notation.py tests/fuzz
BUILT ?=

export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export CDK_DISABLE_CLI_TELEMETRY := true
# Packages are installed uncompiled, which is four times faster, and compiled at first import.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help synth diff test touched lint types templates check e2e e2e-tools charts rehearse scenarios snapshots bench speed long corpus mutants catalogue schemas examples options changes iam docs docs-test tutorials picture rules causes architecture constraints floor released stale distribution dist workflows release-check pyz light clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

synth: $(VENV)/.synth ## Synthesize the stack; ARGS="-c autoscaler=karpenter" sets options
	cdk synth $(STACK) --quiet $(ARGS)
	@echo "Wrote cdk.out/$(STACK).template.json"

diff: $(VENV)/.synth ## Show what the working tree changes against BASE=<git ref>, offline
	python tools/diff_against.py $(BASE) --stack $(STACK) -- $(ARGS)

test: $(VENV)/.dev ## Run the tests; RULE=GPU361 runs the cases of one rule
	pytest $(if $(RULE),tests/preflight/test_rules.py -k $(RULE),-n auto) $(ARGS)

touched: $(VENV)/.dev ## Run the tests that import what the working tree changes against BASE=<git ref>; often seconds
	PYTHONPATH=. python tools/touched.py $(BASE)

lint: $(VENV)/.dev ## Check format, style, types, import arrows, and every template with cfn-lint
	ruff format --check .
	ruff check .
	lint-imports
	python -m tools.prose
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target types templates

# Side by side: mypy takes one core, and as long.
types: $(VENV)/.dev
	mypy

templates: $(VENV)/.dev
	pytest -n auto -m linted

check: lint test ## Everything that CI asks of a change

e2e: $(VENV)/.dev ## Run the tests that need the API server and scheduler of Kubernetes itself
	python tools/build_e2e_tools.py --check
	PYTHONPATH=. python tools/charts.py --check
	pytest -n auto tests/e2e --ignore=tests/e2e/rehearsal $(ARGS)

e2e-tools: ## Build that control plane and Karpenter with Go, once; some minutes
	$(PYTHON) tools/build_e2e_tools.py

charts: $(VENV)/.synth ## Pack the charts that make e2e installs: of Go modules, and others whose registry is reached
	PYTHONPATH=. python tools/charts.py

rehearse: $(VENV)/.dev ## Play stacks on real programs, with AWS played; ARGS=default-karpenter for one. Builds what is missing
	PYTHONPATH=. python tools/rehearse.py $(ARGS)

scenarios: $(VENV)/.dev ## Test the rehearsal itself: every stack, mutants that must fail, hardship, pods asked of preflight and Karpenter
	PYTHONPATH=. python tools/rehearse.py --build
	pytest tests/e2e/rehearsal $(ARGS)

snapshots: $(VENV)/.dev ## Write the snapshots again; read their diff before you commit
	pytest -n auto --snapshot-update --snapshot-file-lock

bench: $(VENV)/.dev ## Time synth against a hand-written app and with preflight, preflight and doctor at scale, and count mistakes it finds
	python benchmarks/synth.py
	PYTHONPATH=. python benchmarks/preflight.py
	PYTHONPATH=. python benchmarks/commands.py
	PYTHONPATH=. python benchmarks/doctor.py
	PYTHONPATH=. python benchmarks/mutations.py

speed: $(VENV)/.synth ## Compare the CPU time of check and explain with that of an earlier commit; three minutes
	PYTHONPATH=. python benchmarks/commands.py

long: $(VENV)/.dev ## Run every generated input: blanked values, neutral changes, fields, fuzzing, and 300 random apps; about two hours
	GPU_CONSTRUCTS_LONG=1 pytest -n auto $(LONG) $(ARGS)
	GPU_CONSTRUCTS_RANDOM_APPS=300 pytest -n auto tests/random_apps $(ARGS)

corpus: $(VENV)/.dev ## Fetch real files of other people, each at its commit, and see whether what preflight says of them is true
	PYTHONPATH=. python tools/corpus.py
	GPU_CONSTRUCTS_CORPUS=$$(PYTHONPATH=. python tools/corpus.py --where) pytest -n auto tests/corpus $(ARGS)

mutants: $(VENV)/.mutants ## Change what decides, bit by bit, and see whether tests notice; ARGS=packing for one module
	python tools/mutants.py $(ARGS)

catalogue: $(VENV)/.dev ## Write the instance catalogue again
	PYTHONPATH=. python tools/build_catalogue.py
	PYTHONPATH=. python tools/build_regions.py

schemas: $(VENV)/.dev ## Write what services take, of their own schemas, again; needs Go
	PYTHONPATH=. python -m tools.schemas

examples: ## Write docs/reference/examples.md again
	$(PYTHON) tools/write_examples.py

options: $(VENV)/.synth ## Write docs/reference/options.md again
	PYTHONPATH=. python tools/write_options.py

changes: $(VENV)/.dev ## Write docs/reference/changes.md again
	PYTHONPATH=. python tools/write_changes.py

iam: $(VENV)/.dev ## Write docs/reference/iam.md, the IAM permissions of each construct
	PYTHONPATH=. python tools/write_iam.py

docs: $(DOCS)/.done ## Build the documentation site into site/, strictly and offline
	PATH=$(CURDIR)/$(DOCS)/bin:$$PATH PYTHONPATH=. python -m tools.docs

docs-test: $(VENV)/.dev docs ## Build the site and test it in a browser; needs chromium and chromedriver
	pytest -n auto -m site tests/site

tutorials: $(VENV)/.synth ## Run the commands of docs/tutorials and write their output
	PYTHONPATH=. python -m tools.tutorials

picture: $(VENV)/.synth ## Write the pictures of the README and the docs
	python tools/write_picture.py
	PYTHONPATH=. python tools/write_diagrams.py

rules: $(VENV)/.synth ## Write docs/reference/rules.md again
	PYTHONPATH=. python tools/write_rules.py

causes: $(VENV)/.dev ## Write docs/reference/causes.md and docs/explanation/pending-tools.md again
	PYTHONPATH=. python tools/write_causes.py
	PYTHONPATH=. python tools/write_pending_tools.py

architecture: $(VENV)/.synth ## Write the picture and the lists of docs/contributing/architecture.md again
	PYTHONPATH=. python tools/write_architecture.py

constraints: $(VENV)/.dev ## Resolve constraints.txt again; run it with PYTHON=python3.10
	python tools/write_constraints.py

floor: $(VENV)/.dev ## Test with the lowest versions of the CDK that pyproject.toml allows
	python tools/floor.py $(ARGS)

released: $(VENV)/.dev ## Write down the logical ids of this release; once, when it is released
	CDK_VALIDATION=false PYTHONPATH=. python tools/released.py

stale: $(VENV)/.dev ## List pins, tables and facts that are too old, and what registries have newer; ARGS=--offline
	PYTHONPATH=. python tools/stale.py $(ARGS)

distribution: ## Build sdist, wheel and zipapp into dist/, with only packages of known hashes
	PYTHONPATH=. $(PYTHON) tools/build_distribution.py

# BUILT=1 checks what is in dist/ already.
dist: $(VENV)/.dist $(if $(BUILT),,distribution) ## Build sdist, wheel and zipapp, and check them as an index does
	pyroma --min 10 dist/*.tar.gz
	twine check --strict dist/*.whl dist/*.tar.gz
	check-wheel-contents dist/*.whl

workflows: $(VENV)/.dist ## Check workflows, action, hooks and the GitLab example with actionlint, zizmor and their schemas; needs Go once
	PYTHONPATH=. python tools/check_workflows.py

# make would expand the tag, and the shell would run it: only the environment has it.
release-check: dist workflows ## Run everything that a release runs, except attestations and upload; TAG=v1.2.3 before make for the release itself
	PYTHONPATH=. python tools/write_sbom.py
	GPU_CONSTRUCTS_DIST=dist GPU_CONSTRUCTS_TAG="$$TAG" pytest -n auto -p no:cacheprovider tests/release
	[ -z "$$TAG" ] || PYTHONPATH=. python tools/stale.py --offline

pyz: $(VENV)/.dev ## Build dist/gpu-constructs.pyz, the command line in one file
	python tools/build_zipapp.py

light: $(VENV)/.dev ## Test the wheel without extras, where no CDK is, and the zipapp
	PYTHONPATH=. python tools/base_install.py $(ARGS)

clean: ## Remove the environment and everything made
	rm -rf $(VENV) $(DOCS) site cdk.out cdk.out.* .cache build dist

$(VENV)/.synth: requirements.txt constraints.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.synth requirements-dev.txt
	python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements-dev.txt
	@touch $@

# An environment of its own: Zensical's versions of packages aren't those of the CDK and the tests.
$(DOCS)/.done: requirements-docs.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements-docs.txt
	@touch $@

$(VENV)/.dist: $(VENV)/.dev requirements-dist.txt
	python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements-dist.txt
	@touch $@

$(VENV)/.mutants: $(VENV)/.dev requirements-mutants.txt
	python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements-mutants.txt
	@touch $@
