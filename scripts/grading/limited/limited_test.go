// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package limited

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A program may print endlessly. The part that is kept is limited, even if io.Copy writes it, as in package os/exec.
func TestOutputIsLimited(t *testing.T) {
	t.Parallel()
	output := NewOutput(10)
	if _, err := output.Write([]byte("vanilla, c")); err != nil || output.Full() {
		t.Errorf("with all of it kept, Full() = %t, %v", output.Full(), err)
	}
	for range 2 {
		n, err := io.Copy(output, struct{ io.Reader }{strings.NewReader("chocolate")})
		if n != 9 || err != nil {
			t.Errorf("Write() = %d, %v, want no error", n, err)
		}
	}
	if output.String() != "vanilla, c" || string(output.Bytes()) != "vanilla, c" || !output.Full() {
		t.Errorf("kept %q", output)
	}
}

// The end of an output explains why a program ended.
func TestTailKeepsEnd(t *testing.T) {
	t.Parallel()
	tail := NewTail(10)
	for _, text := range []string{"vanilla, ", "chocolate, ", "matcha"} {
		if n, err := tail.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("Write() = %d, %v, want no error", n, err)
		}
	}
	if tail.String() != "te, matcha" {
		t.Errorf("kept %q", tail)
	}
}

// A server may answer endlessly. An answer of exactly as many bytes as are allowed is complete.
func TestReadAllFailsBeyondLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		from io.Reader
		long bool
	}{
		{"as long as allowed", strings.NewReader("vanilla"), false},
		{"a byte longer", strings.NewReader("vanilla!"), true},
		{"without end", endless{}, true},
	} {
		content, err := ReadAll(test.from, 7)
		long, ok := errors.AsType[*LongError](err)
		if ok != test.long || ok && long.Limit != 7 || err != nil && !ok || len(content) > 7 {
			t.Errorf("%s: ReadAll() = %q, %v", test.name, content, err)
		}
	}
	limited := Reader(endless{}, 7)
	for range 3 {
		if n, err := io.Copy(io.Discard, limited); !errors.As(err, new(*LongError)) || n > 7 {
			t.Errorf("read %d bytes, error is %v", n, err)
		}
	}
}

// endless is a reader without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A file may grow after its size was checked and while it is read.
func TestGrowingFileIsLimited(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(io.Reader) (int64, error){
		"read":   func(r io.Reader) (int64, error) { content, err := io.ReadAll(r); return int64(len(content)), err },
		"copied": func(r io.Reader) (int64, error) { return io.Copy(io.Discard, r) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "a.yaml")
			if err := os.WriteFile(path, []byte("small"), 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := Open(dir, "a.yaml", 1<<10)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if err := os.Truncate(path, 100<<20); err != nil {
				t.Fatal(err)
			}
			n, err := read(file)
			if wrong, ok := errors.AsType[*FileError](err); !ok || !wrong.TooLarge || n > 1<<10 {
				t.Errorf("read %d bytes, error is %v", n, err)
			}
		})
	}
}

func TestCopiesShareALimit(t *testing.T) {
	t.Parallel()
	dir, to := t.TempDir(), t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("12345"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		copies Copies
		files  []string
		tooFar bool
	}{
		{"exactly as much as is allowed", Copies{Files: 2, Bytes: 10}, []string{"a", "b"}, false},
		{"a file too many", Copies{Files: 2, Bytes: 100}, []string{"a", "b", "c"}, true},
		{"a byte too many", Copies{Files: 3, Bytes: 14}, []string{"a", "b", "c"}, true},
	} {
		for i, name := range test.files {
			target := filepath.Join(to, test.name+name)
			err := test.copies.Copy(dir, name, target, 5)
			_, tooMuch := errors.AsType[*TooMuchError](err)
			if last := i == len(test.files)-1; tooMuch != (test.tooFar && last) || err != nil && !tooMuch {
				t.Errorf("%s: copying %s: %v", test.name, name, err)
			}
		}
	}
	folders := Copies{Files: 2, Bytes: 100}
	if err := errors.Join(
		folders.Folder(filepath.Join(to, "x", "y")),
		folders.Copy(dir, "a", filepath.Join(to, "x", "y", "a"), 5),
	); err != nil {
		t.Error(err)
	}
	if err := folders.Folder(filepath.Join(to, "z")); !errors.As(err, new(*TooMuchError)) {
		t.Errorf("Folder() beyond the limit: error = %v", err)
	}
	copies := Copies{Files: 1, Bytes: 100}
	if err := copies.Copy(dir, "pipe", filepath.Join(to, "pipe"), 5); !errors.As(err, new(*FileError)) {
		t.Errorf("Copy() of a pipe: error = %v", err)
	}
}
