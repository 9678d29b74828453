// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/mutant"
)

func names(candidates []candidate) (all []string) {
	for _, c := range candidates {
		all = append(all, c.name)
	}
	return all
}

// Between them, the two rounds grade each submission once, and another seed draws another order.
func TestRoundsGradeEachOnce(t *testing.T) {
	t.Parallel()
	all := []candidate{{name: "skeleton"}, {name: "solution"}, {name: "one-shop", design: "a shop of its own"}}
	for name := range strings.SplitSeq("a b c d e f g h", " ") {
		all = append(all, candidate{name: name, misconception: "shops never close"})
	}
	first := (&Options{round: rightAndSkeleton}).drawn(slices.Clone(all))
	if want := []string{"skeleton", "solution", "one-shop"}; !slices.Equal(names(first), want) {
		t.Errorf("the first round must grade %v, and grades %v", want, names(first))
	}
	seven := names((&Options{round: mutants, Seed: 7}).drawn(slices.Clone(all)))
	again := names((&Options{round: mutants, Seed: 7}).drawn(slices.Clone(all)))
	eight := names((&Options{round: mutants, Seed: 8}).drawn(slices.Clone(all)))
	if !slices.Equal(seven, again) || slices.Equal(seven, eight) {
		t.Errorf("seed 7 draws %v and then %v, seed 8 draws %v", seven, again, eight)
	}
	if sorted := slices.Sorted(slices.Values(seven)); !slices.Equal(sorted, names(all[3:])) {
		t.Errorf("the second round must grade %v, and grades %v", names(all[3:]), sorted)
	}
	if whole := (&Options{}).drawn(slices.Clone(all)); !slices.Equal(names(whole), names(all)) {
		t.Errorf("without a limit the list is graded as it stands, not %v", names(whole))
	}
}

func TestShareOfTheTime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		left     time.Duration
		own, all int
		want     time.Duration
	}{
		{10 * time.Minute, 20, 100, 2 * time.Minute},
		{10 * time.Minute, 20, 20, 10 * time.Minute},
		{-time.Minute, 20, 100, 0},
		{time.Minute, 0, 0, 0},
	} {
		if got := share(test.left, test.own, test.all); got != test.want {
			t.Errorf("of %s for %d mutants, %d get %s, not %s", test.left, test.all, test.own, test.want, got)
		}
	}
}

// A lab without time grades no mutant, and says how many that are. It is busy, since nothing is looked up as proven then.
func TestMutantsWithoutTimeAreCounted(t *testing.T) {
	t.Parallel()
	here, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	options := Options{Checkout: here, Lab: &here.Labs.Labs[0], Out: &out, round: mutants, Until: time.Now().Add(-time.Second), Busy: true}
	if err := Lab(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	list, err := mutant.Load(here.SolutionDir(options.Lab))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("01-icecream: there was no time for %d of %[1]d mutants\n", len(list.Mutants))
	if out.String() != want {
		t.Errorf("it must say %q, and says %q", want, out.String())
	}
}
