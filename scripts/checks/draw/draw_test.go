// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package draw_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"lva.io/operators/scripts/checks/draw"
)

// numbers is a property of lists of numbers. The list with the number 7 is long.
func numbers(try func([]int) string) draw.Property[[]int] {
	return draw.Property[[]int]{
		Name: "numbers", Count: 50,
		Draw: func(random *rand.Rand, number int) []int {
			list := make([]int, random.IntN(10))
			if number == 7 {
				list = make([]int, 40)
			}
			for i := range list {
				list[i] = random.IntN(100)
			}
			return list
		},
		Try: func(_ context.Context, list []int) (string, error) { return try(list), nil },
		Smaller: func(list []int) (smaller [][]int) {
			for i := range list {
				smaller = append(smaller, slices.Delete(slices.Clone(list), i, i+1))
			}
			for i, n := range list {
				if n > 0 {
					less := slices.Clone(list)
					less[i] = 0
					smaller = append(smaller, less)
				}
			}
			return smaller
		},
	}
}

func TestCounterexampleIsShrunk(t *testing.T) {
	t.Parallel()
	for seed := range uint32(20) {
		found, err := numbers(func(list []int) string {
			if len(list) > 12 {
				return fmt.Sprintf("there are %d", len(list))
			}
			return ""
		}).Search(t.Context(), seed)
		if err != nil || found == nil {
			t.Fatal(found, err)
		}
		if len(found.Drawn) != 40 || !slices.Equal(found.Case, make([]int, 13)) || found.Observed != "there are 13" {
			t.Errorf("seed %d: %v (%s) was shrunk from %v, and is not the smallest",
				seed, found.Case, found.Observed, found.Drawn)
		}
	}
}

func TestSearchesTriesFollowingSeeds(t *testing.T) {
	t.Parallel()
	first := func(seed uint32, seeds int) string {
		found, err := numbers(func(list []int) string {
			if len(list) > 30 && list[0] == 7 {
				return "lucky"
			}
			return ""
		}).Searches(t.Context(), seed, seeds)
		if err != nil {
			t.Fatal(err)
		}
		if found == nil {
			return ""
		}
		return found.Observed
	}
	if first(1, 0) != "" || first(1, 1) != "" || first(1, 1000) != "lucky" {
		t.Error("Searches() does not try the right number of seeds: the first finds nothing, one of the thousand does")
	}
}

func TestValidPropertyHasNoCounterexample(t *testing.T) {
	t.Parallel()
	if found, err := numbers(func([]int) string { return "" }).Search(t.Context(), 1); found != nil || err != nil {
		t.Error(found, err)
	}
}

// TestSeedRepeatsCounterexample checks that if several cases fail, the result does not depend on which of them fails
// first.
func TestSeedRepeatsCounterexample(t *testing.T) {
	t.Parallel()
	search := func(seed uint32) string {
		property := numbers(func(list []int) string {
			if len(list) > 3 && list[0] > 20 {
				return "too much"
			}
			return ""
		})
		property.Smaller = nil
		found, err := property.Search(t.Context(), seed)
		if err != nil || found == nil {
			t.Fatal(found, err)
		}
		return fmt.Sprint(found.Case)
	}
	drawn := map[string]bool{}
	for seed := range uint32(10) {
		once := search(seed)
		drawn[once] = true
		for range 10 {
			if again := search(seed); again != once {
				t.Errorf("seed %d finds %s and then %s", seed, once, again)
			}
		}
	}
	if len(drawn) < 5 {
		t.Errorf("ten seeds find only %d counterexamples", len(drawn))
	}
}

func TestPropertiesOfOneSeedDrawDifferently(t *testing.T) {
	t.Parallel()
	drawn := func(name string) string {
		var mutex sync.Mutex
		var all []string
		property := numbers(nil)
		property.Name = name
		property.Try = func(_ context.Context, list []int) (string, error) {
			mutex.Lock()
			defer mutex.Unlock()
			all = append(all, fmt.Sprint(list))
			return "", nil
		}
		if _, err := property.Search(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		slices.Sort(all)
		return strings.Join(all, "\n")
	}
	if drawn("one") == drawn("another") {
		t.Error("two properties draw the same cases")
	}
	if first, again := drawn("one"), drawn("one"); first != again {
		t.Error("one property does not draw the same cases twice")
	}
}

func TestErrorIsNotCounterexample(t *testing.T) {
	t.Parallel()
	ours := errors.New("the line is dead")
	property := numbers(nil)
	property.Try = func(_ context.Context, list []int) (string, error) {
		if len(list) == 40 {
			return "", ours
		}
		return "", nil
	}
	if found, err := property.Search(t.Context(), 1); found != nil || !errors.Is(err, ours) {
		t.Error(found, err)
	}
}
