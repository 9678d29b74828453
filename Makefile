# The map of everything a person can do here: `make help`. Each recipe is one call of the lab command, which is built
# when it is missing or old; there is no logic in this file.

SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

.PHONY: labs grade up status zombie down test unit certify soak verify fix bench clean
.PHONY: cluster cluster-status cluster-down invite revoke e2e-kind

LAB := .cache/bin/lab
INSTRUCTOR := .cache/bin/cluster
GO := GOWORK=off CGO_ENABLED=0 go
SOURCES := $(shell find clusters scripts -name '*.go' -o -name 'go.*' -o -name '*.json' -o -name '*.yaml' -o -path '*/page/*' 2>/dev/null)

.PHONY: help
help: ## Show this map
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9%-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile | sed 's/%/N/'

##@ Labs (N is a lab's number, as in make lab-2)

labs: $(LAB) ## List the labs, and how far you have got
	@$(LAB) labs

read-%: $(LAB) ## Read the lecture
	@$(LAB) read $*

lab-%: $(LAB) ## Grade your lab; with CLUSTER=kind or CLUSTER=context:NAME on such a cluster
	@$(LAB) grade $* $(if $(CLUSTER),--cluster $(CLUSTER))

hint-%: $(LAB) ## The next hint for the first check that failed
	@$(LAB) hint $*

watch-%: $(LAB) ## Grade again each time you save a file
	@$(LAB) watch $*

torture-%: $(LAB) ## Crash your operator at each of its writes, and see whether it survives
	@$(LAB) torture $* $(if $(CLUSTER),--cluster $(CLUSTER))

run-%: $(LAB) ## Run your operator at the playground, with its own role
	@$(LAB) run $* $(if $(CLUSTER),--cluster $(CLUSTER))

reset-%: $(LAB) ## Begin a lab again; your work is kept
	@$(LAB) reset $*

solution-%: $(LAB) ## Grade the solution instead
	@$(LAB) grade $* --solution $(if $(CLUSTER),--cluster $(CLUSTER))

grade: $(LAB) ## Grade all labs; reports go into out/
	@$(LAB) grade --all

##@ The playground: a cluster that stays

up: $(LAB) ## Start it, and say how kubectl gets there
	@$(LAB) up

status: $(LAB) ## Say what of it runs
	@$(LAB) status

zombie: $(LAB) ## Put an icecream there that can't die, for the second half of lab 3
	@$(LAB) zombie

down: $(LAB) ## End it, and remove all that it holds
	@$(LAB) down

##@ For instructors: a cluster of kind (NAME=, PROFILE=student or classroom, FLAGS= for more)

NAMED = $(if $(NAME),--name $(NAME))

cluster: $(INSTRUCTOR) ## Make it, with Cilium and cert-manager, or bring it up to date
	@$(INSTRUCTOR) create $(NAMED) $(if $(PROFILE),--profile $(PROFILE)) $(FLAGS)

cluster-status: $(INSTRUCTOR) ## Say what of it is usable, and in which versions
	@$(INSTRUCTOR) status $(NAMED) $(FLAGS)

cluster-down: $(INSTRUCTOR) ## Remove it, with all that it holds
	@$(INSTRUCTOR) delete $(NAMED) $(FLAGS)

invite: $(INSTRUCTOR) ## Give each student of ROSTER=FILE an account there
	@$(INSTRUCTOR) invite $(NAMED) $(FLAGS) $(ROSTER)

revoke: $(INSTRUCTOR) ## Take the students of ROSTER=FILE out again
	@$(INSTRUCTOR) revoke $(NAMED) $(FLAGS) $(ROSTER)

##@ For those who build the course

test: unit certify ## Unit tests, then certification of every lab

unit: $(LAB) ## Unit tests
	@$(LAB) test

certify: $(LAB) ## Prove the graders: skeleton, solution and every mutant get the grade they must
	@$(LAB) certify --parallel 2

soak: $(LAB) ## The solutions pass twenty times in a row while all cores are busy (TIMES=5: five)
	@$(LAB) certify --only solution --repeat $(or $(TIMES),20) --parallel 2 --busy

e2e-kind: $(LAB) $(INSTRUCTOR) ## All of the course on a kind cluster of its own, from nothing to nothing (FLAGS= as for cluster e2e)
	@$(INSTRUCTOR) e2e $(FLAGS)

verify: $(LAB) ## Generated files, skeletons, pages, modules, lint; never edits the tree
	@$(LAB) verify

fix: $(LAB) ## Mend what verify finds, as far as a program can
	@$(LAB) fix

bench: $(LAB) ## Measure the budgets; figures go to docs/benchmarks.md
	@$(LAB) bench

clean: ## Remove what was built, but no work of yours, and no images: .cache/images took long
	@rm -rf .cache/bin .cache/checks .cache/controlplane .cache/submissions

# The lab command builds all else by itself. What builds it imports so little that it is there within seconds.
$(LAB): $(SOURCES)
	@command -v go >/dev/null || { echo "Go is needed and not on PATH: install Go 1.26 or newer from go.dev/dl." >&2; exit 1; }
	@$(GO) build -C scripts -trimpath -o ../.cache/bin/bootstrap ./bootstrap
	@.cache/bin/bootstrap

$(INSTRUCTOR): $(SOURCES)
	@command -v go >/dev/null || { echo "Go is needed and not on PATH: install Go 1.26 or newer from go.dev/dl." >&2; exit 1; }
	@$(GO) build -C scripts -trimpath -o ../.cache/bin/bootstrap ./bootstrap
	@.cache/bin/bootstrap cluster
