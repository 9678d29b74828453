// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/submission/samples"
)

func TestMarkerNotices(t *testing.T) {
	t.Parallel()
	known, err := builder(t, samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program)).
		knownMarkers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ comment, notice string }{
		// Correct markers, markers of other tools, and comments that are not markers.
		{"+kubebuilder:validation:MaxItems=3", ""},
		{"+kubebuilder:resource:scope=Cluster", ""},
		{"+kubebuilder:resource:path=icecreams,scope=Cluster,shortName=ice", ""},
		{"+kubebuilder:subresource:status", ""},
		{"+kubebuilder:object:root=true", ""},
		{"+kubebuilder:printcolumn:name=\"SoldOut\",type=boolean,JSONPath=`.status.soldOut`", ""},
		{`+kubebuilder:validation:XValidation:rule="self.all(x, x != '')",message="no"`, ""},
		{"+kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=get;list", ""},
		{"+kubebuilder:scaffold:imports", ""},
		{"+optional", ""},
		{"+required", ""},
		{"+listType=set", ""},
		{"+default=3", ""},
		{"+genclient", ""},
		{"+k8s:openapi-gen=true", ""},
		{"+operator-sdk:csv:customresourcedefinitions:displayName=\"x\"", ""},
		{"+build linux", ""},
		{"+1 for this", ""},
		{"+ and more", ""},
		{"kubebuilder: a tool", ""},
		{"+kubebuilder:" + strings.Repeat("x", 1<<20), ""}, // takes too long to compare
		// Misspelled.
		{
			"+kubebuilder:validation:MaxItem=3",
			"does not know the marker \"kubebuilder:validation:MaxItem\", and ignores it: " +
				"did you mean `// +kubebuilder:validation:MaxItems=3`?",
		},
		{"+kubebuilder:validation:MaxItems:3", "write `// +kubebuilder:validation:MaxItems=3`"},
		{"+kubebuilder:validation:maxItems=3", "did you mean `// +kubebuilder:validation:MaxItems=3`?"},
		{"+kubebuilder:validation:MaxItems = 3", "write `// +kubebuilder:validation:MaxItems=3`, without spaces"},
		{"+kubebuilder:subresources:status", "did you mean `// +kubebuilder:subresource:status`?"},
		{"+kubebuilder:subresource:satus", "did you mean `// +kubebuilder:subresource:status`?"},
		{"+kubebuilder:resources:scope=Cluster", "did you mean"},
		{"+kubebulder:resource:scope=Cluster", "did you mean"},
		{"+kubebuilder:validation:Unique", "does not know the marker"},
		{"+kubebuilder:sorbet", "does not know the marker"},
		{
			"+ kubebuilder:validation:MaxItems=3",
			"is not a marker, because there is a space after the plus sign: write `// +kubebuilder:validation:MaxItems=3`",
		},
		{
			"kubebuilder:validation:MaxItems=3",
			"is not a marker, because it lacks the plus sign: write `// +kubebuilder:validation:MaxItems=3`",
		},
		{"+optinal", "did you mean `// +optional`?"},
		{"+requierd", "did you mean `// +required`?"},
		{"+listtype=set", "did you mean `// +listType=set`?"},
		{"+listMapkey=type", "did you mean `// +listMapKey=type`?"},
	} {
		got := ""
		if looksLikeMarker(test.comment) {
			got = known.judge(test.comment)
		}
		if !strings.Contains(got, test.notice) || test.notice == "" && got != "" {
			t.Errorf("judge(%s)\n  got  %q\n  want %q", test.comment, got, test.notice)
		}
	}
}

func TestMarkerNoticesHaveFileAndLine(t *testing.T) {
	t.Parallel()
	dir := samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+
		"-- api/v1/types.go --\npackage v1\n\ntype Spec struct {\n"+
		"\t// flavour is what it tastes of.\n\t// +kubebuilder:validation:MaxItem=3\n\tFlavour []string\n}\n"+
		"-- api/v1/types_test.go --\npackage v1\n\n// +kubebuilder:validation:MaxItem=3\n")
	got, err := builder(t, dir).Generate(t.Context())
	if err != nil || len(got.Notices) != 1 ||
		!strings.HasPrefix(got.Notices[0], "api/v1/types.go:5: controller-gen does not know the marker") {
		t.Errorf("%+v, %v", got, err)
	}
}
