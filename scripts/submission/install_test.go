// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const sorbets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sorbets.demo.lva.io}
spec:
  group: demo.lva.io
  names: {kind: Sorbet, listKind: SorbetList, plural: sorbets, singular: sorbet}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
`

// A definition that the generator of the submission's own project makes, and ours does not, is the committed one.
func TestRefusedDefinitionGivesWayToTheCommitted(t *testing.T) {
	p := newPlace(t)
	definition := func(schema string) []*unstructured.Unstructured {
		objects, err := decodeYAML(strings.NewReader(strings.Replace(sorbets, "{type: object}", schema, 1)))
		if err != nil {
			t.Fatal(err)
		}
		return objects
	}
	const refused, fine = "{type: delicious}", "{type: object}"
	for _, test := range []struct{ name, generated, committed, notice, problem string }{
		{"what is generated is fine", fine, refused, "", ""},
		{"only what is committed is fine", refused, fine, `"delicious": .*; what is committed in config/crd/bases was used instead`, ""},
		{"neither is fine", refused, "{type: chilled}", "", `"delicious"`},
		{"nothing is committed", refused, "", "", `"delicious"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &Manifests{definitions: definition(test.generated)}
			if test.committed != "" {
				m.fallback = definition(test.committed)
			}
			err := m.Install(t.Context(), p.Config(), Access{File: filepath.Join(t.TempDir(), "kubeconfig")})
			if test.problem == "" && err != nil || test.problem != "" && !strings.Contains(problemOf(t, err).Reason, test.problem) {
				t.Errorf("the error must say %q and is %v", test.problem, err)
			}
			notices := strings.Join(m.Notices, "\n")
			if test.notice == "" && notices != "" || !regexp.MustCompile(test.notice).MatchString(notices) {
				t.Errorf("the notices are %q and must match %q", notices, test.notice)
			}
		})
	}
}
