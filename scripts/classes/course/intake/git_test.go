// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// repo is a repository of a student.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T, dir string) *repo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := &repo{t, dir}
	r.git("", "init", "--quiet", "--initial-branch=main")
	return r
}

func (r *repo) git(at string, args ...string) string {
	r.t.Helper()
	command := exec.CommandContext(r.t.Context(), "git", append([]string{
		"-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always",
	}, args...)...)
	command.Dir = r.dir
	command.Env = append(os.Environ(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_COMMITTER_DATE="+at, "GIT_AUTHOR_DATE="+at)
	output, err := command.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, output)
	}
	return strings.TrimSpace(string(output))
}

// commit commits files with the given time, and returns the hash of the commit.
func (r *repo) commit(at string, content files) string {
	r.t.Helper()
	content.write(r.t, r.dir)
	r.git(at, "add", "--all")
	r.git(at, "commit", "--quiet", "--allow-empty", "-m", "work")
	return r.git("", "rev-parse", "HEAD")
}

// readRosterOf writes a roster next to the repositories and reads it.
func readRosterOf(t *testing.T, dir string, o Options, lines ...string) []Submission {
	t.Helper()
	file := filepath.Join(dir, "roster.csv")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Course, o.Source, o.Work = course, file, filepath.Join(t.TempDir(), "work")
	if o.Labs == nil {
		o.Labs = []Lab{lab2}
	}
	all, err := Read(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRepositories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRepo(t, filepath.Join(dir, "ada"))
	first := r.commit("2026-10-20T10:00:00Z", labFiles("labs/02-reconciler/", "x"))
	second := r.commit("2026-10-25T22:59:59Z", files{"labs/02-reconciler/second.go": "package x\n"})
	third := r.commit("2026-10-25T23:00:00Z", files{"labs/02-reconciler/third.go": "package x\n"})
	r.git("", "checkout", "--quiet", "-b", "other", first)
	branch := r.commit("2026-10-30T10:00:00Z", files{"labs/02-reconciler/branch.go": "package x\n"})
	r.git("", "checkout", "--quiet", "main")
	newRepo(t, filepath.Join(dir, "empty"))
	for _, test := range []struct {
		commit, want string
		late         bool
	}{
		{first, first, false},
		{first[:8], first, false},
		{strings.ToUpper(second), second, false},
		{branch, branch, false},
		{"2026-10-25 23:59 Europe/Berlin", second, false},
		{"2026-10-25T23:00:00Z", third, false},
		{"2026-10-22T12:00:00+02:00", first, false},
	} {
		all := readRosterOf(t, dir, Options{}, "student,source,commit",
			fmt.Sprintf("ada,file://%s,%s", r.dir, test.commit), fmt.Sprintf("bob,ada,%s", test.commit))
		if len(all) != 2 {
			t.Fatalf("%s: the submissions are %+v", test.commit, all)
		}
		for _, s := range all {
			if s.Problem != "" || !strings.HasSuffix(s.From, "@"+test.want[:12]) ||
				s.Submitted.IsZero() || !strings.HasSuffix(s.Dir, "/labs/02-reconciler") {
				t.Errorf("%s: the submission is %+v, want the commit %s", test.commit, s, test.want)
			}
		}
	}
	for commit, want := range map[string]string{
		"2026-10-01T00:00:00Z":                     "the repository has no commit before 2026-10-01T00:00:00Z",
		"0123456789abcdef0123456789abcdef01234567": "the repository has no commit 0123456789abcdef",
		"abcdef0": "the repository has no commit abcdef0 on its branches",
	} {
		if all := readRosterOf(t, dir, Options{}, "student,source,commit", "ada,ada,"+commit); len(all) != 1 ||
			!strings.HasPrefix(all[0].Problem, want) {
			t.Errorf("%s: the submissions are %+v, want %q", commit, all, want)
		}
	}
	all := readRosterOf(
		t, dir, Options{}, "ada,file://"+filepath.Join(dir, "empty"), "bob,file://"+filepath.Join(dir, "missing.git"),
	)
	if len(all) != 2 || !strings.HasPrefix(all[0].Problem, "the repository has no commits") ||
		!strings.HasPrefix(all[1].Problem, "git fetch failed (") {
		t.Errorf("Read() = %+v", all)
	}
}

// TestAttemptsOfARepository checks that without a commit in the roster, the last commit before the deadline and the
// newest one are attempts.
func TestAttemptsOfARepository(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRepo(t, filepath.Join(dir, "ada.git"))
	first := r.commit("2026-10-20T10:00:00Z", labFiles("", "x"))
	second := r.commit("2026-10-26T10:00:00Z", files{"second.go": "package x\n"})
	due := func(day int) func(string, string) time.Time {
		return func(student, lab string) time.Time {
			if student != "ada" || lab != "02-reconciler" {
				t.Errorf("asked for the deadline of %s and %s", student, lab)
			}
			if day == 0 {
				return time.Time{}
			}
			return time.Date(2026, 10, day, 0, 0, 0, 0, time.UTC)
		}
	}
	for day, want := range map[int][]string{0: {second}, 25: {first, second}, 28: {second}, 1: {second}} {
		all := readRosterOf(t, dir, Options{Deadline: due(day)}, "ada,ada.git")
		var got []string
		for i, s := range all {
			got = append(got, strings.TrimPrefix(s.From, "ada.git@"))
			if s.Attempt != i+1 || s.Problem != "" {
				t.Errorf("submission = %+v", s)
			}
		}
		for i := range want {
			want[i] = want[i][:12]
		}
		if !slices.Equal(got, want) {
			t.Errorf("due on %d: the attempts are %q, want %q", day, got, want)
		}
	}
}

// TestHostileRepositories checks that no code of a repository is run. Its files are neither fetched from elsewhere, nor
// left out, nor replaced.
func TestHostileRepositories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mark := filepath.Join(dir, "mark")
	other := newRepo(t, filepath.Join(dir, "other"))
	other.commit("2026-10-20T10:00:00Z", files{"secret": "x"})
	r := newRepo(t, filepath.Join(dir, "ada"))
	r.git("", "submodule", "--quiet", "add", "--", "../other", "sub")
	if err := os.Symlink("go.mod", filepath.Join(dir, "ada", "link")); err != nil {
		t.Fatal(err)
	}
	r.commit("2026-10-20T10:00:00Z", join(labFiles("", "x"), files{
		".gitattributes": "* filter=evil\nhidden.go export-ignore\nsubst.go export-subst\n" +
			"crlf.go text eol=crlf\nlfs.bin filter=lfs diff=lfs merge=lfs -text\n",
		"hidden.go": "package x\n", "subst.go": "package x // $Format:%H$\n",
		"crlf.go": "package x\n", ".lfsconfig": "[lfs]\nurl = file:///\n",
		"lfs.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:0000\nsize 1\n",
	}))
	for _, hook := range []string{"post-checkout", "reference-transaction", "post-upload-pack", "pre-receive"} {
		script := "#!/bin/sh\ntouch " + mark + "\n"
		if err := os.WriteFile(filepath.Join(r.dir, ".git", "hooks", hook), []byte(script), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	r.git("", "config", "filter.evil.smudge", "touch "+mark)
	r.git("", "config", "uploadpack.packObjectsHook", "touch "+mark+";")
	all := readRosterOf(t, dir, Options{}, "ada,file://"+r.dir)
	if len(all) != 1 || all[0].Problem != "" {
		t.Fatalf("Read() = %+v", all)
	}
	for name, want := range map[string]string{
		"hidden.go": "package x\n", "subst.go": "package x // $Format:%H$\n",
		"crlf.go": "package x\n", "link": "module x\n\ngo 1.26.0\n",
	} {
		if got, err := os.ReadFile(filepath.Join(all[0].Dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(all[0].Dir, "sub")); err == nil && len(entries) > 0 {
		t.Errorf("the submodule's folder has %v", entries)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("code of the repository was run")
	}
}

func TestLimitsOfARepository(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRepo(t, filepath.Join(dir, "ada"))
	large := make([]byte, 3<<20)
	if _, err := rand.Read(large); err != nil {
		t.Fatal(err)
	}
	r.commit("2026-10-20T10:00:00Z", join(labFiles("", "x"), files{"large.bin": string(large)}))
	for _, test := range []struct {
		name   string
		change func(*Limits)
		want   string
	}{
		{"fetched", func(l *Limits) { l.Repository = 1 << 20 }, "the repository is larger than 1 MB"},
		{"unpacked", func(l *Limits) { l.File = 1 << 20 }, "large.bin in the archive has more than 1 MB"},
		{"files", func(l *Limits) { l.Files = 2 }, "there are too many files in the archive"},
		{"time", func(l *Limits) { l.Git = time.Nanosecond }, "git init took longer than 1ns"},
		{"none of them", func(*Limits) {}, ""},
	} {
		limits := DefaultLimits()
		test.change(&limits)
		all := readRosterOf(t, dir, Options{Limits: limits}, "ada,file://"+r.dir)
		if len(all) != 1 || !strings.HasPrefix(all[0].Problem, test.want) || (all[0].Problem == "") != (test.want == "") {
			t.Errorf("%s: the submissions are %+v, want %q", test.name, all, test.want)
		}
	}
}

// TestSeveralLabsOfARepository checks that one repository with several labs is fetched once, and gives a submission to
// each.
func TestSeveralLabsOfARepository(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRepo(t, filepath.Join(dir, "ada"))
	r.commit("2026-10-20T10:00:00Z", join(labFiles("labs/01-icecream/", "x"), labFiles("labs/02-reconciler/", "y")))
	r.git("", "clone", "--quiet", "--bare", ".", filepath.Join(dir, "bare"))
	all := readRosterOf(t, dir, Options{Labs: course}, "student,source,lab", "ada,bare,", "bob,bare,1", "carol,bare,11")
	wantLines(t, short(all, dir), []string{
		"ada 01-icecream 1: in 01-icecream", "ada 02-reconciler 1: in 02-reconciler", "bob 01-icecream 1: in 01-icecream",
		"carol 11-workspace 1: none of its Go modules is that of lab 11 (11-workspace)",
	})
}

// TestGitEnvironmentAndProblem checks that Git ignores the environment of the user who grades, and shows no password.
func TestGitEnvironmentAndProblem(t *testing.T) {
	t.Setenv("GIT_DIR", "/nowhere")
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_SSH_COMMAND", "ssh -i key")
	env := gitEnvironment("fetch")
	for _, want := range []string{
		"GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=https:ssh:file", "GIT_SSH_COMMAND=ssh -i key",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	for _, variable := range slices.Concat(env, gitEnvironment("archive")) {
		if strings.HasPrefix(variable, "GIT_DIR=") || strings.HasPrefix(variable, "GIT_CONFIG_COUNT=") {
			t.Errorf("git's environment has %s", variable)
		}
	}
	problem := gitProblem("fetch",
		"remote: x\nfatal: unable to access 'https://user:secret@example.org/x/': no\x1b[2J route.\n",
		errors.New("exit status 128")).Error()
	if strings.Contains(problem, "secret") || strings.Contains(problem, "\x1b") ||
		!strings.Contains(problem, "unable to access 'https://example.org/x/'") {
		t.Errorf("gitProblem() = %q", problem)
	}
}
