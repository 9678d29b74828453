// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/checkout"
)

// In whatever order the gradings end, all of them finish, few clusters with a node run at once, and no slot is free
// while a submission may begin.
func TestLabsShareTheSlots(t *testing.T) {
	t.Parallel()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	const atOnce = 5
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		var all []*certification
		left := 0
		for i := range repo.Labs.Labs {
			c := &certification{Options: Options{Lab: &repo.Labs.Labs[i], Parallel: atOnce}}
			for n := range 1 + random.IntN(9) {
				c.jobs = append(c.jobs, job{dir: fmt.Sprint(n)})
				left++
			}
			all = append(all, c)
		}
		var running []*certification
		for left > 0 || len(running) > 0 {
			for len(running) < atOnce {
				c := next(all)
				if c == nil {
					break
				}
				c.jobs = c.jobs[1:]
				c.running++
				left--
				running = append(running, c)
			}
			nodes, most := 0, 0
			for _, c := range running {
				if c.running > c.atOnce() {
					t.Fatalf("seed %d: %d submissions of lab %s run at once", seed, c.running, c.Lab.Name)
				}
				if c.withNode() {
					nodes, most = nodes+1, max(most, c.atOnce())
				}
			}
			if nodes > most {
				t.Fatalf("seed %d: %d clusters with nodes run", seed, nodes)
			}
			for _, c := range all {
				if len(c.jobs) > 0 && (!c.withNode() || nodes == 0) && len(running) < atOnce {
					t.Fatalf("seed %d: a slot is free while %d submissions of lab %s wait", seed, len(c.jobs), c.Lab.Name)
				}
			}
			if len(running) == 0 {
				t.Fatalf("seed %d: %d submissions wait forever", seed, left)
			}
			i := random.IntN(len(running))
			running[i].running--
			running = append(running[:i], running[i+1:]...)
		}
	}
}

func TestDisturbedRunHasNoGrade(t *testing.T) {
	t.Parallel()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	o := &Options{Lab: &repo.Labs.Labs[0]}
	line := o.verdict(candidate{name: solutionName}, time.Second, result{noGrade: "it was stopped for 20 s"})
	if !strings.HasPrefix(line, "none ") ||
		!strings.HasSuffix(line, "\n             it has no grade: it was stopped for 20 s\n") {
		t.Errorf("got line %q", line)
	}
}

// Only failures of submissions are repeated. If an internal error occurs as well, it is still reported.
func TestUncertified(t *testing.T) {
	t.Parallel()
	one, other := &Uncertified{Lab: "01-icecream"}, &Uncertified{Lab: "08-lolcow"}
	for _, test := range []struct {
		name string
		err  error
		labs int
		only bool
	}{
		{"a lab", one, 1, true},
		{"two labs", errors.Join(one, errors.Join(other)), 2, true},
		{"an internal error", errors.New("the disk is full"), 0, false},
		{"a lab and an internal error", errors.Join(one, errors.New("a process is left")), 0, false},
	} {
		if labs, only := uncertified(test.err); len(labs) != test.labs || only != test.only {
			t.Errorf("%s: uncertified() = %d labs, only %t", test.name, len(labs), only)
		}
	}
}
