// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/grading/submission/samples"
)

const iceTypes = `// +kubebuilder:object:generate=true
package v1

type IceSpec struct {
	Name     string
	Flavour  []string
	Scoops   Scoops
	Label    *string
	Cones    []Cone
	Waffle   Waffle
	Embedded ` + "`json:\",inline\"`" + `
}

type (
	Scoops   []int
	Embedded struct{ Prices map[string]int }
	Cone     struct{ Size int }
	Waffle   struct{ Sugar bool }
)
`

// controller-gen generates the code for exactly these types.
func TestCompleteDeepCopyGetsNoNotice(t *testing.T) {
	t.Parallel()
	dir := samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+"-- api/v1/types.go --\n"+iceTypes)
	b := builder(t, dir)
	copies := generateCopies(t, b)
	if got := b.copyNotices(); len(got) > 0 {
		t.Errorf("got notices %q for\n%s", got, copies)
	}
	for _, test := range []struct{ name, find, replace, want string }{
		{"a new text", "\tName     string\n", "\tName     string\n\tMore string\n", ""},
		{"a new list", "\tName     string\n", "\tName     string\n\tMore []string\n", "IceSpec.More"},
		{"a new list with a name", "\tName     string\n", "\tName     string\n\tMore Scoops\n", "IceSpec.More"},
		{"a new pointer", "\tName     string\n", "\tName     string\n\tMore *int\n", "IceSpec.More"},
		{"a new map", "\tName     string\n", "\tName     string\n\tMore map[string]string\n", "IceSpec.More"},
		{
			"a list in a struct without one",
			"Cone     struct{ Size int }", "Cone     struct{ Sizes []int }", "Cone.Sizes",
		},
		{"a new struct with a list", "\tName     string\n", "\tName     string\n\tMore struct2\n", "struct2"},
		{"a new struct without one", "\tName     string\n", "\tName     string\n\tMore struct3\n", ""},
		{
			"a list in a struct that is copied by itself",
			"Prices map[string]int }", "Prices map[string]int; Days []string }", "Embedded.Days",
		},
		{"a struct with a copy of its own", "\tName     string\n", "\tName     string\n\tMore Other\n", ""},
	} {
		types := strings.Replace(iceTypes, test.find, test.replace, 1)
		if types == iceTypes {
			t.Fatalf("%s: the types do not contain %q", test.name, test.find)
		}
		other := "package v1\n\ntype (\n\tstruct2 struct{ Tags []string }\n\tstruct3 struct{ Tag string }\n)\n\n" +
			"type Other struct{ Tags []string }\n\n" +
			"func (in *Other) DeepCopyInto(out *Other) { out.Tags = append(in.Tags[:0:0], in.Tags...) }\n"
		changed := builder(t, samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+
			"-- api/v1/types.go --\n"+types+"-- api/v1/other.go --\n"+other+
			"-- api/v1/zz_generated.deepcopy.go --\n"+copies))
		want := []string{"api/v1/zz_generated.deepcopy.go is older than the types, and leaves out " + test.want +
			", which copies then share: run `make generate`"}
		if test.want == "" {
			want = nil
		}
		got := changed.copyNotices()
		if !slices.Equal(got, want) {
			t.Errorf("%s: got notices %q, want %q", test.name, got, want)
		}
	}
}

// generateCopies runs controller-gen, and returns the code that it generated.
func generateCopies(t *testing.T, b *Builder) string {
	t.Helper()
	output, err := b.tool(t.Context(), tool{
		path: b.ControllerGen, args: []string{"object", "paths=./api/v1"}, environment: offline(), timeout: generateTimeout,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	content, err := os.ReadFile(filepath.Join(b.Dir, "api", "v1", "zz_generated.deepcopy.go"))
	if err != nil {
		t.Fatal(err)
	}
	if b.Submission, err = Open(b.Dir, ""); err != nil { // which now has one more file
		t.Fatal(err)
	}
	return string(content)
}

// The analysis also reads files that the compiler leaves out, and whose functions it has therefore not checked.
func TestDeepCopyOfImpossibleFunctions(t *testing.T) {
	t.Parallel()
	for _, function := range []string{
		"func () DeepCopyInto() {}", "func (a, b, c *IceSpec) DeepCopyInto()", "func (IceSpec, Cone) DeepCopyInto() {}",
		"func (a struct{ b int }) DeepCopyInto() {}", "type Loop Pool\n\ntype Pool Loop\n\ntype Deep struct{ Deep }",
	} {
		for _, file := range []string{"zz_generated.deepcopy.go", "other.go"} {
			b := builder(t, samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+
				"-- api/v1/types.go --\n"+iceTypes+
				"-- api/v1/zz_generated.deepcopy_more.go --\npackage v1\n\nfunc (in *IceSpec) DeepCopyInto(out *IceSpec) {}\n"+
				"-- api/v1/"+file+" --\n//go:build ignore\n\npackage v1\n\n"+function+"\n"))
			if got := b.copyNotices(); len(got) != 1 {
				t.Errorf("%s in %s: got notices %q, want one", function, file, got)
			}
		}
	}
}
