// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// course holds the labs of these tests.
var course = []Lab{
	{Name: "01-icecream", Number: 1, Title: "Icecream"},
	{Name: "02-reconciler", Number: 2, Title: "The reconciler"},
	{Name: "11-workspace", Number: 11, Title: "Workspace"},
}

var (
	lab1 = course[0]
	lab2 = course[1]
)

// files are the contents of files by their slash-separated names.
type files map[string]string

// labFiles returns the files of a lab's module as a student has it.
func labFiles(prefix, module string) files {
	return files{
		prefix + "go.mod":                 "module " + module + "\n\ngo 1.26.0\n",
		prefix + "cmd/main.go":            "package main\n\nfunc main() {}\n",
		prefix + "api/v1/groupversion.go": "// +groupName=demo.lva.io\npackage v1\n",
	}
}

func join(all ...files) files {
	joined := files{}
	for _, some := range all {
		maps.Copy(joined, some)
	}
	return joined
}

func (f files) names() []string { return slices.Sorted(maps.Keys(f)) }

func (f files) write(t *testing.T, dir string) {
	t.Helper()
	for name, content := range f {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600),
		); err != nil {
			t.Fatal(err)
		}
	}
}

func (f files) zip(tb testing.TB) string {
	tb.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, name := range f.names() {
		file, err := w.Create(name)
		if err == nil {
			_, err = file.Write([]byte(f[name]))
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return archive.String()
}

func (f files) tar(tb testing.TB) string {
	tb.Helper()
	var headers []tar.Header
	for _, name := range f.names() {
		headers = append(headers, tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f[name]))})
	}
	return tarOf(tb, f, headers...)
}

// tarOf writes entries unchanged, with the content that belongs to their names.
func tarOf(tb testing.TB, content files, headers ...tar.Header) string {
	tb.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, header := range headers {
		if err := w.WriteHeader(&header); err != nil {
			tb.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(content[header.Name])); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return archive.String()
}

func zipped(tb testing.TB, content string) string {
	tb.Helper()
	var archive bytes.Buffer
	w := gzip.NewWriter(&archive)
	if _, err := w.Write([]byte(content)); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return archive.String()
}

// readAll reads a source for some labs.
func readAll(t *testing.T, source string, labs ...Lab) []Submission {
	t.Helper()
	all, err := Read(t.Context(), Options{
		Labs: labs, Course: course, Source: source, Work: filepath.Join(t.TempDir(), "work"), Owns: ownsGroup,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if (s.Problem == "") != (s.Dir != "") || (s.Problem == "") != (len(s.Digest) == 64) || s.Attempt < 1 ||
			s.Student != safeName(s.Student) {
			t.Errorf("Read() = %+v", s)
		}
		if s.Dir != "" {
			if _, err := os.Stat(filepath.Join(s.Dir, "go.mod")); err != nil {
				t.Error(err)
			}
		}
		if strings.ContainsAny(s.Problem, "\n\x00\x1b") || strings.Contains(s.Problem, "%!") {
			t.Errorf("Problem = %q", s.Problem)
		}
	}
	return all
}

func ownsGroup(_ Lab, dir string) bool { return HasGroup(dir, "demo.lva.io") }

// short returns the fields that tests compare: student, lab, attempt, and the folder or the problem.
func short(all []Submission, work string) (lines []string) {
	for _, s := range all {
		what := s.Problem
		if s.Dir != "" {
			what = "in " + filepath.Base(s.Dir)
		}
		lines = append(lines, fmt.Sprintf("%s %s %d: %s", s.Student, s.Lab, s.Attempt, strings.ReplaceAll(what, work, "")))
	}
	return lines
}

func wantLines(t *testing.T, got, want []string) {
	t.Helper()
	fits := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		fits = fits && strings.HasPrefix(got[i], want[i])
	}
	if !fits {
		t.Errorf("Read() =\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// TestDigest checks that the same work has the same digest, however it was handed in. Other work has another digest.
func TestDigest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	work := labFiles("", "example.com/icecream")
	changed := join(work, files{"cmd/main.go": "package main\n\nfunc main() { println() }\n"})
	renamed := join(work, files{"cmd/other.go": work["cmd/main.go"]})
	delete(renamed, "cmd/main.go")
	// Moving content from one file to the next must change the digest.
	moved := join(work, files{"cmd/main.go": work["cmd/main.go"] + "x"})
	files{
		"a.zip": work.zip(t), "b.tar": work.tar(t), "c.tgz": zipped(t, work.tar(t)),
		"e.zip": join(work, files{
			".git/config": "x", "bin/manager": "x", ".DS_Store": "x", "__MACOSX/x": "x", "node_modules/x/y.js": "x",
		}).zip(t),
		"f.zip": changed.zip(t), "g.zip": renamed.zip(t), "h.zip": moved.zip(t),
		"i.zip": join(work, files{"cmd/bin/x.go": "package bin\n"}).zip(t),
	}.write(t, dir)
	work.write(t, filepath.Join(dir, "d"))
	files{".git/HEAD": "x", "bin/x": "x"}.write(t, filepath.Join(dir, "d"))
	digests := map[string]string{}
	for _, s := range readAll(t, dir, lab2) {
		digests[s.Student] = s.Digest
	}
	seen := map[string]string{}
	for _, student := range slices.Sorted(maps.Keys(digests)) {
		sum := digests[student]
		if same := strings.Contains("abcde", student); same != (sum == digests["a"]) {
			t.Errorf("the digest of %s = %s, want that of a, %s", student, sum, digests["a"])
		}
		if other := seen[sum]; other != "" && !strings.Contains("abcde", student) {
			t.Errorf("%s and %s have the same digest", student, other)
		}
		seen[sum] = student
	}
	if len(digests) != 9 {
		t.Errorf("the digests are %v", digests)
	}
}

// TestHostileFolders reads folders with hostile files, which are dangerous even if nothing is unpacked.
func TestHostileFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	for _, name := range []string{
		"links-out", "link-inside", "dangles", "loop", "pipe",
		"large", "pipe-outside", "linked-module", "link-to-archive", "unreadable",
	} {
		labFiles(name+"/02-reconciler/", "x").write(t, dir)
	}
	if err := errors.Join(
		os.WriteFile(outside, []byte("secret"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "links-out", "02-reconciler", "cmd", "x.go")),
		os.Symlink("../cmd", filepath.Join(dir, "link-inside", "02-reconciler", "api", "cmd")),
		os.Symlink("nowhere", filepath.Join(dir, "dangles", "02-reconciler", "x.go")),
		os.Symlink("loop.go", filepath.Join(dir, "loop", "02-reconciler", "loop.go")),
		syscall.Mkfifo(filepath.Join(dir, "pipe", "02-reconciler", "x.go"), 0o600),
		syscall.Mkfifo(filepath.Join(dir, "pipe-outside", "x"), 0o600),
		os.Truncate(filepath.Join(dir, "large", "02-reconciler", "cmd", "main.go"), 40<<20),
		os.RemoveAll(filepath.Join(dir, "linked-module", "02-reconciler")),
		os.Symlink(filepath.Join(dir, "link-inside", "02-reconciler"), filepath.Join(dir, "linked-module", "02-reconciler")),
		os.RemoveAll(filepath.Join(dir, "link-to-archive", "02-reconciler")),
		os.Symlink(outside, filepath.Join(dir, "link-to-archive", "lab.zip")),
		os.Chmod(filepath.Join(dir, "unreadable", "02-reconciler", "cmd"), 0),
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.Chmod(filepath.Join(dir, "unreadable", "02-reconciler", "cmd"), 0o700) //nolint:gosec // a folder
	})
	want := []string{
		"dangles 02-reconciler 1: in 02-reconciler", "large 02-reconciler 1: its files are too large, with cmd/main.go",
		"link-inside 02-reconciler 1: in 02-reconciler",
		"link-to-archive 02-reconciler 1: there is no go.mod", "linked-module 02-reconciler 1: there is no go.mod",
		"links-out 02-reconciler 1: cmd/x.go is a link that points outside the submission",
		"loop 02-reconciler 1: loop.go is a link that can't be followed",
		"pipe 02-reconciler 1: x.go is a named pipe: remove it", "pipe-outside 02-reconciler 1: in 02-reconciler",
		"unreadable 02-reconciler 1: reading the submission: ",
	}
	if os.Getuid() == 0 {
		want[len(want)-1] = "unreadable 02-reconciler 1: in 02-reconciler"
	}
	wantLines(t, short(readAll(t, dir, lab2), dir), want)
}

// TestReadAgain checks that a second call returns the same result, and leaves no file of the first call that no longer
// exists in the source.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	dir, work := t.TempDir(), filepath.Join(t.TempDir(), "work")
	files{"ada.zip": join(labFiles("", "x"), files{"old.go": "package old"}).zip(t)}.write(t, dir)
	options := Options{Labs: []Lab{lab2}, Source: dir, Work: work}
	first, err := Read(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read(t.Context(), options)
	if err != nil || !slices.Equal(first, again) {
		t.Errorf("Read() = %+v, and the second time %+v: %v", first, again, err)
	}
	files{"ada.zip": labFiles("", "x").zip(t)}.write(t, dir)
	if again, err = Read(t.Context(), options); err != nil || again[0].Digest == first[0].Digest {
		t.Errorf("Read() still returns %+v: %v", again, err)
	}
	if _, err := os.Stat(filepath.Join(again[0].Dir, "old.go")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an old file is still there: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Read(stopped, options); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context the error is %v", err)
	}
}

func TestNamesOfStudents(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ada": "ada", "Ada Lovelace": "Ada-Lovelace", "Müller, Jürgen": "Müller-Jürgen",
		"../../etc/passwd": "etc-passwd", ".hidden": "hidden", "": "", "/": "", "..": "",
		"a/b\\c\x00d\ne": "a-b-c-d-e", "ada@example.org": "ada@example.org",
		"-rf": "rf", "=cmd()": "cmd", "Mu\u0308ller": "Müller", "\xff\xfe": "", "a\u202egpj": "a-gpj",
		"con.": "con", strings.Repeat("ä", 100): strings.Repeat("ä", 32),
	} {
		if got := safeName(name); got != want {
			t.Errorf("%q is called %q, want %q", name, got, want)
		}
	}
	names := studentNames([]source{
		{identity: "1", name: "Ada"},
		{identity: "2", name: "ada"},
		{identity: "1", name: "Ada"},
		{identity: "3", name: "bob"},
		{identity: "4", name: "***"},
		{identity: "5", name: strings.Repeat("x", 80)},
		{identity: "6", name: strings.Repeat("x", 80) + "y"},
	})
	seen := map[string]bool{}
	for identity, name := range names {
		if key := strings.ToLower(name); seen[key] || len(name) > maxName || name != safeName(name) {
			t.Errorf("%s is called %s: %v", identity, name, names)
		}
		seen[strings.ToLower(name)] = true
	}
	if names["3"] != "bob" || !strings.HasPrefix(names["1"], "Ada-") || !strings.HasPrefix(names["2"], "ada-") ||
		len(names) != 6 {
		t.Errorf("studentNames() = %v", names)
	}
}
