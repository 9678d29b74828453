// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestWalls(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		f := newFixture(t, scope)
		_, err := f.try(t, f.walls, "nothing")
		must(t, err)
		built := scope.Walls()
		t.Logf("walls: %q", built)
		has := func(wall Wall) bool { return slices.Contains(built, wall) }
		if !scope.options.withoutNamespaces && !has(PrivateRoot) {
			t.Error("in a namespace there is no private root")
		}
		if os.Getenv(namespacesVariable) == "required" && (!has(FilesWall) || !has(NetworkWall)) {
			t.Errorf("%s=required, and this machine has only these walls: %q", namespacesVariable, built)
		}

		own := filepath.Join(f.home, "own")
		must(t, os.WriteFile(own, nil, 0o600))
		for _, allowed := range [][]string{
			{"read", f.given},
			{"read", "/etc/passwd"},
			{"read", "/proc/self/status"},
			{"write", "/dev/null"},
			{"append", "/proc/self/fd/1"},
			{"write", own},
			{"chmod", own},
			{"rename", own},
			{"create", f.home},
			{"list", f.home},
			{"list", "/usr"},
			{"execute", "/bin/sh", "-c", "exit 0"},
			{"connect", f.open.Addr().String()},
			{"listen"},
			{"pair"},
			{"addresses"},
		} {
			if output, err := f.try(t, f.walls, allowed[0], allowed[1:]...); err != nil {
				t.Errorf("the program can't %s: %v %s", strings.Join(allowed, " "), err, output)
			}
		}

		for _, forbidden := range f.forbidden() {
			if forbidden.wall != "" && !has(forbidden.wall) {
				continue
			}
			if output, err := f.try(t, f.walls, forbidden.what[0], forbidden.what[1:]...); err == nil {
				t.Errorf("the program can %s %s", strings.Join(forbidden.what, " "), output)
			}
		}
		if content, err := os.ReadFile(f.secret); err != nil || string(content) != "content" {
			t.Errorf("secret = %q (%v)", content, err)
		}
		if content, err := os.ReadFile(f.given); err != nil || string(content) != "content" {
			t.Errorf("readable file = %q (%v)", content, err)
		}
	})
}

// Each wall is needed: without it, an access succeeds that it should prevent. The private root also hides files that
// may not be read, so the test of the wall for files works without it.
func TestEachWallIsNeeded(t *testing.T) {
	t.Parallel()
	for _, wall := range allWalls {
		t.Run(string(wall), func(t *testing.T) {
			t.Parallel()
			scope := newScope(t, Options{withoutNamespaces: wall != PrivateRoot})
			f := newFixture(t, scope)
			_, err := f.try(t, f.walls, "nothing")
			must(t, err)
			if !slices.Contains(scope.Walls(), wall) {
				t.Skip("this machine can't build it")
			}
			f.walls.without = []Wall{wall}
			var succeeded []string
			for _, forbidden := range f.forbidden() {
				systemPath := len(forbidden.what) > 1 && (forbidden.what[1] == "/usr" || forbidden.what[1] == "/")
				if forbidden.wall == wall && !systemPath {
					if _, err := f.try(t, f.walls, forbidden.what[0], forbidden.what[1:]...); err == nil {
						succeeded = append(succeeded, strings.Join(forbidden.what, " "))
					}
				}
			}
			if len(succeeded) == 0 {
				t.Error("no attempt succeeds without the wall")
			}
			t.Logf("without the wall: %s", strings.Join(succeeded, "; "))
			if slices.Contains(scope.Walls(), wall) {
				t.Error("Walls() contains a wall that was left out")
			}
		})
	}
}

// A shell or make may have left us descriptors that are not closed when a program starts.
func TestDescriptorsAreNotInherited(t *testing.T) { // not parallel: a program started meanwhile would inherit it, too
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		f := newFixture(t, scope)
		file, err := os.Open(f.secret)
		must(t, err)
		defer file.Close()
		inherited, err := unix.Dup(int(file.Fd()))
		must(t, err)
		defer unix.Close(inherited)
		for _, walls := range []*Walls{f.walls, nil} {
			if output, err := f.try(t, walls, "read a descriptor", strconv.Itoa(inherited)); err == nil {
				t.Errorf("the program can read descriptor %d (walled: %t) %s", inherited, walls != nil, output)
			}
		}
	})
}

// A program is not started without a wall that it requires, even if the machine had that wall when it was tested.
func TestRequiredWall(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		f := newFixture(t, scope)
		_, err := f.try(t, f.walls, "nothing")
		must(t, err)
		f.walls.Require = scope.Walls()
		_, err = f.try(t, f.walls, "nothing")
		must(t, err)
		for _, wall := range f.walls.Require {
			walls := *f.walls
			walls.without = []Wall{wall}
			_, err := scope.Start(Spec{
				Path: "/bin/sh", Args: []string{"-c", "echo >" + f.home + "/begun"}, Dir: f.home,
				Contained: true, Walls: &walls,
			})
			if err == nil || !strings.Contains(err.Error(), strconv.Quote(string(wall))) {
				t.Errorf("without the wall %q: error = %v", wall, err)
			}
		}
		if exists(filepath.Join(f.home, "begun")) {
			t.Error("the program was started")
		}
	})
}

// An inaccessible file is treated like one that does not exist: the walls are built without it.
func TestFilesWithoutNames(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		f := newFixture(t, scope)
		_, err := f.try(t, f.walls, "nothing")
		must(t, err)
		want := scope.Walls()
		loop := filepath.Join(t.TempDir(), "loop")
		must(t, os.Symlink(loop, loop))
		f.walls.Read = append(f.walls.Read, filepath.Join(f.given, "below a file"), loop, filepath.Join(loop, "below"))
		for _, what := range []string{"nothing", "read"} {
			_, err := f.try(t, f.walls, what, f.given)
			must(t, err)
		}
		if got := scope.Walls(); !slices.Equal(got, want) {
			t.Errorf("Walls() = %q, want %q", got, want)
		}
	})
}

// Without walls each of these accesses succeeds. So the tests of the walls can fail.
func TestAccessSucceedsWithoutWalls(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		f := newFixture(t, scope)
		for _, what := range [][]string{
			{"read", f.secret},
			{"list", f.folder},
			{"create", f.folder},
			{"see", f.secret},
			{"chmod", f.secret},
			{"connect", f.closed.Addr().String()},
			{"connect to a socket", f.socket},
			{"datagram"},
			{"append", f.given},
			{"list", scope.Dir},
			{"write", f.secret},
			{"remove", f.secret},
		} {
			if output, err := f.try(t, nil, what[0], what[1:]...); err != nil {
				t.Errorf("the program can't %s: %v %s", strings.Join(what, " "), err, output)
			}
		}
		if built := scope.Walls(); built != nil {
			t.Errorf("Walls() = %q, want none", built)
		}
	})
}

// The owner may be killed at any moment, and a walled program must not outlive it.
func TestWalledProgramStopsAndWrites(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, scope *Scope) {
		t.Helper()
		f := newFixture(t, scope)
		read, write := io.Pipe()
		p, err := scope.Start(Spec{
			Path: "/bin/sh",
			Args: []string{"-c", "trap 'echo bye > last; exit 3' TERM; echo ready; while :; do sleep 0.1; done"},
			Dir:  f.home, Stdout: write, Contained: true, Walls: f.walls,
		})
		must(t, err)
		if _, err := fmt.Fscanln(read, new(string)); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, read) }()
		p.Stop(time.Minute)
		if exit, ok := errors.AsType[ExitError](p.Err()); !ok || exit.ExitCode() != 3 {
			t.Errorf("error = %v", p.Err())
		}
		if last, err := os.ReadFile(filepath.Join(f.home, "last")); err != nil || string(last) != "bye\n" {
			t.Errorf("last line = %q (%v)", last, err)
		}
	})
}

// Tests of a submission start an API server and connect to it, and to nothing else.
func TestPrivateNetwork(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	f := newFixture(t, newScope(t, Options{}))
	walls := &Walls{OwnNetwork: true}
	for _, allowed := range []string{"serve itself", "datagram", "listen"} {
		if output, err := f.try(t, walls, allowed); err != nil {
			t.Errorf("the program can't %s: %v %s", allowed, err, output)
		}
	}
	for _, forbidden := range [][]string{
		{"connect", f.open.Addr().String()},
		{"connect to a socket", f.socket},
		{"connect", "192.0.2.1:80"},
		{"read", f.secret},
		{"capabilities"},
	} {
		if output, err := f.try(t, walls, forbidden[0], forbidden[1:]...); err == nil {
			t.Errorf("the program can %s %s", strings.Join(forbidden, " "), output)
		}
	}
	if built := f.scope.Walls(); !slices.Contains(built, NetworkWall) || !slices.Contains(built, PrivateRoot) {
		t.Errorf("Walls() = %q", built)
	}
}
