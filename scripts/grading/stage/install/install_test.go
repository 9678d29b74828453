// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package install

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"lva.io/operators/scripts/grading/stage/stagetest"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/grading/submission/samples"
)

func TestMain(m *testing.M) { os.Exit(stagetest.Main(m)) }

// If only the generator of the submission's own project can generate a valid definition, the committed one is
// installed.
func TestRefusedDefinitionIsReplacedByTheCommittedOne(t *testing.T) {
	cluster := stagetest.Cluster(t)
	definition := func(schema string) []*unstructured.Unstructured {
		return stagetest.Objects(t, strings.Replace(samples.Sorbets, "{type: object}", schema, 1))
	}
	const refused, fine = "{type: delicious}", "{type: object}"
	for _, test := range []struct{ name, generated, committed, notice, problem string }{
		{"the generated definition is valid", fine, refused, "", ""},
		{
			"only the committed definition is valid", refused, fine,
			`"delicious": .*; what is committed in config/crd/bases was used instead`, "",
		},
		{"neither is valid", refused, "{type: chilled}", "", `"delicious"`},
		{"nothing is committed", refused, "", "", `"delicious"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &submission.Manifests{Definitions: definition(test.generated)}
			if test.committed != "" {
				m.Committed = definition(test.committed)
			}
			_, err := API(t.Context(), Target{Config: cluster.Config()}, m)
			if test.problem == "" && err != nil ||
				test.problem != "" && !strings.Contains(stagetest.ProblemOf(t, err).Reason, test.problem) {
				t.Errorf("want an error that contains %q, got %v", test.problem, err)
			}
			notices := strings.Join(m.Notices, "\n")
			if test.notice == "" && notices != "" || !regexp.MustCompile(test.notice).MatchString(notices) {
				t.Errorf("got notices %q, want a match for %q", notices, test.notice)
			}
		})
	}
}

func TestImpossibleNameIsTheSubmissionsProblem(t *testing.T) {
	t.Parallel()
	client, err := dynamic.NewForConfig(&rest.Config{Host: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/b", "100%", ".."} {
		definition := stagetest.Objects(t, samples.Sorbets)[0]
		definition.SetName(name)
		_, err := Target{}.Apply(t.Context(), client.Resource(Definitions), definition)
		want := "the CustomResourceDefinition " + name + " has an invalid name: it may not "
		if problem := stagetest.ProblemOf(t, err); !strings.HasPrefix(problem.Reason, want) {
			t.Errorf("the name %s: got %q, want the prefix %q", name, problem.Reason, want)
		}
	}
}
