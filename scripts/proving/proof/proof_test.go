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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lva.io/operators/scripts/checkout"
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

// part adds one that notes that it ran, and then runs a line of shell.
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

// prove proves, and returns which parts ran, what was said, and the error.
func (b *bench) prove(ctx context.Context) (ran, said string, err error) {
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

func (b *bench) mustRun(want string) (said string) {
	b.t.Helper()
	ran, said, err := b.prove(b.t.Context())
	if err != nil || ran != want {
		b.t.Fatalf("%q ran and not %q, and the error is %v:\n%s", ran, want, err, said)
	}
	return said
}

func (b *bench) record(name string) *Record {
	b.t.Helper()
	record, err := b.Store.Read(name)
	if err != nil || record == nil {
		b.t.Fatalf("the record of %s: %v, %v", name, record, err)
	}
	return record
}

func TestWhatIsProvenRunsAgainWhenItsInputsChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("cheap", "echo 02-reconciler: 40 graded, 3 s; echo 03-finalizer: 8 graded, 1 s", Inputs{Packages: []string{"m/a"}})
	b.part("dear", "true", Inputs{Files: []string{"labs.yaml"}})
	b.Parts[1].Usual = time.Hour
	said := b.mustRun("cheap dear")
	if !regexp.MustCompile(`cheap: proven in \d+ s: 48 submissions\n`).MatchString(said) ||
		!strings.Contains(said, "2 parts were proven now, and 0 before.") {
		t.Errorf("it says\n%s", said)
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
func TestWhatProvesNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what, line string
		with       func(*bench, *Part)
		want       string
	}{
		{"nothing is counted", "echo 02-reconciler: 0 graded; echo at the end", nil, "its output counts no submissions: "},
		{
			"the sign is missing", "echo a network", func(_ *bench, p *Part) {
				p.Shows = &Sign{Pattern: regexp.MustCompile("no network"), Missing: "it has a network"}
			}, "it has a network\n",
		},
		{"it tries a clone, and the work tree differs", "true", func(b *bench, p *Part) {
			p.Committed = true
			b.write("m/d/d.go", "package d // b\n")
		}, "it tries what is committed, and the work tree differs from that: commit first"},
		{"it tries a clone, and the work tree has a new file", "true", func(b *bench, p *Part) {
			p.Committed = true
			b.write("new", "")
		}, "it tries what is committed, and the work tree differs from that: commit first"},
		{"it takes long", "echo begins; exec sleep 600", func(b *bench, _ *Part) { b.limit = 10 * time.Second }, "it was not done after 10 s\n"},
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
			if test.with != nil {
				test.with(b, &b.Parts[0])
			}
			_, said, err := b.prove(t.Context())
			if r := b.record("part"); err == nil || r.Result != Failed || !strings.HasPrefix(r.Reason, test.want) || r.LastProven != nil {
				t.Errorf("the error is %v, and the record %+v", err, r)
			}
			if r := b.record("other"); r.Result != Proven {
				t.Errorf("the record of the other is %+v:\n%s", r, said)
			}
		})
	}
}

// The proof's own page never counts, because each part changes it.
func TestACloneIsTriedWithAnotherPage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("part", "true", Inputs{})
	b.Parts[0].Committed = true
	b.write(Page, "# other\n")
	b.mustRun("part")
}

// A checkout includes the records of the machines on which its commits were proven.
func TestWhatAnotherMachineHasProvenIsKnown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("part", "[ ! -e broken ]", Inputs{Files: []string{"labs.yaml"}})
	b.part("other", "true", Inputs{Files: []string{"labs.yaml"}})
	b.mustRun("part other")
	here := b.Store
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
		t.Fatalf("%q ran, and the error is %v", ran, err)
	}
	if r := b.record("part"); r.Result != Failed || r.LastProven == nil {
		t.Errorf("the other machine's proof is forgotten: %+v", r)
	}
	// Back on the first machine, the failure is the latest record.
	if err := here.readPublished(b.Root); err != nil {
		t.Fatal(err)
	}
	b.Store = here
	if r := b.record("part"); r.Result != Failed {
		t.Errorf("the record is %+v", r)
	}
	if r := b.record("other"); r.Result != Proven {
		t.Errorf("the page has lost a part: %+v", r)
	}
	b.write(Records, "{")
	if err := here.readPublished(b.Root); err == nil || !strings.Contains(err.Error(), "docs/proof.json") {
		t.Errorf("the error is %v", err)
	}
}

// Hours after the first part, the checkout may have changed.
func TestThePartsAreReadAgain(t *testing.T) {
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
		t.Errorf("%q ran, and the error is %v", ran, err)
	}
	if r := b.record("third"); r.Result != Interrupted || r.Reason != "after it ended: the command is old" {
		t.Errorf("the record is %+v", r)
	}
}

// The commands of a part also decide its result.
func TestAnotherCommandIsNotProven(t *testing.T) {
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

func TestTheOldestProofIsFirst(t *testing.T) {
	t.Parallel()
	at := func(name string, usual time.Duration, proven int) State {
		s := State{Part: Part{Name: name, Usual: usual}}
		if proven > 0 {
			s.Record = &Record{LastProven: &Run{Date: time.Date(2026, 11, proven, 0, 0, 0, 0, time.UTC), Seconds: 1}}
		}
		return s
	}
	states := []State{
		at("new", time.Hour, 20), at("old", time.Hour, 10), at("dear", time.Hour, 0), at("cheap", time.Minute, 0),
		{Part: Part{Name: "failed", Usual: time.Second}, Record: &Record{Result: Failed}},
	}
	order(states)
	var names []string
	for _, s := range states {
		names = append(names, s.Part.Name)
	}
	if want := []string{"failed", "cheap", "dear", "old", "new"}; !slices.Equal(names, want) {
		t.Errorf("the order is %v, want %v", names, want)
	}
}

func TestAPartThatFailsDoesNotKeepTheOthersFromRunning(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("first", "echo 02-reconciler: 3 graded, 1 s; seq 100; echo the reason; exit 3", Inputs{})
	b.part("second", "true", Inputs{})
	ran, said, err := b.prove(t.Context())
	if ran != "first second" || err == nil || !strings.Contains(err.Error(), "one part is not proven, and its log is in out/proof: first") {
		t.Errorf("%q ran, and the error is %v", ran, err)
	}
	if !strings.Contains(said, "\n    the reason\n") || !strings.Contains(said, "    63\n") || strings.Contains(said, "    61\n") {
		t.Errorf("it must print the last 40 lines:\n%s", said)
	}
	if r := b.record("first"); r.Result != Failed || r.Proved != "" || !strings.HasSuffix(r.Reason, "100\nthe reason") || r.LastProven != nil {
		t.Errorf("the record is %+v", r)
	}
	// What failed runs again, though nothing has changed.
	if ran, _, _ := b.prove(t.Context()); ran != "first" {
		t.Errorf("%q ran", ran)
	}
}

func TestAnInterruptedPartIsNotProven(t *testing.T) {
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
		t.Errorf("%q ran, and the error is %v", ran, err)
	}
	if r := b.record("at-hand"); r.Result != Interrupted || r.LastProven == nil {
		t.Errorf("the record is %+v", r)
	}
	if err := os.Remove(filepath.Join(b.Root, "wait")); err != nil {
		t.Fatal(err)
	}
	b.All = false
	b.mustRun("at-hand")
}

// A proof that is killed has already written the record of an interrupted run, before its part began.
func TestAKilledProofClaimsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("at-hand", `grep -q interrupted "`+b.Store.file("at-hand")+`"`, Inputs{})
	b.mustRun("at-hand")
	b.part("changing", "echo changed > labs.yaml", Inputs{Files: []string{"labs.yaml"}})
	if _, _, err := b.prove(t.Context()); err == nil || b.record("changing").Result != Interrupted {
		t.Errorf("what decides the part has changed while it ran, the record is %+v and the error %v", b.record("changing"), err)
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
	if err := Prove(t.Context(), inner); err == nil || !strings.Contains(err.Error(), "another proof runs on this machine") {
		t.Errorf("the error is %v", err)
	}
	if err := file.Close(); err != nil { // as the kernel does it for a process that was killed
		t.Fatal(err)
	}
	b.mustRun("outer")
}

func TestWhatDoesNotFitIsNotStarted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("short", "true", Inputs{})
	b.part("long", "true", Inputs{})
	b.Parts[1].Usual = time.Hour
	b.Within = 30 * time.Minute
	said := b.mustRun("short")
	if !strings.Contains(said, "There was no time for 1 part (30m0s were allowed): long.\n") {
		t.Errorf("it says\n%s", said)
	}
	b.Within = 0
	b.mustRun("long")
	// Now it is known that it takes no hour.
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
	const want = `the proof has no part "certfy": there are certify, kind, and ` + "`lab prove --list` shows the parts of each"
	if _, _, err := b.prove(t.Context()); err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	b.Names = []string{"kind", "certify-02"}
	b.mustRun("certify-02 kind")
	b.Names = []string{"certify"}
	b.mustRun("certify-01")
	b.Names = nil
	if got := shortened(b.Parts, b.Parts[:2]); !slices.Equal(got, []string{"certify"}) {
		t.Errorf("a whole family is called %v", got)
	}
	if got := shortened(b.Parts, b.Parts[1:]); !slices.Equal(got, []string{"certify-02", "kind"}) {
		t.Errorf("one of a family is called %v", got)
	}
}

func TestThePage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.part("never", "true", Inputs{})
	b.part("passes", "echo 02-reconciler: 40 graded, 3 s", Inputs{Files: []string{"labs.yaml"}})
	b.part("fails", `printf '\033[31merror\033[0m: %s/x.go:3: /usr/lib/other.go: no such file\n' "$PWD"; exit 1`, Inputs{})
	b.Names = []string{"passes", "fails"}
	if _, _, err := b.prove(t.Context()); err == nil {
		t.Fatal("the proof must fail")
	}
	b.write("labs.yaml", "- two\n")
	b.Names = []string{"fails"}
	if _, _, err := b.prove(t.Context()); err == nil {
		t.Fatal("the proof must fail")
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
		t.Errorf("the page is\n%s", got)
	}
}

func TestThePartsOfThisCheckout(t *testing.T) {
	t.Parallel()
	here, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Parts(here)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := ReadTree(t.Context(), newBench(t).runner, here.Root)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, part := range parts {
		if seen[part.Name] || part.Proves == "" || part.Usual <= 0 || part.Usual > 30*time.Minute || len(part.Commands) == 0 {
			t.Errorf("the part is %+v", part)
		}
		seen[part.Name] = true
		if _, err := tree.Hash(part.Inputs); err != nil {
			t.Errorf("%s: %v", part.Name, err)
		}
	}
	for _, family := range []string{
		"certify", "torture", "mutate", "soak", "stalled", "conformance", "unit",
		"kind", "air-gap", "fresh", "browser", "pages", "lint", "bench",
	} {
		if _, err := choose(parts, []string{family}); err != nil {
			t.Error(err)
		}
	}
}

// A part that names labs or modules names those that there are, each once.
// What is certified is graded again when code changes that can change a grade, and for no other change.
func TestTheHarness(t *testing.T) {
	t.Parallel()
	here, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	runner, err := command.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	tree, err := ReadTree(t.Context(), runner, here.Root)
	if err != nil {
		t.Fatal(err)
	}
	lab, err := here.Labs.Lab("2")
	if err != nil {
		t.Fatal(err)
	}
	before, err := tree.harness(lab)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"scripts/grading/grade/grade.go": true, "scripts/grading/faults/doc.go": true,
		"scripts/grading/stage/pod/pod.go": true, "clusters/process/scope.go": true,
		"scripts/cmd/lab/grade.go": true, "scripts/go.sum": true, "clusters/go.mod": true, "scripts/authoring/certify/certify.go": true,
		"scripts/proving/gate/gate.go": false, "scripts/proving/proof/parts.go": false,
		"scripts/cmd/lab/verify.go": false, "scripts/grading/grade/grade_test.go": false,
		"docs/README.md": false, "scripts/authoring/docs/code.go": false,
		"scripts/checks/02-reconciler/places_test.go": true, "scripts/checks/03-finalizer/taking_test.go": false,
	} {
		digest, known := tree.codes[name]
		if !known {
			t.Errorf("%s is not in the checkout: name another file", name)
		}
		tree.codes[name] = "changed"
		if after, err := tree.harness(lab); err != nil || (after != before) != want {
			t.Errorf("a change of %s is another harness: %t, %v", name, after != before, err)
		}
		tree.codes[name] = digest
	}
}

func TestNothingIsLeftOut(t *testing.T) {
	t.Parallel()
	here, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Parts(here)
	if err != nil {
		t.Fatal(err)
	}
	commands := func(names ...string) (all []string) {
		for _, part := range parts {
			if slices.Contains(names, part.Name) {
				all = append(all, part.Commands[0].Args...)
			}
		}
		return strings.FieldsFunc(strings.Join(all, " "), func(r rune) bool { return r == ' ' || r == ',' })
	}
	kind := commands("kind-a", "kind-b")
	for _, lab := range here.Labs.Labs {
		if n := strconv.Itoa(lab.Number); len(slices.DeleteFunc(slices.Clone(kind), func(word string) bool { return word != n })) != 1 {
			t.Errorf("lab %s is not once in %v", n, kind)
		}
	}
	if got := strings.Join(commands("kind-repeat"), " "); got != "make e2e-kind FLAGS=--labs 8 9 --times 10" {
		t.Errorf("the command is %s", got)
	}
	clusters := commands("unit-clusters")
	for _, module := range []string{"clusters", "clusters/images/programs/ingress", "clusters/images/programs/shell"} {
		if !slices.Contains(clusters, module) {
			t.Errorf("%s is not in %v", module, clusters)
		}
	}
	for _, part := range parts {
		if part.Family == "unit" && !slices.Contains(part.Commands[0].Env, "OPERATOR_LABS_NAMESPACES=required") {
			t.Errorf("%s may skip tests: %v", part.Name, part.Commands[0])
		}
	}
}

// What the commands print, as their own tests expect it.
func TestWhatPartsCount(t *testing.T) {
	t.Parallel()
	here, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Parts(here)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ part, output, proved, failure string }{
		{"certify-02", "02-reconciler: 40 graded, 3.1 s\n", "40 submissions", ""},
		{
			"torture-02",
			"\n02-reconciler survives: a good day, each single crash at a write, and random schedules, 41 in all (seed 4711).\n",
			"41 schedules", "",
		},
		{"mutate-02", "02-reconciler: 34 mutants: 18 found (81.8 % of the 22 that are wrong)\n", "34 mutants", ""},
		{"conformance-node", "38 of 39 passed, 1 failed\n", "38 tests", ""},
		{
			"unit-clusters",
			"clusters: 40 tests passed, 0 failed, 1 were left out\n" +
				"clusters/images/programs/shell: 2 tests passed, 0 failed, 0 were left out\n",
			"42 tests", "",
		},
		{"unit-clusters", "clusters: 0 tests passed, 0 failed, 40 were left out\n", "", "its output counts no tests"},
		{"kind-a", "ok       9.1 s  make the student cluster\nok     110.2 s  prove the network\n", "2 steps", ""},
		{
			"air-gap", "The machine is a Debian root (bookworm) with this machine's Go. It has no network. It was there after 9s.\n" +
				"--- make lab-1: as it must be, after 40s\n", "1 step", "",
		},
		{
			"air-gap", "The machine is this one, for a user who has an empty home. It is no Debian root " +
				"(only root may make one), so a program that is missing elsewhere may be found here. It was there after 0s.\n" +
				"--- make lab-1: as it must be, after 40s\n",
			"1 step", "it ran on the machine itself, whose network",
		},
	} {
		i := slices.IndexFunc(parts, func(p Part) bool { return p.Name == test.part })
		if i < 0 {
			t.Errorf("there is no part %s", test.part)
			continue
		}
		if got := parts[i].counted(test.output); got != test.proved {
			t.Errorf("%s counts %q, want %q", test.part, got, test.proved)
		}
		if err := parts[i].check(test.output); (err == nil) != (test.failure == "") ||
			err != nil && !strings.HasPrefix(err.Error(), test.failure) {
			t.Errorf("%s: the failure is %v, want %q", test.part, err, test.failure)
		}
	}
}
