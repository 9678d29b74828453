// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gate

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/authoring/stopwatch"
)

// slowestTests is how many of the slowest tests are listed.
const slowestTests = 20

// measured is how long a package or a test took, in seconds. CPU is the CPU time of the test program and of all
// processes that it waited for. It is 0 for a test, because the tests of a package run in one process.
type measured struct {
	name      string
	wall, cpu float64
}

// Measurement measures the test programs of a module.
type Measurement struct {
	watch stopwatch.Watch
	// script runs a program and appends a line to the file times: the program's folder, and three times in seconds.
	script, times string
}

// Measure starts a measurement. wrapper is the beginning of the command line of each test program.
func Measure(scope *process.Scope) (_ *Measurement, wrapper []string, err error) {
	m := &Measurement{
		watch: stopwatch.Start(), script: filepath.Join(scope.Dir, "measure.sh"), times: filepath.Join(scope.Dir, "times"),
	}
	// The shell writes its message into the file. The program's standard error is not redirected.
	text := "TIMEFORMAT=\"$PWD %R %U %S\"\n{ time \"$@\" 2>&3; } 3>&2 2>>" + shellescape.Quote(m.times) + "\n"
	if err := os.WriteFile(m.script, []byte(text), 0o600); err != nil {
		return nil, nil, err
	}
	return m, []string{"bash", m.script}, nil
}

// Print prints two tables: the time of each package below the root, and the slowest tests. events are the events of `go
// test -json`.
func (m *Measurement) Print(w io.Writer, root string, events io.Reader) error {
	lines, err := os.ReadFile(m.times)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no package has a test of this part
	}
	if err != nil {
		return fmt.Errorf("reading the times of the test programs: %w", err)
	}
	packages, err := packageTimes(root, string(lines))
	if err != nil {
		return err
	}
	tests, err := testTimes(events)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "The whole run took %s.\n\n| package | s | CPU s |\n|---|---|---|\n", m.watch.Elapsed())
	for _, p := range packages {
		fmt.Fprintf(w, "| %s | %.1f | %.1f |\n", p.name, p.wall, p.cpu)
	}
	fmt.Fprint(w, "\n| slowest tests | s |\n|---|---|\n")
	for _, test := range tests[:min(len(tests), slowestTests)] {
		fmt.Fprintf(w, "| %s | %.1f |\n", test.name, test.wall)
	}
	return nil
}

// packageTimes reads the lines of Measure's script. The package that used the most CPU time comes first. A package that
// ran twice counts twice.
func packageTimes(root, lines string) ([]measured, error) {
	var all []measured
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		rest, ok := strings.CutPrefix(line, root+"/")
		if !ok {
			continue // another message of the shell
		}
		p := measured{}
		var user, system float64
		fields := strings.Fields(rest)
		if len(fields) != 4 {
			return nil, fmt.Errorf("the time of a test program is not a line of four words: %q", line)
		}
		p.name = fields[0]
		if _, err := fmt.Sscan(strings.Join(fields[1:], " "), &p.wall, &user, &system); err != nil {
			return nil, fmt.Errorf("reading the time of a test program: %q: %w", line, err)
		}
		p.cpu = user + system
		if i := slices.IndexFunc(all, func(m measured) bool { return m.name == p.name }); i >= 0 {
			p.wall, p.cpu = p.wall+all[i].wall, p.cpu+all[i].cpu
			all = slices.Delete(all, i, i+1)
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b measured) int { return cmp.Or(cmp.Compare(b.cpu, a.cpu), cmp.Compare(a.name, b.name)) })
	return all, nil
}

// testTimes reads events of `go test -json`. The slowest test comes first.
func testTimes(events io.Reader) ([]measured, error) {
	var all []measured
	err := eachTestEvent(events, func(event testEvent) {
		if event.Test != "" && (event.Action == "pass" || event.Action == "fail") {
			all = append(all, measured{name: filepath.Base(event.Package) + " " + event.Test, wall: event.Elapsed})
		}
	})
	slices.SortStableFunc(all, func(a, b measured) int { return cmp.Compare(b.wall, a.wall) })
	return all, err
}
