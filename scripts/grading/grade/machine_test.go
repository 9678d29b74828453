// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
)

// stalledVariable makes this binary watch itself until its standard input ends, and print the longest stall in
// seconds.
const stalledVariable = "GRADE_TEST_STALLED"

func TestStoppedProcessMeasuresStall(t *testing.T) {
	t.Parallel()
	if os.Getenv(stalledVariable) != "" {
		watched := watchMachine()
		fmt.Println("watching")
		_, _ = os.Stdin.Read(make([]byte, 1))
		fmt.Println(watched.stop().Seconds())
		return
	}
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), stalledVariable+"=1", "TMPDIR="+t.TempDir())
	input, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill() // it has printed everything
		_ = c.Wait()
	}()
	buffer := make([]byte, 100)
	if n, err := output.Read(buffer); err != nil || string(buffer[:n]) != "watching\n" {
		t.Fatalf("output is %q: %v", buffer[:n], err)
	}
	const stop = 1500 * time.Millisecond
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := c.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		<-time.After(stop) // this is how long it is stopped
	}
	input.Close()
	n, err := output.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(buffer[:n]))
	if seconds, err := strconv.ParseFloat(words[0], 64); err != nil || seconds < stop.Seconds()-stallTick.Seconds()-0.1 {
		t.Errorf("stopped for %s, the program printed %q", stop, words)
	}
}

// By the clock of its timers, a laptop that was closed is not late.
func TestSuspensionCountsAsStall(t *testing.T) {
	t.Parallel()
	const before, night = time.Hour, 8 * time.Hour // what it slept before the run does not count
	for _, sleeps := range []time.Duration{0, night} {
		m := &machine{end: make(chan struct{}), ended: make(chan struct{})}
		asked, woken := 0, make(chan struct{})
		go m.watch(time.Now(), protocol.Usage{}, func() time.Duration {
			if asked++; asked < 3 {
				return before
			}
			if asked == 3 {
				close(woken)
			}
			return before + sleeps
		})
		<-woken
		if stall := m.stop(); stall < sleeps || stall > sleeps+stallTolerated {
			t.Errorf("suspended for %s, the longest stall is %s", sleeps, stall)
		}
	}
}

func TestDoubtAfterStall(t *testing.T) {
	t.Parallel()
	ours := errors.New("the disk is full")
	for _, test := range []struct {
		name    string
		err     error
		failed  bool
		stalled time.Duration
		starved bool
		doubted bool
	}{
		{"a check failed", nil, true, 20 * time.Second, false, true},
		{"a check failed on a machine that was late", nil, true, 2 * time.Second, false, false},
		{"full marks", nil, false, 20 * time.Second, false, false},
		{"it crashed", &verdict{outcome: report.Crashed}, true, 20 * time.Second, false, true},
		{"the checks did not finish", &verdict{outcome: report.TimedOut}, false, 20 * time.Second, false, true},
		{"it does not compile", &verdict{outcome: report.NotBuilt}, false, 20 * time.Second, false, false},
		{"a check failed on a starved machine", nil, true, 0, true, true},
		{"full marks on a starved machine", nil, false, 0, true, false},
		{"an error of ours", ours, false, 20 * time.Second, false, false},
	} {
		r := &run{report: &report.Report{Checks: []report.Check{{Status: report.Passed}}}}
		if test.failed {
			r.report.Checks = append(r.report.Checks, report.Check{Status: report.Failed})
		}
		reason := "this machine stopped for 20.0 s"
		if test.starved {
			r.starved, reason = supply{ran: 2 * time.Second, waited: 90 * time.Second}, "this machine was too busy"
		}
		got := r.reconsider(test.err, test.stalled)
		v, is := errors.AsType[*verdict](got)
		if doubted := is && v.outcome == report.Error && v.machine; doubted != test.doubted {
			t.Errorf("%s: doubted %t, want %t: %v", test.name, doubted, test.doubted, got)
		}
		if !test.doubted && !errors.Is(got, test.err) {
			t.Errorf("%s: reconsider(%v) = %v", test.name, test.err, got)
		}
		if test.doubted && !strings.HasPrefix(v.reason, reason) {
			t.Errorf("%s: reason is %q", test.name, v.reason)
		}
	}
}

// busyMachine returns a machine on which the grader waits this many times as long as it runs.
func busyMachine(t *testing.T, waits float64) *machine {
	t.Helper()
	busy, tick := &machine{}, time.NewTicker(10*time.Millisecond)
	t.Cleanup(tick.Stop)
	go func() {
		for {
			select {
			case <-t.Context().Done():
				return
			case <-tick.C:
			}
			busy.mutex.Lock()
			busy.given = busy.given.plus(protocol.Usage{}, protocol.Usage{CPU: 1, Waited: waits})
			busy.mutex.Unlock()
		}
	}()
	return busy
}

func TestBusyMachineExtendsTimeout(t *testing.T) {
	t.Parallel()
	over := errors.New("the time is over")
	for _, test := range []struct {
		name    string
		machine *machine
		least   time.Duration
		cut     bool
	}{
		{"a quiet machine", &machine{}, time.Second, false},
		{"an unwatched machine", nil, time.Second, false},
		{"a third of a processor", busyMachine(t, 2), 3 * time.Second, false},
		{"a hundredth of a processor", busyMachine(t, 99), longestWait * time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			ctx, cancel := test.machine.withTimeout(t.Context(), time.Second, over)
			defer cancel()
			<-ctx.Done()
			// Counting begins with the first second that is read.
			if took := time.Since(began); !errors.Is(context.Cause(ctx), over) ||
				took < test.least-200*time.Millisecond || test.machine.wasCut() != test.cut {
				t.Errorf("ended after %s with %v, want at least %s, and cut short: %t",
					took, context.Cause(ctx), test.least, test.cut)
			}
		})
	}
}
