// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package parts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func rows(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func TestThePartsHaveEachRowOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "left-out")
	t.Setenv(LeftOutVariable, file)
	var seen []int
	for part := 1; part <= Parts; part++ {
		t.Setenv(Variable, fmt.Sprint(part))
		kept := Rows(t, rows(100), func(row int) string { return fmt.Sprintf("row %d", row) })
		if len(kept) < 10 || len(kept) > 35 {
			t.Errorf("part %d has %d of 100 rows", part, len(kept))
		}
		seen = append(seen, kept...)
	}
	if slices.Sort(seen); !slices.Equal(seen, rows(100)) {
		t.Errorf("the parts have the rows %v", seen)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	if len(lines) != Parts || !strings.HasPrefix(lines[0], "TestThePartsHaveEachRowOnce: ") || !strings.Contains(lines[0], " of 100, of other parts: row ") {
		t.Errorf("each part must say what it leaves out, and they say\n%s", content)
	}
}

func TestWithoutAPartAllRowsAreThere(t *testing.T) {
	t.Setenv(Variable, "")
	if kept := Rows(t, rows(7), func(row int) string { return fmt.Sprint(row) }); len(kept) != 7 {
		t.Errorf("of 7 rows there are %v", kept)
	}
}

func TestPlacesTakeTurns(t *testing.T) {
	t.Parallel()
	for i, want := range []int{1, 2, 3, 4, 5, 1} {
		if got := OfPlace(i); got != want {
			t.Errorf("place %d is of part %d, want %d", i, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for part, want := range map[int]string{0: "", 1: "", Parts: "", -1: "--part -1: there are parts 1 to 5", Parts + 1: "--part 6: there are parts 1 to 5"} {
		got := ""
		if err := Check(part); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("part %d: the error is %q, want %q", part, got, want)
		}
	}
}
