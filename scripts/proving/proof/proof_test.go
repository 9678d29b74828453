// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package proof

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/checkout/command"
)

// bench is a repository with parts that are lines of shell, and a store.
type bench struct {
	t      *testing.T
	runner *command.Runner
	Options
}

func newBench(t *testing.T) *bench {
	t.Helper()
	runner, err := command.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runner.Close(); err != nil {
			t.Error(err)
		}
	})
	store, err := NewStore(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	b := &bench{t: t, runner: runner, Options: Options{Root: t.TempDir(), Store: store, Out: out}}
	b.write(".gitignore", "/out/\n")
	for name, content := range map[string]string{
		"m/go.mod": "module lva.io/operators/m\n", "m/go.sum": "", "labs.yaml": "- one\n",
		"m/a/a.go":       "package a\n\nimport _ \"lva.io/operators/m/b\"\n",
		"m/a/a_test.go":  "package a\n\nimport _ \"lva.io/operators/m/c\"\n",
		"m/b/b.go":       "package b\n",
		"m/b/b_test.go":  "package b\n\nimport _ \"lva.io/operators/m/d\"\n",
		"m/b/page/b.css": "b\n", "m/c/c.go": "package c\n", "m/d/d.go": "package d\n", "docs/README.md": "# a\n",
	} {
		b.write(name, content)
	}
	b.git("init", "-q")
	b.git("add", "-A")
	b.git("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "Begin")
	return b
}

func (b *bench) git(args ...string) {
	b.t.Helper()
	if _, err := b.runner.Run(b.t.Context(), b.Root, nil, "git", args...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) write(name, content string) {
	b.t.Helper()
	file := filepath.Join(b.Root, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		b.t.Fatal(err)
	}
}

// part adds a part that records that it ran, and then runs a line of shell.
func (b *bench) part(name, line string, in Inputs) {
	family, _, _ := strings.Cut(name, "-")
	part := Part{
		Name: name, Family: family, Proves: "it works", Inputs: in, Usual: time.Minute,
		Commands: []Command{{Args: []string{"sh", "-c", "echo " + name + " >> out/ran; " + line}}},
	}
	if strings.Contains(line, "graded") {
		part.Counts = []Count{{Unit: "submissions", Pattern: regexp.MustCompile(`(?m)^\S+: (\d+) graded`)}}
	}
	b.Parts = append(b.Parts, part)
}

// prove proves, and returns which parts ran, the output, and the error.
func (b *bench) prove(ctx context.Context) (ran, output string, err error) {
	b.t.Helper()
	if err := errors.Join(b.Out.Truncate(0), os.RemoveAll(filepath.Join(b.Root, "out"))); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.Out.Seek(0, io.SeekStart); err != nil {
		b.t.Fatal(err)
	}
	err = Prove(ctx, b.Options)
	noted, _ := os.ReadFile(filepath.Join(b.Root, "out", "ran")) // no part may have run
	text, reading := os.ReadFile(b.Out.Name())
	if reading != nil {
		b.t.Fatal(reading)
	}
	return strings.Join(strings.Fields(string(noted)), " "), string(text), err
}

func (b *bench) mustRun(want string) (output string) {
	b.t.Helper()
	ran, output, err := b.prove(b.t.Context())
	if err != nil || ran != want {
		b.t.Fatalf("got %q run, want %q; error %v:\n%s", ran, want, err, output)
	}
	return output
}

func (b *bench) record(name string) *Record {
	b.t.Helper()
	record, err := b.Store.Read(name)
	if err != nil || record == nil {
		b.t.Fatalf("the record of %s: %v, %v", name, record, err)
	}
	return record
}

func TestChangedInputsRunPartAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("cheap", "echo 02-reconciler: 40 graded, 3 s; echo 03-finalizer: 8 graded, 1 s",
		Inputs{Packages: []string{"m/a"}})
	b.part("dear", "true", Inputs{Files: []string{"labs.yaml"}})
	b.Parts[1].Usual = time.Hour
	output := b.mustRun("cheap dear")
	if !regexp.MustCompile(`cheap: proven in \d+ s: 48 submissions\n`).MatchString(output) ||
		!strings.Contains(output, "2 parts were proven now, and 0 before.") {
		t.Errorf("got output\n%s", output)
	}
	for _, step := range []struct{ file, content, want string }{
		{"docs/README.md", "# b\n", ""},
		{"m/d/d.go", "package d // b\n", ""},
		{"m/b/b_test.go", "package b\n", ""},
		{"m/new.go", "package m\n", ""},
		{Page, "# other\n", ""},
		{"labs.yaml", "- two\n", "dear"},
		{"m/b/b.go", "package b // a comment is no code\n", ""},
		{"m/b/b.go", "package b\n\nvar b int\n", "cheap"},
		{"m/b/page/b.css", "c\n", "cheap"},
		{"m/c/c.go", "package c\n\n//go:generate b\n", "cheap"},
		{"m/a/testdata/new.txt", "b\n", "cheap"},
		{"m/go.sum", "b\n", "cheap"},
		{"m/go.sum", "", "cheap"},
	} {
		b.write(step.file, step.content)
		b.mustRun(step.want)
		b.mustRun("")
	}
	b.Parts[1].Inputs.Values = []string{"another entry"}
	b.mustRun("dear")
	b.All = true
	// The proof of cheap is the older one.
	b.mustRun("cheap dear")
}

// The record of each part has the reason of its failure, which the output does not show.
func TestUnprovenParts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what, line string
		change     func(*bench, *Part)
		want       string
	}{
		{"nothing is counted", "echo 02-reconciler: 0 graded; echo at the end", nil, "its output counts no submissions: "},
		{
			"the expected output is missing", "echo a network", func(_ *bench, p *Part) {
				p.Shows = &Sign{Pattern: regexp.MustCompile("no network"), Missing: "it has a network"}
			}, "it has a network\n",
		},
		{"a part of the commit, with a changed work tree", "true", func(b *bench, p *Part) {
			p.Committed = true
			b.write("m/d/d.go", "package d // b\n")
		}, "it tests the commit, and the work tree differs from it: commit first"},
		{"a part of the commit, with a new file in the work tree", "true", func(b *bench, p *Part) {
			p.Committed = true
			b.write("new", "")
		}, "it tests the commit, and the work tree differs from it: commit first"},
		{
			"it takes too long", "echo begins; exec sleep 600",
			func(b *bench, _ *Part) { b.limit = 10 * time.Second }, "timed out after 10 s\n",
		},
		{
			"a program is missing", "true",
			func(_ *bench, p *Part) { p.Commands = []Command{{Args: []string{"no-such"}}} },
			"no-such is needed and not on PATH",
		},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.part("part", test.line, Inputs{})
			b.part("other", "true", Inputs{})
			if test.change != nil {
				test.change(b, &b.Parts[0])
			}
			_, output, err := b.prove(t.Context())
			if r := b.record("part"); err == nil || r.Result != Failed ||
				!strings.HasPrefix(r.Reason, test.want) || r.LastProven != nil {
				t.Errorf("got error %v, record %+v", err, r)
			}
			if r := b.record("other"); r.Result != Proven {
				t.Errorf("record of the other part = %+v:\n%s", r, output)
			}
		})
	}
}

// The proof's own page never counts, because each part changes it.
func TestChangedPageDoesNotBlockClone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("part", "true", Inputs{})
	b.Parts[0].Committed = true
	b.write(Page, "# other\n")
	b.mustRun("part")
}

// A checkout includes the records of the machines on which its commits were proven.
func TestProofsOfOtherMachinesAreKnown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("part", "[ ! -e broken ]", Inputs{Files: []string{"labs.yaml"}})
	b.part("other", "true", Inputs{Files: []string{"labs.yaml"}})
	b.mustRun("part other")
	local := b.Store
	var err error
	if b.Store, err = NewStore(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if err := b.Store.readPublished(b.Root); err != nil {
		t.Fatal(err)
	}
	b.mustRun("")
	b.write("labs.yaml", "- two\n")
	b.write("broken", "")
	b.Names = []string{"part"}
	if ran, _, err := b.prove(t.Context()); ran != "part" || err == nil {
		t.Fatalf("got %q run, error %v", ran, err)
	}
	if r := b.record("part"); r.Result != Failed || r.LastProven == nil {
		t.Errorf("the other machine's proof is lost: %+v", r)
	}
	// Back on the first machine, the failure is the latest record.
	if err := local.readPublished(b.Root); err != nil {
		t.Fatal(err)
	}
	b.Store = local
	if r := b.record("part"); r.Result != Failed {
		t.Errorf("got record %+v", r)
	}
	if r := b.record("other"); r.Result != Proven {
		t.Errorf("the page has lost a part: %+v", r)
	}
	b.write(Records, "{")
	if err := local.readPublished(b.Root); err == nil || !strings.Contains(err.Error(), "docs/proof.json") {
		t.Errorf("readPublished() error = %v", err)
	}
}

// Hours after the first part, the checkout may have changed.
func TestPartsAreReloaded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("first", "echo changed > labs.yaml", Inputs{})
	b.part("second", "true", Inputs{Files: []string{"labs.yaml"}})
	b.Parts[1].Usual = time.Hour
	b.mustRun("first second")
	b.mustRun("")
	b.write("labs.yaml", "- one\n")
	b.mustRun("second")
	// second is proven when the proof begins, and first makes it stale.
	b.Parts[0].Inputs.Values = []string{"again"}
	b.mustRun("first second")
	changed := slices.Clone(b.Parts)
	b.Reload = func() ([]Part, error) {
		if content, err := os.ReadFile(filepath.Join(b.Root, "labs.yaml")); err != nil || string(content) != "three\n" {
			return changed, err
		}
		return nil, errors.New("the command is old")
	}
	b.part("third", "echo three > labs.yaml", Inputs{})
	changed = b.Parts
	if ran, _, err := b.prove(t.Context()); ran != "third" || err == nil || err.Error() != "the command is old" {
		t.Errorf("got %q run, error %v", ran, err)
	}
	if r := b.record("third"); r.Result != Interrupted || r.Reason != "after it ended: the command is old" {
		t.Errorf("got record %+v", r)
	}
}

// The commands of a part also decide its result.
func TestChangedCommandIsNotProven(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("part", "true", Inputs{})
	b.mustRun("part")
	b.Parts[0].Commands[0].Env = []string{"OPERATOR_LABS_BROWSER=required"}
	b.mustRun("part")
	b.Parts[0].Commands[0].Args[2] += "; true"
	b.mustRun("part")
	b.mustRun("")
}

func TestPage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("never", "true", Inputs{})
	b.part("passes", "echo 02-reconciler: 40 graded, 3 s", Inputs{Files: []string{"labs.yaml"}})
	b.part("fails", `printf '\033[31merror\033[0m: %s/x.go:3: /usr/lib/other.go: no such file\n' "$PWD"; exit 1`, Inputs{})
	b.Names = []string{"passes", "fails"}
	if _, _, err := b.prove(t.Context()); err == nil {
		t.Fatal("Prove() succeeded, want an error")
	}
	b.write("labs.yaml", "- two\n")
	b.Names = []string{"fails"}
	if _, _, err := b.prove(t.Context()); err == nil {
		t.Fatal("Prove() succeeded, want an error")
	}
	content, err := os.ReadFile(filepath.Join(b.Root, filepath.FromSlash(Page)))
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`[0-9a-f]{12}(\+changes)?`).ReplaceAllString(string(content), "COMMIT$1")
	got = regexp.MustCompile(`20\d\d-\d\d-\d\d \d\d:\d\d \| \d s`).ReplaceAllString(got, "DATE | TIME")
	got = strings.ReplaceAll(got, machine(), "MACHINE")
	want, err := os.ReadFile(filepath.Join("testdata", "page.md"))
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got page\n%s", got)
	}
}
