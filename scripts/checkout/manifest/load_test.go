// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package manifest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/scripts/checkout/manifest"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	m := load(t)
	lab, err := m.Lab("2")
	if err != nil {
		t.Fatal(err)
	}
	if got := lab.TimeLimit.Duration; got != 2*time.Minute {
		t.Errorf("time limit = %s, want 2m", got)
	}
	if !lab.Operator || lab.StartsFrom != "01-pancake" ||
		lab.MaxScore() != 100 || !slices.Equal(lab.Services, []string{"freezer"}) {
		t.Errorf("read %+v", lab)
	}
	check, err := lab.Check("never-drops")
	if err != nil {
		t.Fatal(err)
	}
	want := &manifest.Check{
		ID: "never-drops", Title: "It does not drop", Points: 20, Needs: []string{"flips", "once"},
		Lecture: "docs/lectures/02-pan.md#dont-drop-it", Hints: []string{"one", "two"},
	}
	if diff := cmp.Diff(want, check); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An add-on that several labs need is prepared once. The schema and the installer know the same add-ons.
func TestAddonsOfLabs(t *testing.T) {
	t.Parallel()
	got := manifest.AddonsOf(&manifest.Lab{Addons: []string{known.Pebble, known.CertManager}},
		&manifest.Lab{}, &manifest.Lab{Addons: []string{known.CertManager}})
	if want := []string{known.CertManager, known.Pebble}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	schema, err := os.ReadFile(filepath.Join(repositoryRoot, manifest.SchemaFile))
	if err != nil {
		t.Fatal(err)
	}
	if want := `"enum": ["` + strings.Join(known.Names(), `", "`) + `"]`; !strings.Contains(string(schema), want) {
		t.Errorf("the schema does not allow just %s", want)
	}
}

// The other tests are worth nothing unless they work for the list of this repository.
func TestLoadLabsYAML(t *testing.T) {
	t.Parallel()
	m, err := manifest.Load(repositoryRoot)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"1", "2"} {
		lab, err := m.Lab(ref)
		if err != nil {
			t.Error(err)
			continue
		}
		first := lab.Checks[0]
		if needed, err := lab.Needed(first.ID); err != nil || lab.MaxScore() != 100 || len(needed) > 0 {
			t.Errorf("lab %s has %d points, and its first check %s needs %q (%v)",
				lab.Name, lab.MaxScore(), first.ID, needed, err)
		}
	}
}

func TestLoadRejects(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, find, replace, want string }{
		{"broken YAML", "labs:\n", "labs: [\n", `^labs/labs.yaml is not valid YAML: .*line`},
		{
			"a key twice", "  title: The pancake\n", "  title: a\n  title: b\n",
			`(?s)not valid YAML: .*line \d+.*"title" already set`,
		},
		{"an empty file", "", "", `^labs/labs.yaml:1: the document: got null, want object`},
		{
			"an unknown field", "  title: The pancake\n", "  title: The pancake\n  author: me\n",
			`^labs/labs.yaml:3: labs\[0\]: .*'author'.*expected: A lab has`,
		},
		{
			"an unknown field of a check", "    points: 60\n", "    points: 60\n    hint: x\n",
			`:12: labs\[0\].checks\[0\]: .*'hint'`,
		},
		{"a missing field", "    points: 60\n", "", `:12: labs\[0\].checks\[0\]: missing property 'points'`},
		{
			"points as text", "points: 60", "points: lots",
			`^labs/labs.yaml:14: labs\[0\].checks\[0\].points: got string, want integer; expected: What the check is worth`,
		},
		{"no points", "points: 60", "points: 0", `:14: labs\[0\].checks\[0\].points: .*expected: What`},
		{
			"one hint only", "[Look at the name of the file., It must be pancakes.]", "[x]",
			`:16: .*hints: .*expected: At least two hints`,
		},
		{"an id with capitals", "id: served", "id: Served", `:12: .*id: .*kebab-case`},
		{"a time limit without unit", "1m30s", "90", `:10: labs\[0\].timeLimit: .*expected: .*90s, 2m`},
		{"a time limit of nothing", "1m30s", "0s", `:10: labs\[0\].timeLimit: .*something like 2m`},
		{
			"an unknown service", "services: [freezer]", "services: [oven]",
			`:34: labs\[1\].services\[0\]: .*'freezer', 'cloud'; expected: The name of a service`,
		},
		{
			"a service twice", "services: [freezer]", "services: [freezer, freezer]",
			`:34: labs\[1\].services: .*equal; expected: What runs beside`,
		},
		{
			"a list without services", "services: [freezer]", "services: []",
			`:34: labs\[1\].services: .*expected: What runs beside`,
		},
		{
			"an unknown add-on", "services: [freezer]", "stage: pod\n  addons: [vault]",
			`:35: labs\[1\].addons\[0\]: .*'cert-manager', 'ingress', 'pebble'.*; expected: The name of an add-on`,
		},
		{"an add-on without a node", "services: [freezer]", "addons: [pebble]", `:34: labs\[1\].addons: .*need a node`},
		{"a node twice", "services: [freezer]", "stage: pod\n  node: true", `:35: labs\[1\].node: .*has a node already`},
		{
			"an add-on beside a process", "services: [freezer]", "stage: process\n  addons: [pebble]",
			`:35: labs\[1\].addons: .*need a node`,
		},
		{
			"webhooks that are false", "services: [freezer]", "webhooks: false",
			`:34: labs\[1\].webhooks: .*expected: true`,
		},
		{
			"services that are no list", "services: [freezer]", "services: freezer",
			`:34: labs\[1\].services: got string, want array`,
		},
		{
			"a lecture that is no page", "docs/lectures/01-batter.md\n", "lectures\n",
			`:7: labs\[0\].lecture: .*expected: The lecture's file`,
		},
		{"a check's lecture without anchor", "01-batter.md#flour--milk\n", "01-batter.md\n", `:15: .*lecture: .*anchor`},
		{"a number twice", "number: 2", "number: 1", `:26: labs\[1\].number: 1 is the number of 01-pancake too`},
		{
			"a name twice", "name: 02-pan-flipper", "name: 01-pancake",
			`:27: labs\[1\].name: there are two labs named 01-pancake`,
		},
		{
			"a short name twice", "name: 02-pan-flipper", "name: 02-pancake",
			`:27: labs\[1\].name: "pancake" means 01-pancake already`,
		},
		{
			"a name with another number", "name: 02-pan-flipper", "name: 03-pan-flipper",
			`:27: labs\[1\].name: .*begin with 02-`,
		},
		{
			"a start that does not exist", "startsFrom: 01-pancake", "startsFrom: 01-waffle",
			`:30: labs\[1\].startsFrom: there is no lab 01-waffle before this one; name one of 01-pancake`,
		},
		{
			"a start from itself", "startsFrom: 01-pancake", "startsFrom: 02-pan-flipper",
			`:30: labs\[1\].startsFrom: there is no lab 02-pan-flipper before`,
		},
		{
			"a start from a later one",
			"  lecture: docs/lectures/01-batter.md\n  te",
			"  startsFrom: 02-pan-flipper\n  lecture: docs/lectures/01-batter.md\n  te",
			`:7: labs\[0\].startsFrom: .*there are none`,
		},
		{"an id twice", "id: once", "id: flips", `:42: labs\[1\].checks\[1\].id: lab 02-pan-flipper has two checks flips`},
		{
			"a check that is called like that of own tests", "id: once", "id: own-tests",
			`:42: labs\[1\].checks\[1\].id: own-tests is the check of the student's own tests`,
		},
		{
			"a need that does not exist", "needs: [flips, once]", "needs: [flips, served]",
			`:51: labs\[1\].checks\[2\].needs\[1\]: lab 02-pan-flipper has no check served`,
		},
		{
			"a need of itself", "needs: [flips, once]", "needs: [flips, never-drops]",
			`:51: labs\[1\].checks\[2\].needs\[1\]: never-drops needs itself`,
		},
		{
			"a need of a later one", "needs: [flips, once]", "needs: [flips, cold-pan]",
			`:51: .*cold-pan comes after never-drops`,
		},
		{
			"preconditions of a lab that does not exist", "lab: 01-pancake", "lab: 03-oven",
			`:61: labs\[1\].preconditions.lab: there is no lab 03-oven before this one; name one of 01-pancake`,
		},
		{
			"a precondition that does not exist", "checks: [served]", "checks: [eaten]",
			`:61: labs\[1\].preconditions.checks\[0\]: lab 01-pancake has no check "eaten"`,
		},
		{
			"a precondition that is called like a check", "id: flips", "id: served",
			`:61: labs\[1\].preconditions.checks\[0\]: served is a check of lab 02-pan-flipper, too`,
		},
		{"no groups", "  groups: [pan.example.com]\n- number: 2", "- number: 2", `:3: labs\[0\]: missing property 'groups'`},
		{
			"a cause that does not exist", "needs: [flips, once]", "causes: [served]",
			`:51: labs\[1\].checks\[2\].causes\[0\]: lab 02-pan-flipper has no check served`,
		},
		{
			"a cause of itself", "needs: [flips, once]", "causes: [never-drops]",
			`:51: .*causes\[0\]: never-drops would be the cause of itself`,
		},
		{
			"causes in a circle",
			"needs: [flips, once]\n    lecture: docs/lectures/02-pan.md#dont-drop-it\n    hints: [one, two]\n" +
				"  - id: cold-pan\n    title: Nothing happens in a cold pan\n    points: 10\n    needs: [never-drops]",
			"causes: [once, cold-pan]\n    lecture: docs/lectures/02-pan.md#dont-drop-it\n    hints: [one, two]\n" +
				"  - id: cold-pan\n    title: Nothing happens in a cold pan\n    points: 10\n    causes: [never-drops]",
			`:51: labs\[1\].checks\[2\].causes\[1\]: never-drops would be the cause of itself; leave it out\n` +
				`.*:57: .*cold-pan would be the cause of itself`,
		},
		{
			"a check without a part before one that has one", "id: once", "id: once\n    part: pan",
			`:37: labs\[1\].checks\[0\]: flips is in no part, ` +
				`and later checks of lab 02-pan-flipper are; name one of pan, or move it after them`,
		},
		{
			"a part with capitals", "id: flips", "id: flips\n    part: Pan",
			`:38: labs\[1\].checks\[0\].part: .*expected: The part of the lab`,
		},
		{
			"points of tests besides 100", "timeLimit: 1m30s\n", "timeLimit: 1m30s\n  tests: {points: 10}\n",
			`: the points of lab 01-pancake sum to 110; make it 100`,
		},
		{
			"an undeclared extension", "id: once", "id: once\n    extension: true",
			`:43: labs\[1\].checks\[1\].extension: lab 02-pan-flipper has no extension`,
		},
		{
			"a check after those of the extension", "  - id: once\n", "  - id: once\n    extension: true\n",
			`labs\[1\].checks\[2\]: never-drops comes after checks of the extension`,
		},
		{
			"an extension without checks", "timeLimit: 1m30s\n", "timeLimit: 1m30s\n  extension: {version: v2}\n",
			`labs\[0\].extension: no check of lab 01-pancake is one`,
		},
		{
			"an extension of no version", "timeLimit: 1m30s\n", "timeLimit: 1m30s\n  extension: {version: two}\n",
			`labs\[0\].extension.version: .*expected: The API version`,
		},
		{
			"a percentage over 100", "timeLimit: 1m30s\n", "timeLimit: 1m30s\n  tests: {find: 101}\n",
			`labs\[0\].tests.find: .*expected: The percentage`,
		},
		{
			"points that do not sum to 100", "points: 60", "points: 50",
			`:11: labs\[0\].checks: the points of lab 01-pancake sum to 90; make it 100`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			list := readFile(t, "testdata/repository/labs/labs.yaml")
			if n := strings.Count(list, test.find); test.find != "" && n != 1 {
				t.Fatalf("the list contains %q %d times, want once", test.find, n)
			}
			list = strings.Replace(list, test.find, test.replace, 1)
			if test.find == "" {
				list = test.replace
			}
			root := t.TempDir()
			writeFile(t, root, manifest.File, list)
			writeFile(t, root, manifest.SchemaFile, readFile(t, filepath.Join(repositoryRoot, manifest.SchemaFile)))
			_, err := manifest.Load(root)
			wantError(t, err, test.want)
		})
	}
}

func TestLoadRejectsUnorderedSteps(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		steps map[string]int
		want  string
	}{
		{
			map[string]int{"flips": 2, "once": 2, "never-drops": 1, "cold-pan": 3},
			`: labs\[1\].checks\[2\].step: never-drops is of step 1 and needs flips of step 2; correct one of the steps`,
		},
		{
			map[string]int{"flips": 1, "once": 2, "never-drops": 2},
			`: labs\[1\].checks\[3\]: cold-pan has no step, and other checks of lab 02-pan-flipper have`,
		},
	} {
		list := readFile(t, "testdata/repository/labs/labs.yaml")
		for id, step := range test.steps {
			list = strings.Replace(list, "id: "+id, fmt.Sprintf("id: %s\n    step: %d", id, step), 1)
		}
		root := t.TempDir()
		writeFile(t, root, manifest.File, list)
		writeFile(t, root, manifest.SchemaFile, readFile(t, filepath.Join(repositoryRoot, manifest.SchemaFile)))
		_, err := manifest.Load(root)
		wantError(t, err, test.want)
	}
}

// Parts whose checks are mixed can't be done one after the other.
func TestLoadRejectsMixedParts(t *testing.T) {
	t.Parallel()
	list := readFile(t, "testdata/repository/labs/labs.yaml")
	for id, part := range map[string]string{"flips": "pan", "once": "air", "never-drops": "pan", "cold-pan": "pan"} {
		list = strings.Replace(list, "id: "+id, "id: "+id+"\n    part: "+part, 1)
	}
	root := t.TempDir()
	writeFile(t, root, manifest.File, list)
	writeFile(t, root, manifest.SchemaFile, readFile(t, filepath.Join(repositoryRoot, manifest.SchemaFile)))
	_, err := manifest.Load(root)
	wantError(t, err, `labs\[1\].checks\[2\].part: checks of another part are between never-drops and the others of pan`)
}

func TestLoadReportsAllProblemsInFileOrder(t *testing.T) {
	t.Parallel()
	list := readFile(t, "testdata/repository/labs/labs.yaml")
	list = strings.NewReplacer("points: 60", "points: 61", "number: 2", "number: 1",
		"startsFrom: 01-pancake", "startsFrom: 01-x",
		"points: 50", "points: 51", "needs: [flips]", "needs: [flop]").Replace(list)
	root := t.TempDir()
	writeFile(t, root, manifest.File, list)
	writeFile(t, root, manifest.SchemaFile, readFile(t, filepath.Join(repositoryRoot, manifest.SchemaFile)))
	_, err := manifest.Load(root)
	wantError(t, err, `(?s)^labs/labs.yaml:11: .*\nlabs/labs.yaml:26: .*\nlabs/labs.yaml:27: .*\n`+
		`labs/labs.yaml:30: .*\nlabs/labs.yaml:36: .*\nlabs/labs.yaml:45: [^\n]*$`)
}

func TestLoadOutsideARepository(t *testing.T) {
	t.Parallel()
	_, err := manifest.Load(t.TempDir())
	wantError(t, err, `there is no labs/labs.yaml in .*: run this command in a clone`)
}

// The schema and the Go types are written by hand, so a test holds them together.
func TestSchemaDescribesEveryField(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal([]byte(readFile(t, filepath.Join(repositoryRoot, manifest.SchemaFile))),
		&schema); err != nil {
		t.Fatal(err)
	}
	definitions := schema["$defs"].(map[string]any)
	for _, test := range []struct {
		goType reflect.Type
		object map[string]any
	}{
		{reflect.TypeFor[manifest.Manifest](), schema},
		{reflect.TypeFor[manifest.Lab](), definitions["lab"].(map[string]any)},
		{reflect.TypeFor[manifest.Check](), definitions["check"].(map[string]any)},
	} {
		properties := test.object["properties"].(map[string]any)
		required := test.object["required"].([]any)
		if test.object["additionalProperties"] != false {
			t.Errorf("%s allows unknown fields", test.goType)
		}
		for field := range test.goType.Fields() {
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "-" {
				continue // it is not in the file
			}
			property, ok := properties[name].(map[string]any)
			if !ok {
				t.Errorf("%s.%s has no property %q", test.goType, field.Name, name)
				continue
			}
			delete(properties, name)
			if text, _ := property["description"].(string); len(text) < 10 {
				t.Errorf("%s.%s is not described", test.goType, field.Name)
			}
			if slices.Contains(required, any(name)) == (options == "omitempty") {
				t.Errorf("%s.%s: must be required, or omitempty, and not both", test.goType, field.Name)
			}
		}
		for name := range properties {
			t.Errorf("the schema has %q, but %s does not", name, test.goType)
		}
	}
}
