// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/submission/samples"
)

func TestGeneratorOptions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, files, crd, rbac string }{
		{"none", "", "crd", "rbac:roleName=manager-role"},
		{
			"kubebuilder's",
			"-- Makefile --\nmanifests:\n\t$(CONTROLLER_GEN) rbac:roleName=manager-role crd webhook paths=\"./...\"\n",
			"crd", "rbac:roleName=manager-role",
		},
		{
			"of its own", "-- Makefile --\nmanifests:\n" +
				"\t$(CONTROLLER_GEN) rbac:roleName=icecream-manager crd:maxDescLen=0,generateEmbeddedObjectMeta=true webhook\n",
			"crd:generateEmbeddedObjectMeta=true,maxDescLen=0", "rbac:roleName=icecream-manager",
		},
		{
			"in a variable, quoted",
			"-- Makefile --\nCRD_OPTIONS ?= \"crd:maxDescLen=0\"\nmanifests:\n\tcontroller-gen $(CRD_OPTIONS)\n",
			"crd:maxDescLen=0", "rbac:roleName=manager-role",
		},
		{
			"of 2020, which is obsolete", "-- Makefile --\n" +
				"CRD_OPTIONS ?= \"crd:trivialVersions=true,preserveUnknownFields=false,maxDescLen=9\"\n",
			"crd:maxDescLen=9", "rbac:roleName=manager-role",
		},
		{"in a comment", "-- Makefile --\n# crd:maxDescLen=0\n", "crd", "rbac:roleName=manager-role"},
		{
			"with an invalid value", "-- Makefile --\n\tcontroller-gen crd:maxDescLen=many rbac:roleName=$(ROLE)\n",
			"crd", "rbac:roleName=manager-role",
		},
		{
			"in a script", "-- hack/update.sh --\ncontroller-gen crd:maxDescLen=0 rbac:roleName=x paths=./...\n",
			"crd:maxDescLen=0", "rbac:roleName=x",
		},
		{
			"in the project's file", "-- PROJECT --\ndomain: lva.io\nmakeVars: crd:maxDescLen=0\n",
			"crd:maxDescLen=0", "rbac:roleName=manager-role",
		},
		{
			"in the code", "-- api/v1/types.go --\npackage v1\n\n//go:generate controller-gen crd:maxDescLen=0\n",
			"crd:maxDescLen=0", "rbac:roleName=manager-role",
		},
		{
			"in the prose of the code", "-- api/v1/types.go --\npackage v1\n\n// Try crd:maxDescLen=0.\n",
			"crd", "rbac:roleName=manager-role",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			opened, err := Open(samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+test.files), "")
			if err != nil {
				t.Fatal(err)
			}
			options := opened.generatorOptions()
			crd, rbac, webhook := options.argument("crd"), options.argument("rbac"), options.argument("webhook")
			if crd != test.crd || rbac != test.rbac || webhook != "webhook" {
				t.Errorf("got generators %q and %q, want %q and %q", crd, rbac, test.crd, test.rbac)
			}
		})
	}
}

// The name of a definition does not determine which file is written.
func TestGroupNameWithPathTraversal(t *testing.T) {
	t.Parallel()
	dir := copySolution(t)
	edit(t, filepath.Join(dir, "api", "v1", "groupversion_info.go"),
		"+groupName=demo.lva.io", "+groupName=../../../escaped")
	b := builder(t, dir)
	got, err := b.Generate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Definitions) != 1 || group(got.Definitions[0]) != "../../../escaped" {
		t.Errorf("the definition must be left for the API server to refuse: %+v", got.Definitions)
	}
	if problem := problemOf(t, b.layOut(filepath.Join(t.TempDir(), "config"))); !strings.Contains(problem.Reason,
		"check +groupName") {
		t.Error(problem)
	}
}

// A correct operator whose definitions are generated with options gets no notice, and none of its definitions is
// refused.
func TestGenerateWithOptions(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	dir := copySolution(t)
	edit(t, filepath.Join(dir, "Makefile"), " crd ", " crd:maxDescLen=0 ")
	definition := filepath.Join(dir, "config", "crd", "bases", "demo.lva.io_icecreams.yaml")
	content, err := os.ReadFile(definition)
	if err != nil {
		t.Fatal(err)
	}
	// As `make manifests` generates it.
	without := regexp.MustCompile(`(?m)^ +description:(.*\n( +[^ :]+ .*\n)*)`).ReplaceAll(content, nil)
	if err := os.WriteFile(definition, without, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := builder(t, dir).Generate(t.Context())
	if err != nil || len(got.Definitions) != 1 || strings.Contains(fmt.Sprint(got.Definitions[0].Object), "description") {
		t.Fatalf("Generate() = %+v, error = %v, want definitions without descriptions", got.Definitions, err)
	}
}

func group(definition *unstructured.Unstructured) string {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	return group
}
