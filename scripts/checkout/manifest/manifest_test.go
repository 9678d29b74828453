// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package manifest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lva.io/operators/scripts/checkout/manifest"
)

// repositoryRoot is the root of this repository, relative to this package.
const repositoryRoot = "../../.."

func TestLabByAnyName(t *testing.T) {
	t.Parallel()
	m := load(t)
	for ref, want := range map[string]string{
		"1": "01-pancake", "01": "01-pancake", "001": "01-pancake", "pancake": "01-pancake", "01-pancake": "01-pancake",
		"2": "02-pan-flipper", "pan-flipper": "02-pan-flipper", "02-pan-flipper": "02-pan-flipper",
	} {
		lab, err := m.Lab(ref)
		if err != nil {
			t.Errorf("Lab(%q): %v", ref, err)
			continue
		}
		if lab.Name != want {
			t.Errorf("Lab(%q) = %s, want %s", ref, lab.Name, want)
		}
	}
	for _, ref := range []string{"", "0", "3", "-1", "flipper", "01-", "pan", "../01-pancake"} {
		_, err := m.Lab(ref)
		wantError(t, err,
			`there is no lab "`+regexp.QuoteMeta(ref)+`"; the labs are 1 \(01-pancake\) and 2 \(02-pan-flipper\)$`)
	}
}

func TestUnknownCheckErrorListsChecks(t *testing.T) {
	t.Parallel()
	lab, err := load(t).Lab("2")
	if err != nil {
		t.Fatal(err)
	}
	_, err = lab.Check("flip")
	wantError(t, err, `lab 02-pan-flipper has no check "flip"; `+
		`its checks are served, flips, once, never-drops and cold-pan`)
}

func TestDependents(t *testing.T) {
	t.Parallel()
	lab, err := load(t).Lab("2")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string][]string{
		"flips": {"once", "never-drops", "cold-pan"}, "once": {"never-drops", "cold-pan"},
		"never-drops": {"cold-pan"}, "cold-pan": nil,
	} {
		if diff := cmp.Diff(want, lab.Dependents(id)); diff != "" {
			t.Errorf("dependents of %s (-want +got):\n%s", id, diff)
		}
	}
}

func TestStartingWith(t *testing.T) {
	t.Parallel()
	lab := manifest.Lab{Checks: []manifest.Check{
		{ID: "served"},
		{ID: "sweet", Points: 1},
		{ID: "baked", Points: 1},
		{ID: "cold", Points: 1, Needs: []string{"sweet"}},
		{ID: "sold", Points: 1, Needs: []string{"baked"}},
		{ID: "eaten", Points: 1, Needs: []string{"sold"}},
		{ID: "iced", Points: 1, Needs: []string{"sold"}, Extension: true},
	}}
	for first, want := range map[string]string{
		"": "served sweet baked cold sold eaten iced", "unknown": "served sweet baked cold sold eaten iced",
		"served": "served sweet baked cold sold eaten iced", "baked": "served baked sweet cold sold eaten iced",
		"cold": "served sweet cold baked sold eaten iced", "eaten": "served baked sold eaten sweet cold iced",
		"iced": "served sweet baked cold sold eaten iced",
	} {
		var ids []string
		for _, check := range lab.StartingWith(first) {
			ids = append(ids, check.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("order with %q first = %s, want %s", first, got, want)
		}
	}
}

// Preconditions come first, have no points, and block all other checks.
func TestPreconditions(t *testing.T) {
	t.Parallel()
	lab, err := load(t).Lab("2")
	if err != nil {
		t.Fatal(err)
	}
	first := lab.Checks[0]
	if first.ID != "served" || !first.Precondition() || first.Points != 0 ||
		first.Title != "The API server serves pancakes" || len(first.Hints) != 2 {
		t.Errorf("first check = %+v", first)
	}
	if len(lab.Own()) != len(lab.Checks)-1 || lab.Own()[0].ID != "flips" || lab.MaxScore() != 100 {
		t.Errorf("own checks = %+v, with %d points", lab.Own(), lab.MaxScore())
	}
	for id, want := range map[string][]string{"served": nil, "flips": {"served"}, "once": {"served", "flips"}} {
		if got, err := lab.Needed(id); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s needs %q (%v), want %q", id, got, err, want)
		}
	}
	if _, err := lab.Needed("nonsense"); err == nil {
		t.Error("no error for a check that the lab does not have")
	}
}

// A part is graded as if the parts before it were done. The parts after it do not affect it.
func TestLimitToPart(t *testing.T) {
	t.Parallel()
	lab := &manifest.Lab{Name: "07-oven", Title: "The oven", Checks: []manifest.Check{
		{ID: "served"},
		{ID: "warm", Part: "heat", Points: 30, Causes: []string{"closed", "crisp"}},
		{ID: "closed", Part: "heat", Points: 20, Needs: []string{"warm"}},
		{ID: "crisp", Part: "bake", Points: 45, Needs: []string{"warm"}, Causes: []string{"closed"}},
		{ID: "cools", Points: 5, Needs: []string{"crisp"}}, // only for the whole lab
	}}
	if got := lab.Parts(); !slices.Equal(got, []string{"heat", "bake"}) {
		t.Errorf("parts = %v", got)
	}
	for part, want := range map[string][]manifest.Check{
		"heat": {
			{ID: "served"},
			{ID: "warm", Part: "heat", Points: 30, Causes: []string{"closed"}},
			{ID: "closed", Part: "heat", Points: 20, Needs: []string{"warm"}},
		},
		"bake": {{ID: "served"}, {ID: "crisp", Part: "bake", Points: 45}},
	} {
		limited, err := lab.Limit(part)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, limited.Checks, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the checks of %s (-want +got):\n%s", part, diff)
		}
		if limited.Part != part || limited.Title != "The oven, part "+part || limited.Name != lab.Name {
			t.Errorf("lab limited to %s = %+v", part, limited)
		}
	}
	if len(lab.Checks) != 5 || len(lab.Checks[3].Needs) != 1 || lab.Part != "" {
		t.Errorf("the whole lab was changed: %+v", lab)
	}
	_, err := lab.Limit("cool")
	wantError(t, err, `lab 07-oven has no part "cool"; its parts are heat and bake$`)
	_, err = (&manifest.Lab{Name: "01-pancake"}).Limit("heat")
	wantError(t, err, `lab 01-pancake is not built in parts$`)
}

func TestLimitToFirstSteps(t *testing.T) {
	t.Parallel()
	lab := &manifest.Lab{Name: "08-oven", Title: "The oven", Checks: []manifest.Check{
		{ID: "served"},
		{ID: "warm", Step: 1, Points: 30, Causes: []string{"closed", "crisp"}},
		{ID: "crisp", Step: 3, Points: 45, Needs: []string{"warm"}, Causes: []string{"closed"}},
		{ID: "closed", Step: 2, Points: 20, Needs: []string{"warm"}},
	}}
	limited, err := lab.UpTo(2)
	if err != nil {
		t.Fatal(err)
	}
	want := []manifest.Check{
		{ID: "served"},
		{ID: "warm", Step: 1, Points: 30, Causes: []string{"closed"}},
		{ID: "closed", Step: 2, Points: 20, Needs: []string{"warm"}},
	}
	if diff := cmp.Diff(want, limited.Checks, cmpopts.EquateEmpty()); diff != "" ||
		limited.Title != "The oven, steps 1 to 2" || limited.Part == "" {
		t.Errorf("limited lab = %+v, checks (-want +got):\n%s", limited, diff)
	}
	for _, step := range []int{0, -1, 4} {
		_, err = lab.UpTo(step)
		wantError(t, err, `lab 08-oven has no step -?[0-9]: it has the steps 1 to 3$`)
	}
	_, err = (&manifest.Lab{Name: "01-pancake"}).UpTo(1)
	wantError(t, err, `the checks of lab 01-pancake do not belong to numbered steps$`)
}

func TestLimitToChecksWithoutNode(t *testing.T) {
	t.Parallel()
	lab := &manifest.Lab{Name: "08-oven", Title: "The oven", Number: 8, Node: true, Checks: []manifest.Check{
		{ID: "warm", Points: 70},
		{ID: "smells", Points: 20, Node: true, Needs: []string{"warm"}},
		{ID: "clean", Points: 10, Needs: []string{"warm", "smells"}},
	}}
	limited, err := lab.WithoutNode()
	if err != nil {
		t.Fatal(err)
	}
	want := []manifest.Check{{ID: "warm", Points: 70}, {ID: "clean", Points: 10, Needs: []string{"warm"}}}
	if diff := cmp.Diff(want, limited.Checks, cmpopts.EquateEmpty()); diff != "" ||
		limited.MaxScore() != 80 || limited.Part == "" || limited.Node {
		t.Errorf("limited lab = %+v, checks (-want +got):\n%s", limited, diff)
	}
	if len(limited.Undecided) != 1 || limited.Undecided[0].ID != "smells" || len(lab.Checks) != 3 {
		t.Errorf("undecided checks = %+v", limited.Undecided)
	}
	_, err = (&manifest.Lab{Name: "01-pancake"}).WithoutNode()
	wantError(t, err, `lab 01-pancake needs no node: leave out --without-node$`)
	_, err = (&manifest.Lab{Name: "05-certificate", Stage: manifest.Deployed}).WithoutNode()
	wantError(t, err, `no check of lab 05-certificate can be decided without a node: leave out --without-node$`)
}

func TestOwnTestsPercentage(t *testing.T) {
	t.Parallel()
	var nothing *manifest.OwnTests
	for _, test := range []struct {
		tests *manifest.OwnTests
		want  int
	}{{nothing, 80}, {&manifest.OwnTests{}, 80}, {&manifest.OwnTests{Find: 50}, 50}} {
		if got := test.tests.Percentage(); got != test.want {
			t.Errorf("%+v: percentage = %d %%, want %d %%", test.tests, got, test.want)
		}
	}
}

func TestOwnTestsAreACheckIfTheyHavePoints(t *testing.T) {
	t.Parallel()
	lab := manifest.Lab{
		Number:  9,
		Lecture: "docs/lectures/09-oven.md",
		Checks:  []manifest.Check{{ID: "bakes", Points: 90}},
	}
	for _, tests := range []*manifest.OwnTests{nil, {Find: 50}} {
		lab.Tests = tests
		if got := lab.OwnTests(); got != nil || lab.FullScore() != 90 {
			t.Errorf("%+v: check = %+v, points of the lab = %d", tests, got, lab.FullScore())
		}
	}
	lab.Tests = &manifest.OwnTests{Points: 10}
	got := lab.OwnTests()
	if got == nil || got.Points != 10 || got.Lecture != "docs/lectures/09-oven.md#your-own-tests" ||
		len(got.Hints) < 2 || lab.FullScore() != 100 || lab.MaxScore() != 90 {
		t.Errorf("check = %+v, the lab has %d points, and %d without it", got, lab.FullScore(), lab.MaxScore())
	}
}

func TestExtensionPointsAreNotLabPoints(t *testing.T) {
	t.Parallel()
	lab := manifest.Lab{Extension: &manifest.Extension{Version: "v1beta1"}, Checks: []manifest.Check{
		{ID: "bakes", Points: 100}, {ID: "bakes-twice", Points: 10, Extension: true},
	}}
	if lab.MaxScore() != 100 || lab.FullScore() != 100 {
		t.Errorf("the lab has %d points, and %d with its tests, want 100", lab.MaxScore(), lab.FullScore())
	}
}

func load(t *testing.T) *manifest.Manifest {
	t.Helper()
	m, err := manifest.Load(repository(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// repository returns a copy of testdata/repository with the schema of this repository.
func repository(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "repository")
	if err := os.CopyFS(root, os.DirFS("testdata/repository")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, root, manifest.SchemaFile, readFile(t, filepath.Join(repositoryRoot, manifest.SchemaFile)))
	return root
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func writeFile(t *testing.T, root, file, text string) {
	t.Helper()
	file = filepath.Join(root, file)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, pattern string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that matches %q", pattern)
	}
	if !regexp.MustCompile(pattern).MatchString(err.Error()) {
		t.Errorf("error =\n%s\nwant one that matches %q", err, pattern)
	}
}
