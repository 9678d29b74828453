# `make help` lists everything that a person can do here. Each recipe is one call of the lab command, which is built when
# it is missing or old; there is no logic in this file.

SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

.PHONY: labs grade up status zombie experiment-state down fresh test unit certify mutate soak conformance verify fix bench clean
.PHONY: cluster cluster-status cluster-down invite revoke e2e-kind
.PHONY: manifests generate build install uninstall run docker-build docker-push deploy undeploy order validate

LAB := .cache/bin/lab
INSTRUCTOR := .cache/bin/cluster
# No settings of the user's for other work, as everywhere here (clusters/gobuild).
GO := GOWORK=off GOFLAGS=-mod=readonly GOTOOLCHAIN=local GOOS= GOARCH= CGO_ENABLED=0 go
# An older Go fails with a message about the form of a version, or downloads another Go.
GO_WANTED := $(shell sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' go.work)
GO_ASK = Go $(GO_WANTED) or newer is needed, and $(1): install it from go.dev/dl.
GO_IS_HERE = command -v go >/dev/null || { echo "$(call GO_ASK,no go is on PATH)" >&2; exit 1; }; \
	have=$$($(GO) env GOVERSION) && printf 'go%s\n' "$(GO_WANTED)" "$${have\#go}" | sort -C -V || \
	{ echo "$(call GO_ASK,this is $${have:-none})" >&2; exit 1; }
SOURCES := $(shell find clusters scripts -name '*.go' -o -name 'go.*' -o -name '*.json' -o -name '*.yaml' -o -path '*/page/*' 2>/dev/null)

# What make itself says of a mistyped target does not say where the right ones are.
.DEFAULT:
	@echo "make: there is no target $@: \`make help\` lists those that there are" >&2; exit 2

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9%-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile | sed 's/%/N/'

##@ Labs (N is a lab's number, as in make lab-2)

labs: $(LAB) ## List the labs, with your scores
	@$(LAB) labs

read-%: $(LAB) ## Read the lecture
	@$(LAB) read $*

lab-%: $(LAB) ## Grade your lab; with CLUSTER=kind or CLUSTER=context:NAME on such a cluster
	@$(LAB) grade $* $(if $(CLUSTER),--cluster $(CLUSTER))

hint-%: $(LAB) ## Show the next hint for the first check that failed
	@$(LAB) hint $*

watch-%: $(LAB) ## Grade your lab again each time you save a file (lab 7 part by part; PART=read: only this part)
	@$(LAB) watch $* $(if $(PART),--part $(PART))

torture-%: $(LAB) ## Crash your operator at each of its writes, and check that it recovers
	@$(LAB) torture $* $(if $(CLUSTER),--cluster $(CLUSTER))

tests-%: $(LAB) ## Grade your own tests: which of our wrong solutions do they find? (labs 2, 3, 4, 8 and 9; DIR= another folder)
	@$(LAB) tests $* $(if $(DIR),--dir $(DIR))

run-%: $(LAB) ## Run your operator against the playground, with its own role
	@$(LAB) run $* $(if $(CLUSTER),--cluster $(CLUSTER))

reset-%: $(LAB) ## Start a lab over; your work is kept in out/kept
	@$(LAB) reset $*

solution-%: $(LAB) ## Grade the solution instead
	@$(LAB) grade $* --solution $(if $(CLUSTER),--cluster $(CLUSTER))

grade: $(LAB) ## Grade all labs; reports go into out/
	@$(LAB) grade --all

# These belong to the folder of a lab.
manifests generate build install uninstall run docker-build docker-push deploy undeploy:
	$(error type make $@ in the folder of your lab, or from here, for example: make -C labs/02-reconciler $@)
order validate:
	$(error type make $@ in the folder of your lab, or from here, for example: make -C labs/06-acme $@)

##@ The playground: a cluster that runs until you stop it

up: $(LAB) ## Start it; eval "$(make up)" also points kubectl in your shell there (NODE=0: no Pods run; ADDONS=cert-manager,pebble,ingress)
	@$(LAB) up $(if $(NODE),--node=$(NODE)) $(if $(ADDONS),--addons $(ADDONS))

status: $(LAB) ## Show which parts of it are running
	@$(LAB) status

zombie: $(LAB) ## Create icecreams there that are stuck in deletion, for the second half of lab 3
	@$(LAB) zombie

experiment-state: $(LAB) ## On a cluster of its own: measure what state costs (OBJECTS=, WATCHERS=); docs/lectures/state-is-hard.md
	@$(LAB) experiment state $(if $(OBJECTS),--objects $(OBJECTS)) $(if $(WATCHERS),--watchers $(WATCHERS))

down: $(LAB) ## Stop it, and remove everything in it
	@$(LAB) down

##@ For instructors: a kind cluster (NAME=, PROFILE=student or classroom, FLAGS= for more); docs/guides/instructor.md

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

##@ For contributors

fresh: ## Try README's first commands on a machine with nothing but Go, make and git (as root: in a fresh Debian)
	@$(GO_IS_HERE)
	@$(GO) build -C scripts -trimpath -o ../.cache/bin/fresh ./fresh
	@.cache/bin/fresh

test: unit certify ## Unit tests, then certification of every lab (WITHIN=45m: mutants as long as there is time)

unit: $(LAB) ## Unit tests only
	@$(LAB) test

# What make does before it, as the unit tests of `make test`, is part of the time that certification gets.
BEGAN := $(shell date +%s)

certify: $(LAB) ## Prove the graders: skeleton, solution, right designs and mutants must get their stated grades (WITHIN=25m, SEED=7)
	@$(LAB) certify --parallel 5 $(if $(WITHIN),--within $(WITHIN) --since $(BEGAN)) $(if $(SEED),--seed $(SEED))

mutate: $(LAB) ## Judge the checks by mutants made from the solutions' syntax (SAMPLE=10: ten; SEED=7: the same ten again)
	@$(LAB) mutate $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

conformance: $(LAB) ## Run Kubernetes' own conformance tests on an embedded cluster (FOCUS=, SAMPLE=1, AGAIN=1, PARALLEL=, CLUSTER=)
	@$(LAB) conformance $(if $(FOCUS),--focus '$(FOCUS)') $(if $(SAMPLE),--sample) $(if $(AGAIN),--again) $(if $(PARALLEL),--parallel $(PARALLEL)) $(if $(CLUSTER),--cluster $(CLUSTER))

soak: $(LAB) ## Grade the solutions twenty times in a row (TIMES=5: five) while all cores are busy
	@$(LAB) certify --only solution --repeat $(or $(TIMES),20) --parallel 2 --busy

e2e-kind: $(LAB) $(INSTRUCTOR) ## Try the whole course on a new kind cluster, and remove it (FLAGS= as for cluster e2e)
	@$(INSTRUCTOR) e2e $(FLAGS)

verify: $(LAB) ## Check generated files, skeletons, pages, modules, lint; edits nothing
	@$(LAB) verify

fix: $(LAB) ## Fix what verify finds, where a program can
	@$(LAB) fix

bench: $(LAB) ## Measure times and memory, for docs/benchmarks.md
	@$(LAB) bench

clean: ## Remove what was built, except images, which take long to build; your work is kept
	@rm -rf .cache/bin .cache/checks .cache/controlplane .cache/submissions .cache/proven
	@! command -v go >/dev/null || GOMODCACHE="$(CURDIR)/.cache/fresh/modules" $(GO) clean -modcache

# The bootstrap builds the commands, and what the goals need besides. It imports little, so it is ready within seconds. Without make,
# a command builds what it needs by itself. A program of ours is there as a whole or not at all: after Ctrl-C in a later build, make
# need not delete it.
.PRECIOUS: $(LAB) $(INSTRUCTOR)
$(LAB): $(SOURCES)
	@$(GO_IS_HERE)
	@[ -x .cache/bin/bootstrap ] || echo "First the bootstrap is compiled, which takes about 10 s if Go has compiled nothing here." >&2
	@$(GO) build -C scripts -trimpath -o ../.cache/bin/bootstrap ./bootstrap
	@.cache/bin/bootstrap lab $(MAKECMDGOALS) $(foreach name,ADDONS NODE CLUSTER,$(if $($(name)),'$(name)=$($(name))'))

$(INSTRUCTOR): $(SOURCES)
	@$(GO_IS_HERE)
	@[ -x .cache/bin/bootstrap ] || echo "First the bootstrap is compiled, which takes about 10 s if Go has compiled nothing here." >&2
	@$(GO) build -C scripts -trimpath -o ../.cache/bin/bootstrap ./bootstrap
	@.cache/bin/bootstrap cluster $(MAKECMDGOALS)
