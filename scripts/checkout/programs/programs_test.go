// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package programs

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/checkout/manifest"
)

const root = "../../.."

func TestAllProgramsBuildForArm64(t *testing.T) {
	if os.Getenv("OPERATOR_LABS_ARM64") != "required" {
		t.Skip("it compiles all programs for arm64: make prove PART=arm64")
	}
	absRoot, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	all, err := For(absRoot, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range append(all, Lab(absRoot), Cluster(absRoot)) {
		target := program.Target
		name, err := filepath.Rel(filepath.Join(absRoot, ".cache"), target.Output)
		if err != nil {
			t.Fatal(err)
		}
		target.Arch, target.Output = "arm64", filepath.Join(absRoot, ".cache", "arm64", name)
		if err := target.Ensure(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", program.What, err)
		}
	}
}

func TestMakeGoalPrograms(t *testing.T) {
	t.Parallel()
	labs, err := filepath.Glob(filepath.Join(root, "labs", "[0-9][0-9]-*"))
	if err != nil || len(labs) < 4 {
		t.Fatalf("labs = %v: %v", labs, err)
	}
	all := "Kubernetes 1.36.3, controller-gen"
	for _, lab := range labs {
		all += ", the checks of lab " + filepath.Base(lab)
	}
	const node = "the node's first process, the node's agent, the image builder, CoreDNS, " +
		"the provisioner of volumes, the shell of volumes"
	const installer, certManager, others = "the installer of add-ons", "cert-manager", "the Ingress controller, Pebble"
	const addons = certManager + ", " + others + ", " + installer
	all += ", " + node + ", " + addons // which some labs need
	for _, test := range []struct{ goal, want string }{
		{"lab-1", "Kubernetes 1.36.3, controller-gen, the checks of lab 01-icecream"},
		{"solution-2", "Kubernetes 1.36.3, controller-gen, the checks of lab 02-reconciler"},
		{"watch-03", "Kubernetes 1.36.3, controller-gen, the checks of lab 03-finalizer"},
		{
			"lab-5",
			"Kubernetes 1.36.3, controller-gen, the checks of lab 05-cert-manager, " +
				node + ", " + certManager + ", " + installer,
		},
		{
			"lab-5 CLUSTER=kind",
			"Kubernetes 1.36.3, controller-gen, the checks of lab 05-cert-manager, " +
				certManager + ", " + installer,
		},
		{"solution-6", "Kubernetes 1.36.3, controller-gen, the checks of lab 06-acme, " + node + ", " + addons},
		{"lab-99", ""}, // the lab command reports that there is none
		{"run-2", "Kubernetes 1.36.3, controller-gen"},
		{"up", "Kubernetes 1.36.3, " + node},
		{"up NODE=0", "Kubernetes 1.36.3"},
		{"up ADDONS=cert-manager", "Kubernetes 1.36.3, " + node + ", " + certManager + ", " + installer},
		{"up ADDONS=pebble,cert-manager,ingress,nothing", "Kubernetes 1.36.3, " + node + ", " + addons},
		{"zombie", "Kubernetes 1.36.3"},
		{"experiment-state", "Kubernetes 1.36.3"},
		{"bench", "Kubernetes 1.36.3, " + node},
		{"conformance", "Kubernetes 1.36.3, " + node + ", Kubernetes' conformance suite"},
		{"unit", "Kubernetes 1.36.3, controller-gen, " + node + ", " + addons + ", gotestsum"},
		{"certify", all},
		{"test", all + ", gotestsum"},
		{"verify", "controller-gen, golangci-lint"},
		{"read-1", ""},
		{"labs", ""},
		{".cache/bin/lab", ""},
	} {
		goal, variable, _ := strings.Cut(test.goal, " ")
		name, value, _ := strings.Cut(variable, "=")
		needed, err := For(root, goal, map[string]string{name: value})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, program := range needed {
			names = append(names, program.What)
		}
		want := test.want
		if runtime.GOOS != "linux" { // where no node can run
			for _, linux := range []string{node, certManager, others, installer} {
				want = strings.Replace(want, ", "+linux, "", 1)
			}
		}
		if got := strings.Join(names, ", "); got != want {
			t.Errorf("make %s needs %q, want %q", test.goal, got, want)
		}
	}
}

// The bootstrap reads less of labs.yaml than others do, and must read the same.
func TestLabProgramsMatchTheManifest(t *testing.T) {
	t.Parallel()
	want, err := manifest.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := labs(root, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want.Labs) {
		t.Fatalf("got %d labs, want %d", len(got), len(want.Labs))
	}
	for i, l := range want.Labs {
		if read := (lab{l.Number, l.Name, string(l.Stage), l.Addons, l.Node}); !reflect.DeepEqual(got[i], read) {
			t.Errorf("lab %d = %+v, want %+v", l.Number, got[i], read)
		}
	}
}

// program returns a program of one file in a module of its own, with the figures of a large one.
func program(t *testing.T, name string) Program {
	t.Helper()
	dir := t.TempDir()
	for file, content := range map[string]string{
		"go.mod":  "module example.test/" + name + "\n\ngo 1.26\n",
		"main.go": "package main\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Program{
		gobuild.Target{Package: ".", Module: dir, Output: filepath.Join(dir, "out", name)},
		progress.Work{What: "the " + name, Packages: 100, Compile: time.Minute},
	}
}

func TestOnlyStaleProgramsArePlanned(t *testing.T) {
	t.Parallel()
	one, two, three := program(t, "one"), program(t, "two"), program(t, "three")
	ensure := func(all ...Program) string {
		t.Helper()
		log, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		if err := Ensure(t.Context(), t.TempDir(), log, all...); err != nil {
			t.Fatal(err)
		}
		output, err := os.ReadFile(log.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(output)
	}
	if output := ensure(two); !strings.HasPrefix(output, "Building once: the two. This takes about 60 s ") ||
		!strings.Contains(output, "\nbuild the two: done in ") {
		t.Errorf("output = %q", output)
	}
	if output := ensure(one, two, three); !strings.HasPrefix(output,
		"Building once: the one, the three. This takes about 2 min ") ||
		!strings.Contains(output, "\n1 of 2: build the one: done in ") ||
		!strings.Contains(output, "\n2 of 2: build the three: done in ") {
		t.Errorf("output = %q", output)
	}
	if output := ensure(one, two, three); output != "" {
		t.Errorf("output if all programs exist = %q", output)
	}
}

// The checks of a lab import packages of two modules of this project, and a change of any of them counts.
func TestImportChangeRebuildsChecks(t *testing.T) {
	t.Parallel()
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	checks := Checks(absolute, "04-webhook")
	checks.Output = filepath.Join(t.TempDir(), "checks")
	if err := checks.Ensure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	stamp, err := os.ReadFile(checks.Output + ".stamp")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{
		`"checks/04-webhook"`, `"checks/admission"`, `"../clusters/existing"`,
		`"../clusters/certificates"`, `"checkout/manifest"`,
	} {
		if !strings.Contains(string(stamp), `"Folder": `+folder) {
			t.Errorf("a change of %s does not make the program stale:\n%s", folder, stamp)
		}
	}
}
