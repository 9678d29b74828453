// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package docs

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestPageShowsRepositoryLayout(t *testing.T) {
	t.Parallel()
	root, want := unpacked(t, "testdata/house.txtar")
	for range 2 { // the second run reads the output of the first
		got, err := Refresh(root, "docs/page.md")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want["docs/page.md"], string(got)); diff != "" {
			t.Errorf("refreshed page (-want +got):\n%s", diff)
		}
		write(t, root, "docs/page.md", string(got))
	}
}

func TestDiagramShowsImportsAgainstOrder(t *testing.T) {
	t.Parallel()
	root, _ := unpacked(t, "testdata/house.txtar")
	write(t, root, "scripts/services/freezer/b.go", "package freezer\n\nimport _ \"lva.io/operators/scripts/cmd/lab\"\n")
	lines, err := wingDiagram(newLayout(root))
	if err != nil {
		t.Fatal(err)
	}
	if arrow := "    services --> cmd"; !slices.Contains(lines, arrow) {
		t.Errorf("the diagram lacks %q:\n%s", arrow, strings.Join(lines, "\n"))
	}
}

func TestPackageOutsideWingsIsError(t *testing.T) {
	t.Parallel()
	root, _ := unpacked(t, "testdata/house.txtar")
	write(t, root, "scripts/attic/attic.go", "// Package attic is in no wing.\npackage attic\n")
	const want = "docs/page.md:1: scripts/attic is in no wing: move it into one of services, checkout, "
	if _, err := Refresh(root, "docs/page.md"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestPackagesWithoutCommentAreFound(t *testing.T) {
	t.Parallel()
	root, _ := unpacked(t, "testdata/house.txtar")
	got, err := Undocumented(root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"scripts/grading/grade"}, got); diff != "" {
		t.Errorf("packages without a comment (-want +got):\n%s", diff)
	}
}

func TestLinesAreRoundedToHundreds(t *testing.T) {
	t.Parallel()
	for lines, want := range map[int]string{
		0: "0", 1: "under 50", 49: "under 50", 50: "100", 149: "100", 150: "200", 949: "900", 950: "1,000",
		12_049: "12,000", 12_050: "12,100",
	} {
		if got := hundreds(lines); got != want {
			t.Errorf("hundreds(%d) = %s, want %s", lines, got, want)
		}
	}
}

// The order of the wings is written by hand, here and in the linter's rules. Both must be the same.
func TestLinterHasOrderOfWings(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct {
						Files []string
						Deny  []struct{ Pkg string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	rules := config.Linters.Settings.Depguard.Rules
	for i, wing := range wings[:len(wings)-1] {
		denied := slices.Clone(wings[i+1:])
		if wing == "checkout" { // it imports no other wing
			denied = slices.Concat(wings[:i], denied)
		}
		files := []string{"${config-path}/scripts/" + wing + "/**", "!$test"}
		if wing == "checks" { // its test files are the checks
			files = files[:1]
		}
		rule := rules[wing]
		var got []string
		for _, deny := range rule.Deny {
			got = append(got, strings.TrimPrefix(deny.Pkg, "lva.io/operators/scripts/"))
		}
		if diff := cmp.Diff(denied, got); diff != "" {
			t.Errorf("wings that %s may not import (-want +got):\n%s", wing, diff)
		}
		if diff := cmp.Diff(files, rule.Files); diff != "" {
			t.Errorf("files of the rule for %s (-want +got):\n%s", wing, diff)
		}
	}
}
