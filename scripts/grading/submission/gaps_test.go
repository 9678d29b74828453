// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/submission/samples"
)

// Notices name what an operator lacks on this machine, and the file that has it, if the submission does.
func TestGaps(t *testing.T) {
	t.Parallel()
	const (
		main     = samples.Module + "-- cmd/main.go --\n" + samples.Program
		role     = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: shop}\nrules:\n" + rule
		noKind   = "it defines no kind: neither do markers above its Go types, nor YAML files in config/crd/bases"
		noRights = "it may do nothing: there are neither +kubebuilder:rbac markers nor a config/rbac/role.yaml"
	)
	two := strings.Replace(samples.Sorbets, "  versions:\n", "  versions:\n"+
		"  - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}\n"+
		"  - {name: v1alpha1, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}\n", 1)
	for _, test := range []struct {
		name, files string
		operator    bool
		notices     []string
	}{
		{"it lacks nothing", main + marker + "-- config/crd/bases/x.yaml --\n" + samples.Sorbets, true, nil},
		{"it has nothing", main, true, []string{noKind, noRights}},
		{"it has nothing, and is not run", main, false, []string{noKind}},
		{
			"it is elsewhere",
			main + "-- artifacts/all.yaml --\nkind: Namespace\n---\n" + samples.Sorbets + "-- deploy/role.yml --\n" + role, true,
			[]string{
				noKind + "; artifacts/all.yaml has a CustomResourceDefinition: copy it into config/crd/bases to have it installed",
				noRights + "; deploy/role.yml has a role: copy it to config/rbac/role.yaml to have it granted",
			},
		},
		{
			"another module's, and a file that only mentions it",
			main + marker + "-- tools/go.mod --\nmodule tools\n-- tools/crd.yaml --\n" + samples.Sorbets +
				"-- docs/x.yaml --\ntext: |\n  kind: CustomResourceDefinition\n", true,
			[]string{noKind},
		},
		{
			"two versions", main + marker + "-- config/crd/bases/x.yaml --\n" + two, true,
			[]string{"sorbets.demo.lva.io has the versions v1beta1, v1, and no webhook converts them here: " +
				"the API server changes nothing but the apiVersion"},
		},
		{
			"no descriptions", main + "-- Makefile --\nmanifests:\n\tcontroller-gen crd:maxDescLen=0 paths=./...\n" +
				"-- config/crd/bases/x.yaml --\n" + samples.Sorbets, false,
			[]string{"its own `make manifests` leaves out all descriptions (crd:maxDescLen=0), and so does grading: " +
				"`kubectl explain` has none to show"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := builder(t, samples.Lay(t, test.files))
			manifests, err := b.Generate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := b.Gaps(manifests, test.operator, false); !slices.Equal(got, test.notices) {
				t.Errorf("got notices  %q\nwant notices %q", got, test.notices)
			}
		})
	}
}
