# `make help` lists everything that a person can do here. Each recipe is one call of the lab command, which is built when
# it is missing or old; there is no logic in this file.

SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules
# A rule of make itself would ask for the lab ".o" to link lab- from it.
.SUFFIXES:
# More flags for the command behind a target. A variable of this name in the environment is for compilers.
FLAGS =
# Where prebuilt programs come from, instead of programs.lock: a file, or a URL. PROGRAMS=none compiles everything.
ifdef PROGRAMS
export OPERATOR_LABS_PROGRAMS := $(PROGRAMS)
endif

.PHONY: doctor labs grade up status zombie experiment-state down fresh test prove unit certify mutate soak conformance verify verify-docs fix bench clean
.PHONY: docs docs-serve node cluster cluster-status cluster-down invite revoke e2e-kind
.PHONY: manifests generate build install uninstall run docker-build docker-push deploy undeploy order validate

LAB := .cache/bin/lab
INSTRUCTOR := .cache/bin/cluster
# No settings of the user's for other work, as everywhere here (clusters/gobuild).
GO := GOWORK=off GOFLAGS=-mod=readonly GOTOOLCHAIN=local GOOS= GOARCH= CGO_ENABLED=0 go
# An older Go fails with a message about the form of a version, or downloads another Go.
GO_WANTED := $(shell sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' go.work)
GO_ASK = Go $(GO_WANTED) or newer is needed, and $(1): install it from go.dev/dl.
GO_IS_HERE = command -v go >/dev/null || { echo "$(call GO_ASK,no go is on PATH)" >&2; exit 1; }; \
	have=$$($(GO) env GOVERSION) && echo "$$have" | awk -F'[^0-9]+' -v wanted="$(GO_WANTED)" \
	'{ split(wanted, w, "."); exit !($$2 > w[1] || $$2 == w[1] && $$3 >= w[2]) }' || \
	{ echo "$(call GO_ASK,this is $${have:-none})" >&2; exit 1; }
# What sh says of a program that may not run does not say why.
RUNS_HERE = { code=$$?; [ $$code != 126 ] || echo "The course can't be used in this folder: no program may run there (noexec). Clone into a folder of your home, on a file system of Linux." >&2; exit $$code; }
# The site and the slides need Node, and nothing else does. For the site make installs its modules there, and again when the lock file has changed.
SITE := docs/site
SITE_MODULES := $(SITE)/node_modules/.package-lock.json
NODE_IS_HERE = command -v npm >/dev/null && node -e 'const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 20 || major == 20 && minor >= 11 ? 0 : 1)' || \
	{ echo "The site is built by Node 20.11 or newer with npm, and they are not here: install them (Debian 13: apt-get install nodejs npm; elsewhere from nodejs.org)." >&2; exit 1; }
SOURCES := $(shell find clusters scripts -name '*.go' -o -name 'go.*' -o -name '*.json' -o -name '*.yaml' -o -path '*/page/*' 2>/dev/null)

# What make itself says of a mistyped target does not say where the right ones are.
.DEFAULT:
	@echo "make: there is no target $@: \`make help\` lists all targets" >&2; exit 2

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9%-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile | sed 's/%/N/'

##@ Labs (N is a lab's number, as in make lab-2; FLAGS=--help: more flags; PROGRAMS=FILE or URL: install prebuilt programs)

# Flags for the targets that grade an operator. lab refuses a flag that a command does not have, so STEP and CLUSTER are
# never ignored silently.
GRADED = $(if $(STEP),--step $(STEP)) $(if $(CLUSTER),--cluster $(CLUSTER))

doctor: ## Look whether this machine can grade all labs, and what helps if not: run it first, and paste it into a question (FORMAT=json)
	@$(GO_IS_HERE)
	@[ -e .cache/bin/doctor ] || echo "First this is compiled, which takes half a minute if Go has compiled nothing here." >&2
	@$(GO) build -C scripts -trimpath -o ../.cache/bin/doctor ./cmd/doctor
	@.cache/bin/doctor $(if $(FORMAT),-format $(FORMAT)) $(FLAGS) || $(RUNS_HERE)

labs: $(LAB) ## List the labs, with your scores
	@$(LAB) labs $(FLAGS)

read-%: $(LAB) ## Read the lecture
	@$(LAB) read $* $(FLAGS)

lab-%: $(LAB) ## Grade your lab; with CLUSTER=kind or CLUSTER=context:NAME on such a cluster (STEP=3: only what steps 1 to 3 are about)
	@$(LAB) grade $* $(GRADED) $(FLAGS)

hint-%: $(LAB) ## Show the next hint for the first check that failed
	@$(LAB) hint $* $(FLAGS)

watch-%: $(LAB) ## Grade your lab again each time you save a file (lab 7 part by part; PART=read: only this part)
	@$(LAB) watch $* $(if $(PART),--part $(PART)) $(GRADED) $(FLAGS)

replay-%: $(LAB) ## Replay a check of your last run: predict what your operator requests next (CHECK=ID: this check)
	@$(LAB) replay $* $(if $(CHECK),--check $(CHECK)) $(FLAGS)

torture-%: $(LAB) ## Crash your operator at each of its writes, and check that it recovers
	@$(LAB) torture $* $(GRADED) $(FLAGS)

tests-%: $(LAB) ## Grade your own tests: which of our wrong solutions do they find? (labs 2, 3, 4, 8 and 9; DIR= another folder)
	@$(LAB) tests $* $(if $(DIR),--dir $(DIR)) $(GRADED) $(FLAGS)

run-%: $(LAB) ## Run your operator against the playground, with its own role
	@$(LAB) run $* $(if $(CLUSTER),--cluster $(CLUSTER)) $(FLAGS)

reset-%: $(LAB) ## Start a lab over; your work is kept in out/kept
	@$(LAB) reset $* $(FLAGS)

solution-%: $(LAB) ## Grade the solution instead
	@$(LAB) grade $* --solution $(GRADED) $(FLAGS)

grade: $(LAB) ## Grade all labs; reports go into out/
	@$(LAB) grade --all $(GRADED) $(FLAGS)

# These belong to the folder of a lab.
manifests generate build install uninstall run docker-build docker-push deploy undeploy:
	$(error type make $@ in the folder of your lab, or from here, for example: make -C labs/02-reconciler $@)
order validate:
	$(error type make $@ in the folder of your lab, or from here, for example: make -C labs/06-acme $@)

##@ The playground: a cluster that runs until you stop it

up: $(LAB) ## Start it; eval "$(make up)" also points kubectl in your shell there (NODE=0: no Pods run; ADDONS=cert-manager,pebble,ingress)
	@$(LAB) up $(if $(NODE),--node=$(NODE)) $(if $(ADDONS),--addons $(ADDONS)) $(FLAGS)

status: $(LAB) ## Show which parts of it are running
	@$(LAB) status $(FLAGS)

zombie: $(LAB) ## Create icecreams there that are stuck in deletion, for the second half of lab 3
	@$(LAB) zombie $(FLAGS)

experiment-state: $(LAB) ## On a cluster of its own: measure what state costs (OBJECTS=, WATCHERS=); docs/lectures/state-is-hard.md
	@$(LAB) experiment state $(if $(OBJECTS),--objects $(OBJECTS)) $(if $(WATCHERS),--watchers $(WATCHERS)) $(FLAGS)

down: $(LAB) ## Stop it, and remove everything in it
	@$(LAB) down $(FLAGS)

##@ For instructors: a kind cluster (NAME=, PROFILE=student or classroom); docs/guides/instructor.md

NAMED = $(if $(NAME),--name $(NAME))

cluster: $(INSTRUCTOR) ## Create it, with Cilium and cert-manager, or update it
	@$(INSTRUCTOR) create $(NAMED) $(if $(PROFILE),--profile $(PROFILE)) $(FLAGS)

cluster-status: $(INSTRUCTOR) ## Show which parts of it work, and their versions
	@$(INSTRUCTOR) status $(NAMED) $(FLAGS)

cluster-down: $(INSTRUCTOR) ## Remove it, with everything in it
	@$(INSTRUCTOR) delete $(NAMED) $(FLAGS)

invite: $(INSTRUCTOR) ## Give each student of ROSTER=FILE an account there
	@$(INSTRUCTOR) invite $(NAMED) $(FLAGS) $(ROSTER)

revoke: $(INSTRUCTOR) ## Remove the accounts of the students of ROSTER=FILE
	@$(INSTRUCTOR) revoke $(NAMED) $(FLAGS) $(ROSTER)

##@ The documents as a site

docs: $(SITE_MODULES) ## Build it in out/site: pages with search, which any file server can show, below any path
	@$(NODE_IS_HERE)
	@$(GO_IS_HERE)
	@echo "The pages of the recorded runs are written ..." >&2
	@$(GO) run -C scripts -trimpath ./authoring/runs/pages ../docs/runs ../.cache/site/runs
	@npm --prefix $(SITE) run --silent build

docs-serve: docs ## Build it, and show it at http://localhost:4173 (PORT=); Ctrl-C ends that
	@npm --prefix $(SITE) run --silent serve $(or $(PORT),4173)

node: # Is there the Node.js that the site needs?
	@$(NODE_IS_HERE)

$(SITE_MODULES): $(SITE)/package-lock.json
	@$(NODE_IS_HERE)
	@echo "The modules of the site are installed (30 MB to download, once) ..." >&2
	@cd $(SITE) && npm ci --loglevel=error --no-progress && touch node_modules/.package-lock.json

##@ For contributors

test: $(LAB) ## The gate: is a change sound? Generated files, unit tests, each solution and skeleton, some mutants (10 min)
	@$(LAB) test $(if $(SINCE),--since $(SINCE)) $(if $(BEGAN),--began $(BEGAN)) $(FLAGS)

fresh: ## Try README's first commands with empty caches and nothing but Go, make and git (WARM=1: the first, with your caches; PROGRAMS=FILE: with an archive)
	@$(GO_IS_HERE)
	@$(GO) build -C scripts -trimpath -o ../.cache/bin/fresh ./cmd/fresh
	@.cache/bin/fresh $(if $(WARM),--warm) $(if $(AIR_GAP),--air-gap) $(if $(PROGRAMS),--programs $(PROGRAMS)) $(FLAGS)

prove: $(LAB) ## The proof: every part whose inputs have changed since it was proven here (PART=kind,certify-02; WITHIN=60m); hours the first time
	@$(LAB) prove $(PART) $(if $(WITHIN),--within $(WITHIN)) $(FLAGS)

unit: $(LAB) ## Unit tests, also those that take long (SHORT=1: without them; MEASURE=1: print what took how long)
	@$(LAB) unit $(if $(SHORT),--short) $(if $(MEASURE),--measure) $(FLAGS)

certify: $(LAB) ## Prove the graders: skeleton, solution, right designs and mutants must get their stated grades
	@$(LAB) certify --parallel 5 $(FLAGS)

mutate: $(LAB) ## Judge the checks by mutants made from the solutions' syntax (SAMPLE=10: ten; SEED=7: the same ten again)
	@$(LAB) mutate $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) $(FLAGS)

conformance: $(LAB) ## Run Kubernetes' own conformance tests on an embedded cluster (FOCUS=, SAMPLE=1, AGAIN=1, PARALLEL=, CLUSTER=)
	@$(LAB) conformance $(if $(FOCUS),--focus '$(FOCUS)') $(if $(SAMPLE),--sample) $(if $(AGAIN),--again) $(if $(PARALLEL),--parallel $(PARALLEL)) $(if $(CLUSTER),--cluster $(CLUSTER)) $(FLAGS)

.PHONY: slides
slides: $(LAB) ## Build the slides of the lectures into out/slides, as HTML and PDF (needs Node, npm and Chromium)
	@$(LAB) slides $(FLAGS)

soak: $(LAB) ## Grade the solutions twenty times in a row (TIMES=5: five) while two programs compute (LOAD=20: twenty)
	@$(LAB) certify --only solution --repeat $(or $(TIMES),20) --parallel 2 --load $(or $(LOAD),2) $(FLAGS)

e2e-kind: $(LAB) $(INSTRUCTOR) ## Try the whole course on a new kind cluster, and remove it (FLAGS= as for cluster e2e)
	@$(INSTRUCTOR) e2e $(FLAGS)

verify: $(LAB) ## Check generated files, skeletons, pages, modules, lint; edits nothing
	@$(LAB) verify $(FLAGS)

fix: $(LAB) ## Fix what verify finds, where a program can
	@$(LAB) fix $(FLAGS)

verify-docs: $(LAB) ## Run the commands in the lectures and guides, and compare what they print (PAGE=docs/lectures/02-reconcile.md)
	@$(LAB) verify-docs $(PAGE) $(FLAGS)

bench: $(LAB) ## Measure times and memory, for docs/benchmarks.md
	@$(LAB) bench $(FLAGS)

clean: ## Remove what was built, except images, which take long to build; your work is kept
	@rm -rf .cache/bin .cache/arm64 .cache/checks .cache/controlplane .cache/submissions .cache/arriving .cache/site .cache/slides $(SITE)/node_modules docs/slides/node_modules
	@! command -v go >/dev/null || GOMODCACHE="$(CURDIR)/.cache/fresh/modules" $(GO) clean -modcache

# The bootstrap builds the commands, and what the goals need besides. It imports little, so it is ready within seconds. Without make,
# a command builds what it needs by itself. A program of ours is there as a whole or not at all: after Ctrl-C in a later build, make
# need not delete it.
.PRECIOUS: $(LAB) $(INSTRUCTOR)
$(LAB) $(INSTRUCTOR): $(SOURCES)
	@$(GO_IS_HERE)
	@[ -x .cache/bin/bootstrap ] || echo "First the bootstrap is compiled, which takes 10 s to a minute if Go has compiled nothing here." >&2
	@$(GO) build -C scripts -trimpath -o ../.cache/bin/bootstrap ./cmd/bootstrap
	@.cache/bin/bootstrap $(@F) $(MAKECMDGOALS) $(foreach name,ADDONS NODE CLUSTER,$(if $($(name)),'$(name)=$($(name))')) || $(RUNS_HERE)
