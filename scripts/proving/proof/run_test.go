// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package proof

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestOldestProofIsFirst(t *testing.T) {
	t.Parallel()
	newState := func(name string, usual time.Duration, proven int) State {
		s := State{Part: Part{Name: name, Usual: usual}}
		if proven > 0 {
			s.Record = &Record{LastProven: &Run{Date: time.Date(2026, 11, proven, 0, 0, 0, 0, time.UTC), Seconds: 1}}
		}
		return s
	}
	states := []State{
		newState("new", time.Hour, 20), newState("old", time.Hour, 10),
		newState("dear", time.Hour, 0), newState("cheap", time.Minute, 0),
		{Part: Part{Name: "failed", Usual: time.Second}, Record: &Record{Result: Failed}},
	}
	order(states)
	var names []string
	for _, s := range states {
		names = append(names, s.Part.Name)
	}
	if want := []string{"failed", "cheap", "dear", "old", "new"}; !slices.Equal(names, want) {
		t.Errorf("got order %v, want %v", names, want)
	}
}

func TestFailedPartDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("first", "echo 02-reconciler: 3 graded, 1 s; seq 100; echo the reason; exit 3", Inputs{})
	b.part("second", "true", Inputs{})
	ran, output, err := b.prove(t.Context())
	if ran != "first second" || err == nil ||
		!strings.Contains(err.Error(), "one part is not proven, and its log is in out/proof: first") {
		t.Errorf("got %q run, error %v", ran, err)
	}
	if !strings.Contains(output, "\n    the reason\n") ||
		!strings.Contains(output, "    63\n") || strings.Contains(output, "    61\n") {
		t.Errorf("want the last 40 lines, got\n%s", output)
	}
	if r := b.record("first"); r.Result != Failed || r.Proved != "" ||
		!strings.HasSuffix(r.Reason, "100\nthe reason") || r.LastProven != nil {
		t.Errorf("got record %+v", r)
	}
	// A failed part runs again, though nothing has changed.
	if ran, _, _ := b.prove(t.Context()); ran != "first" {
		t.Errorf("got %q run, want first", ran)
	}
}

func TestInterruptedPartIsNotProven(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("before", "true", Inputs{})
	b.part("at-hand", "[ ! -e wait ] || { echo $$ > out/pid; exec sleep 600; }", Inputs{})
	b.part("later", "true", Inputs{Values: []string{"1"}})
	b.Parts[0].Usual, b.Parts[2].Usual = time.Second, time.Hour
	b.mustRun("before at-hand later")
	b.write("wait", "")
	b.All = true
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for ticker := time.NewTicker(time.Millisecond); ; {
			<-ticker.C
			if content, err := os.ReadFile(filepath.Join(b.Root, "out", "pid")); err == nil && len(content) > 0 {
				cancel(enough)
				return
			}
		}
	}()
	ran, _, err := b.prove(ctx)
	if ran != "before at-hand" || !errors.Is(err, enough) {
		t.Errorf("got %q run, error %v", ran, err)
	}
	if r := b.record("at-hand"); r.Result != Interrupted || r.LastProven == nil {
		t.Errorf("got record %+v", r)
	}
	if err := os.Remove(filepath.Join(b.Root, "wait")); err != nil {
		t.Fatal(err)
	}
	b.All = false
	b.mustRun("at-hand")
}

// A proof that is killed has already written the record of an interrupted run, before its part began.
func TestKilledProofClaimsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("at-hand", `grep -q interrupted "`+b.Store.file("at-hand")+`"`, Inputs{})
	b.mustRun("at-hand")
	b.part("changing", "echo changed > labs.yaml", Inputs{Files: []string{"labs.yaml"}})
	if _, _, err := b.prove(t.Context()); err == nil || b.record("changing").Result != Interrupted {
		t.Errorf("after a change of its inputs during the run: record %+v, error %v", b.record("changing"), err)
	}
	b.mustRun("changing")
	if err := os.WriteFile(b.Store.file("changing"), []byte(`{"part": "chan`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.mustRun("changing")
}

func TestOneProofAtATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	inner := b.Options
	b.part("outer", "true", Inputs{})
	lock := filepath.Join(b.Store.dir, "lock")
	file, err := os.OpenFile(lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := Prove(t.Context(), inner); err == nil ||
		!strings.Contains(err.Error(), "another proof is running on this machine") {
		t.Errorf("Prove() error = %v", err)
	}
	if err := file.Close(); err != nil { // as the kernel does for a killed process
		t.Fatal(err)
	}
	b.mustRun("outer")
}

func TestPartThatDoesNotFitIsNotStarted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("short", "true", Inputs{})
	b.part("long", "true", Inputs{})
	b.Parts[1].Usual = time.Hour
	b.Within = 30 * time.Minute
	output := b.mustRun("short")
	if !strings.Contains(output, "No time was left for 1 part (the limit is 30m0s): long.\n") {
		t.Errorf("got output\n%s", output)
	}
	b.Within = 0
	b.mustRun("long")
	// The record now shows that the part takes less than an hour.
	b.Within, b.All = 30*time.Minute, true
	b.mustRun("short long")
}

func TestPartsAreChosenByNameAndFamily(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"certify-01", "certify-02", "kind"} {
		b.part(name, "true", Inputs{})
	}
	b.Names = []string{"certfy"}
	const want = `the proof has no part "certfy": there are certify, kind, and ` +
		"`lab prove --list` shows the parts of each"
	if _, _, err := b.prove(t.Context()); err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	b.Names = []string{"kind", "certify-02"}
	b.mustRun("certify-02 kind")
	b.Names = []string{"certify"}
	b.mustRun("certify-01")
	b.Names = nil
	if got := shortened(b.Parts, b.Parts[:2]); !slices.Equal(got, []string{"certify"}) {
		t.Errorf("shortened() of a whole family = %v", got)
	}
	if got := shortened(b.Parts, b.Parts[1:]); !slices.Equal(got, []string{"certify-02", "kind"}) {
		t.Errorf("shortened() of one part of a family = %v", got)
	}
}
