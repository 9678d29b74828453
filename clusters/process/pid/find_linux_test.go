// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pid

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestBelowOmitsChildrenOfReusedPID(t *testing.T) {
	t.Parallel()
	child, grandchild := Child{Number: 2, Parent: 1, began: 10}, Child{Number: 3, Parent: 2, began: 20}
	for _, test := range []struct {
		name  string
		again Child // what /proc reports of the child when we look again
		ok    bool
		want  []Child
	}{
		{"it is still there", child, true, []Child{child, grandchild}},
		{"it has ended", Child{}, false, []Child{child}},
		{"another child of its parent has its number", Child{Number: 2, Parent: 1, began: 15}, true, []Child{child}},
		{"another process has its number", Child{Number: 2, Parent: 100, began: 15}, true, []Child{child}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			looks := map[int]int{}
			found := below(1, []int{1, 2, 3}, func(number int) (Child, bool) {
				switch looks[number]++; {
				case number == child.Number && looks[number] > 1:
					return test.again, test.ok
				case number == child.Number:
					return child, true
				case number == grandchild.Number:
					return grandchild, true
				}
				return Child{Number: 1, began: 1}, true
			})
			if !slices.Equal(found, test.want) {
				t.Errorf("found %v, want %v", found, test.want)
			}
		})
	}
}

func TestProcessHasParentAndStartTime(t *testing.T) {
	t.Parallel()
	sleep := exec.Command("/bin/sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
	seen, ok := look(sleep.Process.Pid)
	if !ok || seen.Number != sleep.Process.Pid || seen.Parent != os.Getpid() || seen.began == 0 {
		t.Errorf("look() = %+v (%v), want a child of %d", seen, ok, os.Getpid())
	}
	if !slices.Contains(Below(os.Getpid()), seen) {
		t.Errorf("%+v is not found below its parent", seen)
	}
	seen.began--
	if h, ok := seen.open(); ok {
		t.Error("a process that began earlier is mistaken for it")
	} else {
		h.Close()
	}
}
