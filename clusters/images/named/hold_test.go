// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package named

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// holding is an environment variable with a store. It makes this program hold an image of the store until it is killed.
const holding = "NAMED_TEST_HOLDS"

func TestMain(m *testing.M) {
	if store := os.Getenv(holding); store != "" {
		release, err := Hold(store, Image{Reference: "lab/graded:killed"})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
		runtime.KeepAlive(release)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func hold(t *testing.T, store, reference string) (release func() error) {
	t.Helper()
	release, err := Hold(store, Image{Reference: reference})
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// expect fails the test unless the store has exactly these images.
func expect(t *testing.T, store string, when string, want ...string) {
	t.Helper()
	all, err := List(store)
	if err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for _, image := range all {
		found = append(found, strings.TrimPrefix(image.Reference, "docker.io/lab/"))
	}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("%s the images are %q, want %q", when, found, want)
	}
}

func TestLastReleaseRemovesTheName(t *testing.T) {
	store := t.TempDir()
	first, second := hold(t, store, "lab/graded:a"), hold(t, store, "lab/graded:a")
	if err := Write(store, Image{Reference: "lab/graded:left"}); err != nil {
		t.Fatal(err)
	}
	if err := Write(store, Image{Reference: "lab/other:b"}); err != nil {
		t.Fatal(err)
	}
	if err := RemoveUnused(store, "lab/graded"); err != nil {
		t.Fatal(err)
	}
	expect(t, store, "with two holders", "graded:a", "other:b")
	if err := first(); err != nil {
		t.Fatal(err)
	}
	expect(t, store, "with one holder", "graded:a", "other:b")
	if err := second(); err != nil {
		t.Fatal(err)
	}
	expect(t, store, "with none", "other:b")
}

func TestNameOfKilledHolderIsRemoved(t *testing.T) {
	store := t.TempDir()
	holder := exec.CommandContext(t.Context(), os.Args[0])
	holder.Env = append(os.Environ(), holding+"="+store)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	endless, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer endless.Close()
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if output, err := bufio.NewReader(out).ReadString('\n'); output != "held\n" {
		t.Fatalf("the holder prints %q (%v)", output, err)
	}
	if err := RemoveUnused(store, "lab/graded"); err != nil {
		t.Fatal(err)
	}
	expect(t, store, "while the holder lives", "graded:killed")
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // it was killed
	if err := RemoveUnused(store, "lab/graded"); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(store, folder))
	if err != nil || len(left) != 1 || left[0].Name() != "lock" {
		t.Errorf("left behind: %v (%v), want only the lock", left, err)
	}
}

// Two runs of the same submission begin and end at the same time as others do. A process that holds a name always finds
// it.
func TestHeldNameIsNeverMissing(t *testing.T) {
	store := t.TempDir()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 100 {
				release, err := Hold(store, Image{Reference: "lab/graded:a"})
				if err == nil {
					err = RemoveUnused(store, "lab/graded")
				}
				if err == nil {
					_, err = Read(store, "lab/graded:a")
				}
				if err == nil {
					err = release()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	if _, err := Read(store, "lab/graded:a"); !errors.Is(err, ErrUnknown) {
		t.Errorf("the name still exists at the end (%v)", err)
	}
}
