// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// must fails the test for what a test can't do without.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestCloseRemovesProtectedFolders(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		make func(t *testing.T, dir string)
	}{
		{"a folder that may not be written", func(t *testing.T, dir string) {
			t.Helper()
			must(t, os.Mkdir(dir+"/a", 0o700), os.WriteFile(dir+"/a/b", nil, 0), os.Chmod(dir+"/a", 0o555))
		}},
		{"folders without any permission", func(t *testing.T, dir string) {
			t.Helper()
			must(t, os.MkdirAll(dir+"/a/b/c", 0o700), os.WriteFile(dir+"/a/b/c/d", nil, 0),
				os.Chmod(dir+"/a/b/c", 0), os.Chmod(dir+"/a/b", 0), os.Chmod(dir+"/a", 0))
		}},
		{"itself without any permission", func(t *testing.T, dir string) { t.Helper(); must(t, os.Chmod(dir, 0)) }},
		{"odd names", func(t *testing.T, dir string) {
			t.Helper()
			for _, name := range []string{"-rf", " ", "a\nb", "*", "\xff\xfe", "...", strings.Repeat("x", 255)} {
				must(t, os.Mkdir(filepath.Join(dir, name), 0o500))
			}
		}},
		{"special files", func(t *testing.T, dir string) {
			t.Helper()
			must(t, syscall.Mkfifo(dir+"/fifo", 0), os.Symlink("/dev/zero", dir+"/zero"), os.Symlink("nowhere", dir+"/nowhere"))
		}},
		{"many files", func(t *testing.T, dir string) {
			t.Helper()
			for i := range 1100 {
				must(t, os.WriteFile(fmt.Sprint(dir, "/", i), nil, 0o600))
			}
		}},
		{"a tree deeper than paths go", func(t *testing.T, dir string) {
			t.Helper()
			makeDeep(t, dir, 100)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			scope := newScope(t, Options{})
			test.make(t, scope.Dir)
			if err := scope.Close(); err != nil {
				t.Error(err)
			}
			if exists(scope.Dir) {
				t.Error("the folder still exists")
			}
		})
	}
}

func TestRemoveDoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	must(t, os.Mkdir(outside+"/folder", 0o500), os.WriteFile(outside+"/file", nil, 0o400))
	scope := newScope(t, Options{})
	must(t, os.Mkdir(scope.Dir+"/a", 0o700),
		os.Symlink(outside, scope.Dir+"/link"),
		os.Symlink(outside+"/folder", scope.Dir+"/a/link"),
		os.Symlink(outside+"/file", scope.Dir+"/a/file"),
		os.Chmod(scope.Dir+"/a", 0o500))
	if err := scope.Close(); err != nil || exists(scope.Dir) {
		t.Errorf("Close() error = %v", err)
	}
	for name, mode := range map[string]os.FileMode{"folder": 0o500, "file": 0o400} {
		if info, err := os.Stat(filepath.Join(outside, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s was touched: %v, %v", name, info, err)
		}
	}
	must(t, os.Chmod(outside+"/folder", 0o700))
}

// Another process may put a link in place of the run folder.
func TestRemoveDoesNotFollowLinkAtRoot(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	must(t, os.WriteFile(outside+"/file", nil, 0o400))
	scope := newScope(t, Options{})
	must(t, os.Remove(scope.Dir), os.Symlink(outside, scope.Dir))
	if err := scope.Close(); err != nil || exists(scope.Dir) {
		t.Errorf("Close() error = %v", err)
	}
	if !exists(outside + "/file") {
		t.Error("the link was followed")
	}
}

func TestSweepRemovesUnreadableFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	root, err := Root()
	must(t, err)
	for name, mode := range map[string]os.FileMode{"scope-1": 0, "scope-2": 0o500, "scope-3": 0o700} {
		must(t, os.MkdirAll(filepath.Join(root, name, "a"), 0o700), os.Chmod(filepath.Join(root, name), mode))
	}
	must(t, os.Symlink("/nowhere", filepath.Join(root, "scope-4")))
	scope := newScope(t, Options{})
	if left, err := filepath.Glob(filepath.Join(root, "scope-?")); err != nil || len(left) > 0 {
		t.Errorf("%v (%v) were not removed", left, err)
	}
	if !exists(scope.Dir) {
		t.Error("a sweep removed a folder in use")
	}
}

func TestRemoveTreeDeeperThanDescriptorLimit(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	must(t, os.Mkdir(tmp+"/deep", 0o700))
	makeDeep(t, tmp+"/deep", 4*descriptors)
	remover := play(t, "removing", tmp)
	if output := remover.line(t)[0]; output != "removed" || exists(tmp+"/deep") {
		t.Errorf("output = %q", output)
	}
}

// descriptors is how many file descriptors a process has that removes a deep tree.
const descriptors = 64

func removeWithFewDescriptors() error {
	limit := &syscall.Rlimit{Cur: descriptors, Max: descriptors}
	err := errors.Join(syscall.Setrlimit(syscall.RLIMIT_NOFILE, limit), removeAll(filepath.Join(os.TempDir(), "deep")))
	if err == nil {
		fmt.Println("removed")
	}
	return err
}

// makeDeep creates a tree that is too deep for a path to name its end.
func makeDeep(t *testing.T, dir string, depth int) {
	t.Helper()
	name := strings.Repeat("deeper", 20)
	root, err := os.OpenRoot(dir)
	must(t, err)
	for range depth {
		must(t, root.Mkdir(name, 0o700), root.WriteFile("file", nil, 0o400))
		below, err := root.OpenRoot(name)
		must(t, err, root.Close())
		root = below
	}
	must(t, root.Close())
}
