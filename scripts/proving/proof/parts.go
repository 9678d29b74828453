// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lva.io/operators/scripts/authoring/certify"
	"lva.io/operators/scripts/authoring/conformance"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/manifest"
)

// Stale names the parts that are not proven with their current inputs. A family without a proven part is named once. It
// runs nothing.
func Stale(ctx context.Context, repo *checkout.Checkout) ([]string, error) {
	parts, err := Parts(repo)
	if err != nil {
		return nil, err
	}
	store, err := UserStore(repo.Root)
	if err != nil {
		return nil, err
	}
	all, err := States(ctx, Options{Root: repo.Root, Parts: parts, Store: store})
	if err != nil {
		return nil, err
	}
	var stale []Part
	for _, state := range all {
		if !state.Proven() {
			stale = append(stale, state.Part)
		}
	}
	return shortened(parts, stale), nil
}

// Parts returns all parts of a checkout's proof. The parts for labs come from labs.yaml, and those for the conformance
// tests from the results in the documentation.
func Parts(repo *checkout.Checkout) (all []Part, err error) {
	for _, add := range []func(*checkout.Checkout, *manifest.Lab) ([]Part, error){
		certification, torture, mutation, soak, stalled,
	} {
		for i := range repo.Labs.Labs {
			parts, err := add(repo, &repo.Labs.Labs[i])
			if err != nil {
				return nil, err
			}
			all = append(all, parts...)
		}
	}
	for _, add := range []func(*checkout.Checkout) ([]Part, error){conformanceTests, unitTests, kindTests} {
		parts, err := add(repo)
		if err != nil {
			return nil, err
		}
		all = append(all, parts...)
	}
	return append(all, others()...), nil
}

// labCommand returns a call of the lab command, which `make prove` has built.
func labCommand(args ...string) Command {
	return Command{Args: append([]string{".cache/bin/lab"}, args...)}
}

// goTest returns a call of go test in the module scripts, with the flags of all our builds.
func goTest(args ...string) Command {
	return Command{Args: append([]string{"go", "-C", "scripts", "test", "-trimpath", "-vet=off", "-v"}, args...)}
}

// counts returns a Count of lines of an output.
func counts(unit, pattern string) []Count {
	return []Count{{Unit: unit, Pattern: regexp.MustCompile("(?m)" + pattern)}}
}

var (
	passedTests = counts("tests", `^\s*--- PASS`)
	// required are variables that turn skipped tests into failures if the machine lacks something. .ci/run sets the same
	// variables.
	required = []string{
		"OPERATOR_LABS_BROWSER=required", "OPERATOR_LABS_SSHD=required",
		"OPERATOR_LABS_NAMESPACES=required", "OPERATOR_LABS_CGROUPS=required",
	}
	submissions = counts("submissions", `^\S+: (\d+) graded, `)
)

// named returns the name of a lab's part: certify-02.
func named(family string, lab *manifest.Lab) string {
	return fmt.Sprintf("%s-%02d", family, lab.Number)
}

// usual returns the usual duration of a lab's part. It depends on whether Pods run.
func usual(lab *manifest.Lab, minutes, withPods time.Duration) time.Duration {
	if lab.NeedsNode(lab.Stage) {
		minutes = withPods
	}
	return minutes * time.Minute
}

// checksOf returns the folder of a lab's checks.
func checksOf(lab *manifest.Lab) string { return "scripts/checks/" + lab.Name }

// graded returns the inputs of everything that grades submissions of a lab.
func graded(lab *manifest.Lab) (Inputs, error) {
	entry, err := json.Marshal(lab)
	if err != nil {
		return Inputs{}, err
	}
	in := Inputs{
		Values:   []string{string(entry)},
		Packages: append(slices.Clip(harness.Packages), checksOf(lab), "clusters/controlplane"),
		// The pinned controller-gen generates manifests.
		Files: append(slices.Clip(harness.Files), "solutions/"+lab.Name, "scripts/checkout/tools"),
	}
	if lab.NeedsNode(lab.Stage) {
		in.Files = append(in.Files, "clusters/node", "clusters/images")
	}
	if len(lab.Addons) > 0 {
		in.Files = append(in.Files, "clusters/addons")
	}
	return in, nil
}

// certification returns the parts that prove the graders of a lab. If children of the operator are Pods, a grade takes
// so long that the lab has two halves.
func certification(repo *checkout.Checkout, lab *manifest.Lab) ([]Part, error) {
	in, err := graded(lab)
	if err != nil {
		return nil, err
	}
	names, err := certify.Names(repo, lab)
	if err != nil {
		return nil, err
	}
	part := func(suffix, what string, only ...string) Part {
		args := append([]string{"certify", strconv.Itoa(lab.Number), "--parallel", "5"}, only...)
		return Part{
			Name: named("certify", lab) + suffix, Family: "certify", Inputs: in, Usual: usual(lab, 8, 15), Counts: submissions,
			Proves: what + " get their stated grades", Commands: []Command{labCommand(args...)},
		}
	}
	const all = "skeleton, solution, right designs and mutants"
	if !lab.Node {
		return []Part{part("", all)}, nil
	}
	halves := make([][]string, 2)
	for i, name := range names {
		halves[i%2] = append(halves[i%2], name)
	}
	var parts []Part
	for i, half := range halves {
		parts = append(parts, part(fmt.Sprintf("-%d", i+1), "one half of "+all, "--only", strings.Join(half, ",")))
	}
	return parts, nil
}

// torture returns the part with many random schedules. Certification tortures the solution only with a few.
func torture(_ *checkout.Checkout, lab *manifest.Lab) ([]Part, error) {
	if !lab.Operator || lab.Stage == manifest.Deployed {
		return nil, nil
	}
	in, err := graded(lab)
	in.Packages = append(in.Packages, "scripts/grading/work")
	in.Files = append(in.Files, "scripts/cmd/lab/torture.go")
	return []Part{{
		Name: named("torture", lab), Family: "torture", Inputs: in, Usual: usual(lab, 4, 8),
		Proves:   "the solution survives each single crash, and fifty random schedules of faults",
		Commands: []Command{labCommand("torture", strconv.Itoa(lab.Number), "--solution", "--scenes", "--random", "50")},
		Counts:   counts("schedules", ` random schedules, (\d+) in all`),
	}}, err
}

// mutation returns the part that tries a sample of the mutants. The sample is smaller if Pods run. If a lab has fewer
// mutants, all of them are tried.
func mutation(_ *checkout.Checkout, lab *manifest.Lab) ([]Part, error) {
	in, err := graded(lab)
	in.Packages = append(in.Packages, "scripts/authoring/mutate", "scripts/authoring/mutate/campaign")
	in.Files = append(in.Files, "scripts/cmd/lab/mutate.go")
	args, sample := []string{"mutate", strconv.Itoa(lab.Number), "--sample", "100", "--seed", "1"}, "100 drawn"
	if lab.NeedsNode(lab.Stage) {
		args[3], sample = "40", "40 drawn"
	}
	return []Part{{
		Name: named("mutate", lab), Family: "mutate", Inputs: in, Usual: usual(lab, 9, 9),
		Proves:   "the checks find " + sample + " mutants of the syntax tree, or all if there are fewer",
		Commands: []Command{labCommand(args...)}, Counts: counts("mutants", `^\S+: (\d+) mutants: `),
	}}, err
}

func soak(_ *checkout.Checkout, lab *manifest.Lab) ([]Part, error) {
	in, err := graded(lab)
	return []Part{{
		Name: named("soak", lab), Family: "soak", Inputs: in, Usual: usual(lab, 3, 6), Counts: submissions,
		Proves: "the solution has full marks ten times in a row while two programs compute",
		Commands: []Command{labCommand(
			"certify", strconv.Itoa(lab.Number), "--only", "solution", "--repeat", "10", "--parallel", "2", "--load", "2")},
	}}, err
}

func stalled(_ *checkout.Checkout, lab *manifest.Lab) ([]Part, error) {
	in, err := graded(lab)
	certifyUnder := func(load string) Command {
		return labCommand("certify", strconv.Itoa(lab.Number), "--only", "solution", "--load", load)
	}
	return []Part{{
		Name: named("stalled", lab), Family: "stalled", Inputs: in, Usual: usual(lab, 5, 10), Counts: submissions,
		Proves:   "on a machine with a load of 20, and of 40, the solution has full marks, or no grade and the reason",
		Commands: []Command{certifyUnder("20"), certifyUnder("40")},
	}}, err
}

// conformanceTests returns a part for each group of tests. Small groups share one.
func conformanceTests(repo *checkout.Checkout) ([]Part, error) {
	results, err := conformance.Published(repo.Root)
	if err != nil {
		return nil, err
	}
	const large = 40
	var groups, small []string
	for _, figures := range conformance.Count(results) {
		group := strings.TrimPrefix(figures.SIG, "sig-")
		if figures.All() < large {
			small = append(small, group)
		} else {
			groups = append(groups, group)
		}
	}
	in := Inputs{
		Packages: []string{
			"scripts/authoring/conformance", "scripts/grading/placement", "clusters/embedded", "clusters/controlplane",
		},
		Files: []string{
			"scripts/cmd/lab/conformance.go", "scripts/grading/playground/kubectl.go", "clusters/node", "clusters/images",
		},
	}
	part := func(name string, groups ...string) Part {
		return Part{
			Name: "conformance-" + name, Family: "conformance", Inputs: in, Usual: 15 * time.Minute,
			Proves:   "the embedded cluster passes Kubernetes' conformance tests of " + strings.Join(groups, ", "),
			Commands: []Command{labCommand("conformance", "--focus", `^\[sig-(`+strings.Join(groups, "|")+`)\]`)},
			Counts:   counts("tests", `^(\d+) of \d+ passed`),
		}
	}
	var parts []Part
	for _, group := range groups {
		parts = append(parts, part(group, group))
	}
	if len(small) > 0 {
		parts = append(parts, part("others", small...))
	}
	return parts, nil
}

// unitTests returns the parts for all unit tests. Tests in scripts that are linked with a control plane grade whole
// submissions.
func unitTests(repo *checkout.Checkout) ([]Part, error) {
	modules, err := repo.Modules()
	if err != nil {
		return nil, err
	}
	var solutions []string
	for _, module := range modules {
		if strings.HasPrefix(module, "solutions/") {
			solutions = append(solutions, module)
		}
	}
	programs, err := TestedPrograms(repo)
	if err != nil {
		return nil, err
	}
	part := func(name, what string, usual time.Duration, args ...string) Part {
		command := labCommand(append([]string{"unit", "--only"}, args...)...)
		command.Env = required
		return Part{
			// Tests read pages, labs and solutions.
			Name: "unit-" + name, Family: "unit", Inputs: Inputs{All: true},
			Usual: usual, Counts: counts("tests", `^\S+: (\d+) tests passed, `),
			Proves: "all unit tests pass: " + what, Commands: []Command{command},
		}
	}
	return []Part{
		part("clusters", "those of the clusters, and of the programs in their images", 10*time.Minute,
			strings.Join(append([]string{"clusters"}, programs...), ",")),
		part("scripts", "those of the scripts that start no control plane", 10*time.Minute,
			"scripts", "--control-plane", "without"),
		part("graders", "those of the scripts that start control planes and grade", 25*time.Minute,
			"scripts", "--control-plane", "with"),
		part("solutions", "those of the solutions", 6*time.Minute, strings.Join(solutions, ",")),
	}, nil
}

// TestedPrograms returns the folders of the modules of image programs that have tests. They are not modules of the
// workspace. Other modules are not compiled without a reason, because some of them are huge.
func TestedPrograms(repo *checkout.Checkout) ([]string, error) {
	tests, err := filepath.Glob(filepath.Join(repo.Root, "clusters", "images", "programs", "*", "*_test.go"))
	if err != nil {
		return nil, err
	}
	var modules []string
	for _, test := range tests {
		module, err := filepath.Rel(repo.Root, filepath.Dir(test))
		if err != nil {
			return nil, err
		}
		modules = append(modules, filepath.ToSlash(module))
	}
	return slices.Compact(modules), nil
}

// kindTests returns the parts that prove the course on a kind cluster. All labs together take more than half an hour,
// so each half has a cluster of its own.
func kindTests(repo *checkout.Checkout) ([]Part, error) {
	part := func(suffix, proves string, usual time.Duration, labs []manifest.Lab, more string) Part {
		var numbers []string
		for _, lab := range labs {
			numbers = append(numbers, strconv.Itoa(lab.Number))
		}
		return Part{
			Name: "kind-" + suffix, Family: "kind", Usual: usual, Proves: proves, Counts: counts("steps", `^ok +\d+\.\d s  `),
			Inputs: Inputs{
				Packages: []string{"scripts/cmd/lab", "scripts/cmd/cluster", "clusters/controlplane"},
				Files:    []string{"clusters", "scripts/checks", "solutions", manifest.File},
			},
			Commands: []Command{{Args: []string{"make", "e2e-kind", "FLAGS=--labs " + strings.Join(numbers, ",") + more}}},
		}
	}
	// Operators of labs 8 and 9 react to objects that Kubernetes' controllers and kubelets write, and lab 08 once had a
	// flaky fault.
	var repeated []manifest.Lab
	for _, number := range []string{"8", "9"} {
		lab, err := repo.Labs.Lab(number)
		if err != nil {
			return nil, err
		}
		repeated = append(repeated, *lab)
	}
	all := repo.Labs.Labs
	middle := (len(all) + 1) / 2
	const cluster = " on a kind cluster with Cilium and cert-manager, from nothing to nothing"
	return []Part{
		part("a", "the first half of the labs works"+cluster, 20*time.Minute, all[:middle], ""),
		part("b", "the second half of the labs works"+cluster, 20*time.Minute, all[middle:], ""),
		part("repeat", "the solutions of labs 8 and 9 have full marks ten times in a row on a kind cluster",
			28*time.Minute, repeated, " --times 10"),
	}, nil
}

// others returns the parts that belong to no lab.
func others() []Part {
	allFiles := Inputs{All: true}
	first := Inputs{
		Packages: []string{
			"scripts/cmd/lab", "scripts/cmd/fresh", "scripts/cmd/bootstrap",
			"scripts/checks/01-icecream", "scripts/checks/02-reconciler", "clusters/controlplane",
		},
		Files: []string{
			"Makefile", "go.work", "scripts/checkout/tools", manifest.File,
			"labs/01-icecream", "solutions/01-icecream", "solutions/02-reconciler",
		},
	}
	steps := counts("steps", `^--- .*: passed after `)
	return []Part{
		{
			Name: "stalled-stop", Family: "stalled", Usual: 20 * time.Minute, Counts: passedTests,
			Inputs: Inputs{
				Packages: []string{"scripts/cmd/lab", "scripts/checks/02-reconciler", "clusters/controlplane"},
				Files:    []string{"solutions/02-reconciler"},
			},
			Proves:   "a run that is stopped at a random moment for 20 s has full marks, or no grade and the reason",
			Commands: []Command{goTest("-count=20", "-timeout=60m", "-run=^TestStoppedRunLosesNoPoints$", "./cmd/lab")},
		},
		{
			Name: "air-gap", Inputs: first, Usual: 8 * time.Minute, Counts: steps, Committed: true,
			// If a Debian root is impossible, the commands run on the machine itself.
			Shows: &Sign{
				Pattern: regexp.MustCompile(`(?m)^The machine is a Debian root .*\. It has no network\. `),
				Missing: "it ran on the machine itself, whose network programs can reach: " +
					"a Debian root, which has none, needs Linux, the user root, mmdebstrap and bwrap",
			},
			Proves:   "the first command works without a network, from the modules that are on this machine",
			Commands: []Command{{Args: []string{"make", "fresh", "AIR_GAP=1"}}},
		},
		{
			Name: "fresh", Inputs: first, Usual: 12 * time.Minute, Counts: steps, Committed: true,
			Proves:   "the first commands work for an ordinary user with empty caches",
			Commands: []Command{{Args: []string{"make", "fresh"}}},
		},
		{
			Name: "programs", Inputs: allFiles, Usual: 15 * time.Minute, Counts: steps, Committed: true,
			Proves: "with empty caches the first verdicts come from prebuilt programs, " +
				"and a sample of them is compiled to the same bytes",
			Commands: []Command{
				labCommand("programs", "save", ".cache/programs.tar"),
				{Args: []string{"make", "fresh", "PROGRAMS=.cache/programs.tar"}},
				labCommand("programs", "verify", ".cache/programs.tar", "--sample", "3"),
			},
		},
		{
			Name: "arm64", Usual: 28 * time.Minute, Counts: passedTests,
			Inputs: Inputs{
				Packages: []string{
					"scripts/grading/grade", "scripts/checkout/programs",
					"scripts/checks/01-icecream", "clusters/controlplane",
				},
				Files: []string{
					"clusters/node", "clusters/images", "clusters/addons", "scripts/cmd/lab", "scripts/grading/playground",
					"scripts/cmd/cluster", "solutions/01-icecream", manifest.File,
				},
			},
			Proves: "all programs can be built for linux/arm64, " +
				"and the solution of lab 1 has full marks on such a control plane, run by qemu-user",
			Commands: []Command{{
				Args: goTest("-count=1", "-timeout=60m", "-run=Arm64$", "./checkout/programs", "./grading/grade").Args,
				Env:  []string{"OPERATOR_LABS_ARM64=required"},
			}},
		},
		{
			Name: "browser", Inputs: allFiles, Usual: 6 * time.Minute, Counts: passedTests,
			Proves: "report, site and slides work in a real browser",
			Commands: []Command{
				{Args: []string{"make", "docs"}},
				labCommand("slides"),
				{
					Args: goTest("-count=1", "-timeout=30m", "./proving/browser").Args,
					Env:  []string{"OPERATOR_LABS_BROWSER=required", "OPERATOR_LABS_SITE=required"},
				},
			},
		},
		{
			Name: "pages", Inputs: allFiles, Usual: 20 * time.Minute, Counts: counts("pages", `^ok    docs/`),
			Proves:   "the commands in lectures and guides print what the transcripts say",
			Commands: []Command{labCommand("verify-docs")},
		},
		{
			Name: "lint", Inputs: allFiles, Usual: 7 * time.Minute, Counts: counts("checks", `^\S+ \(.*\): done in `),
			Proves:   "all files of the repository are as they must be, and no linter finds anything",
			Commands: []Command{labCommand("verify")},
		},
		{
			Name: "bench", Usual: 12 * time.Minute, Counts: counts("benchmarks", `^Benchmark\S+\s+\d+\s`),
			Inputs: Inputs{
				Packages: []string{"scripts/proving/bench", "scripts/cmd/lab", "clusters/controlplane"},
				Files:    []string{"clusters/node", "clusters/images", "scripts/checks", "solutions", manifest.File},
			},
			Proves:   "the budgets of the design can be measured",
			Commands: []Command{labCommand("bench", "--times", "3x")},
		},
	}
}
