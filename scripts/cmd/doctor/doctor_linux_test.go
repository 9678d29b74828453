// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dustin/go-humanize/english"

	"lva.io/operators/clusters/openfiles"
	"lva.io/operators/scripts/checkout/manifest"
)

// isDoctor is the variable that makes this test binary the command.
const isDoctor = "OPERATOR_LABS_TEST_IS_DOCTOR"

func TestMain(m *testing.M) {
	if name := os.Getenv(filterVariable); name != "" {
		fmt.Fprintln(os.Stderr, restartFiltered(name))
		os.Exit(2)
	}
	if os.Getenv(isDoctor) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// examined returns the output of the command on a machine that a line of shell has prepared, without the paths of this
// machine. $0 is the command, $1 an empty folder.
func examined(t *testing.T, prepare string) (printed string, code int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	c := exec.CommandContext(
		t.Context(), "unshare", "--user", "--map-root-user", "--mount", "sh", "-c", prepare, program, empty,
	)
	c.Dir, c.Env = root, append(os.Environ(), isDoctor+"=1")
	out, err := c.CombinedOutput()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		code = failed.ExitCode()
	} else if err != nil {
		t.Skipf("unshare of util-linux is needed: %v", err)
	}
	if !strings.Contains(string(out), "user namespaces") {
		if os.Getenv("OPERATOR_LABS_NAMESPACES") != "required" {
			t.Skipf("no user namespace can be made here, see CI, which sets OPERATOR_LABS_NAMESPACES=required: %s", out)
		}
		t.Fatalf("got output %q: %v", out, err)
	}
	return strings.NewReplacer(root, "CLONE", empty, "FOLDER").Replace(string(out)), code
}

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// Each golden file is the output of the command on such a machine. The test compares only the lines that the
// preparation decides, without numbers. All other lines depend on the machine that runs the test.
func TestMachines(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, prepare string
		code          int
		decides       []string
	}{
		{"debian", `exec "$0"`, 0, []string{"user namespaces", "line ends", "loopback", "clone"}},
		{"no-user-namespaces", `echo 0 >/proc/sys/user/max_user_namespaces && exec "$0"`, 1, []string{"user namespaces"}},
		{"noexec-tmpdir", `mount -t tmpfs -o noexec none "$1" && TMPDIR="$1" exec "$0"`, 1, []string{"TMPDIR"}},
		{
			"tmpdir-of-1-gb-in-memory", `mount -t tmpfs -o size=1g none "$1" && TMPDIR="$1" exec "$0"`, 0,
			[]string{"TMPDIR", "TMPDIR's disk"},
		},
		{
			"tmpdir-of-500-mb", `mount -t tmpfs -o size=500m none "$1" && TMPDIR="$1" exec "$0"`, 1,
			[]string{"TMPDIR's disk"},
		},
		{"relative-tmpdir", `TMPDIR=somewhere exec "$0"`, 1, []string{"TMPDIR"}},
		{
			"no-git",
			`mkdir "$1/bin" && for tool in go make; do ln -s "$(command -v $tool)" "$1/bin"; done && PATH="$1/bin" exec "$0"`,
			1,
			[]string{"git"},
		},
		{
			"noexec-clone", `mount --bind . "$1" && mount -o remount,bind,noexec "$1" && cd "$1" && exec "$0"`, 1,
			[]string{"clone"},
		},
		{"clone-on-fat", filterVariable + `=fat exec "$0"`, 1, []string{"clone"}},
		{"no-locks", filterVariable + `=no-locks exec "$0"`, 1, []string{"clone"}},
		{"container", filterVariable + `=container exec "$0"`, 1, []string{"user namespaces"}},
		{"windows-line-ends", clone + `sed -i 's/$/\r/' Makefile && exec "$0"`, 1, []string{"line ends"}},
		{"clone-on-2-gb", clonedOn("2g"), 1, []string{"clone's disk"}},
		{"clone-on-5-gb", clonedOn("5g"), 0, []string{"clone's disk"}},
		{"no-watches", `echo 0 >/proc/sys/user/max_inotify_watches && exec "$0"`, 1, []string{"inotify's watches"}},
		{"few-open-files", fmt.Sprintf(`ulimit -n %d && exec "$0"`, openfiles.Least-1), 1, []string{"open files"}},
		{"enough-open-files", fmt.Sprintf(`ulimit -n %d && exec "$0"`, openfiles.Least), 0, []string{"open files"}},
		{"colon", clone + `mkdir a:b && mv Makefile go.work a:b && cd a:b && exec "$0"`, 1, []string{"clone"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, code := examined(t, test.prepare)
			golden := filepath.Join("testdata", test.name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil { //nolint:gosec // a golden file
					t.Fatal(err)
				}
			}
			content, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if code != test.code {
				t.Errorf("got exit code %d, want %d:\n%s", code, test.code, got)
			}
			for _, name := range test.decides {
				if got, want := linesOf(got, name), linesOf(string(content), name); got != want || want == "" {
					t.Errorf("got\n%s\nwant the lines of %s:\n%s", got, golden, want)
				}
			}
		})
	}
}

func TestHugePages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, test := range []struct {
		setting, processors string
		state               State
		found               string
	}{
		{"[always] madvise never\n", "flags\t\t: fpu hypervisor lm\n", Good, "always"},
		{"always [madvise] never\n", "flags\t\t: fpu hypervisor lm\n", Note, "madvise"},
		{"always madvise [never]\n", "flags\t\t: fpu hypervisor lm\n", Note, "never"},
		{"always [madvise] never\n", "flags\t\t: fpu lm\n", Good, "madvise"},
	} {
		setting, processors := filepath.Join(dir, "setting"), filepath.Join(dir, "processors")
		if err := errors.Join(
			os.WriteFile(setting, []byte(test.setting), 0o600),
			os.WriteFile(processors, []byte(test.processors), 0o600),
		); err != nil {
			t.Fatal(err)
		}
		if got := hugePages(setting, processors); got.State != test.state || got.Found != test.found {
			t.Errorf("hugePages() for %q and %q = %+v", test.setting, test.processors, got)
		}
	}
	if got := hugePages(filepath.Join(dir, "missing"), "/proc/cpuinfo"); got.State != Good {
		t.Errorf("hugePages() without a setting = %+v", got)
	}
}

func TestFewWatches(t *testing.T) {
	t.Parallel()
	setting := filepath.Join(t.TempDir(), "max_user_watches")
	for limit, state := range map[string]State{"8191": Note, "8192": Good} {
		if err := os.WriteFile(setting, []byte(limit+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := watches(setting); got.State != state || got.Found != limit+" for each user" {
			t.Errorf("watches() with the limit %s = %+v", limit, got)
		}
	}
}

func TestProgramsReadTheFindings(t *testing.T) {
	t.Parallel()
	printed, _ := examined(t, `exec "$0" -format json`)
	var all []Finding
	if err := json.Unmarshal([]byte(printed), &all); err != nil {
		t.Fatalf("got output %q: %v", printed, err)
	}
	want := Finding{Name: "user namespaces", State: Good, Found: "they can be created"}
	if !slices.Contains(all, want) {
		t.Errorf("got findings %+v, want them to contain %+v", all, want)
	}
}

// clonedOn is a script that runs the command in a checkout on an in-memory disk of this size.
func clonedOn(size string) string {
	return fmt.Sprintf(`mount -t tmpfs -o size=%s none "$1" && cp Makefile go.work "$1" && cd "$1" && exec "$0"`, size)
}

// clone makes something in the empty folder that looks like a checkout.
const clone = `cp Makefile go.work "$1" && cd "$1" && `

var numbers = regexp.MustCompile(`\d+(\.\d+)*`)

// linesOf returns the lines about a subject, without numbers.
func linesOf(printed, name string) (found string) {
	about := false
	for line := range strings.Lines(printed) {
		state, rest, _ := strings.Cut(line, " ")
		if state != "" {
			about = strings.HasPrefix(strings.TrimSpace(rest), name+"  ")
		}
		if about {
			found += numbers.ReplaceAllString(line, "0")
		}
	}
	return found
}

// The doctor is built before anything else, so it does not read labs.yaml.
func TestLabsThatNeedPods(t *testing.T) {
	t.Parallel()
	list, err := manifest.Load("../../..")
	if err != nil {
		t.Fatal(err)
	}
	var numbers []string
	for i := range list.Labs {
		if lab := &list.Labs[i]; lab.NeedsNode(lab.Stage) {
			numbers = append(numbers, strconv.Itoa(lab.Number))
		}
	}
	if want := "labs " + english.WordSeries(numbers, "and"); podsLabs != want {
		t.Errorf("podsLabs = %q, but labs.yaml has %q", podsLabs, want)
	}
}

// The output of go is shown, and a failing go is not reported as missing. As in make, settings for other projects are
// ignored.
func TestBrokenGo(t *testing.T) {
	for _, test := range []struct {
		name, variable, value string
		state                 State
		found                 string
	}{
		{"a wrong setting", "GOROOT", "/nowhere", Bad, "go fails: go: cannot find GOROOT directory: /nowhere"},
		{"flags for other work", "GOFLAGS", "-no-such-flag=1", Good, "go1."},
		{"another toolchain", "GOTOOLCHAIN", "go1.999.0", Good, "go1."},
		{"none", "PATH", t.TempDir(), Bad, "not found on PATH"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(test.variable, test.value)
			if got := goFound("../../.."); got.State != test.state || !strings.Contains(got.Found, test.found) {
				t.Errorf("%+v, want %s: %s", got, test.state, test.found)
			}
		})
	}
	t.Run("a damaged Go installation", func(t *testing.T) {
		bin := t.TempDir()
		const program = "#!/bin/sh\necho 'go: cannot find GOROOT directory: /nowhere' >&2\necho more >&2\nexit 2\n"
		if err := os.WriteFile(filepath.Join(bin, "go"), []byte(program), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		want := filepath.Join(bin, "go") + " fails: go: cannot find GOROOT directory: /nowhere"
		if got := goFound("../../.."); got.State != Bad || got.Found != want || strings.Contains(got.Remedy, "PATH") {
			t.Errorf("%+v, want %s", got, want)
		}
	})
}

// A clone has the line ends of Unix, even if git is set up for those of Windows.
func TestCloneForWindowsHasUnixLineEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	attributes, err := filepath.Abs("../../../.gitattributes")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "sh", "-ec", `git init -q from && cd from
		cp "$0" .gitattributes && printf 'all:\n\ttrue\n' >Makefile
		git add . && git -c user.name=a -c user.email=a@example.com commit -qm all
		git clone -q -c core.autocrlf=true . ../to`, attributes)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := lineEnds(filepath.Join(dir, "to")); got.State != Good {
		t.Errorf("lineEnds() = %+v", got)
	}
}

// Uncommitted changes stay. A file that has such line ends in git stays, too.
func TestCorrectingLineEndsKeepsWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shell := func(script string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "sh", "-ec", script)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
	}
	shell(`git init -q
		printf 'all:\n\ttrue\n' >Makefile && printf 'a\n' >'my lab.go' && printf 'b\r\n' >windows.txt && printf '\0\r\n' >picture
		git add . && git -c user.name=a -c user.email=a@example.com commit -qm all
		git config core.autocrlf true && rm Makefile 'my lab.go' && git checkout -q . && printf 'mine\r\n' >>'my lab.go'`)
	found := lineEnds(dir)
	_, command, is := strings.Cut(found.Remedy, "Run: ")
	if found.State != Bad || !is {
		t.Fatalf("lineEnds() = %+v, want a bad finding with the command", found)
	}
	shell(command)
	for name, want := range map[string]string{
		"Makefile": "all:\n\ttrue\n", "my lab.go": "a\nmine\n",
		"windows.txt": "b\r\n", "picture": "\x00\r\n",
	} {
		if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(content) != want {
			t.Errorf("%s has content %q, error %v", name, content, err)
		}
	}
	if got := lineEnds(dir); got.State != Good {
		t.Errorf("lineEnds() after the correction = %+v", got)
	}
}

func TestOldGo(t *testing.T) {
	t.Parallel()
	newer := t.TempDir()
	if err := os.WriteFile(filepath.Join(newer, "go.work"), []byte("go 1.999.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := goFound(newer); got.State != Bad || !strings.Contains(got.Remedy, "Go 1.999 or newer is needed") {
		t.Errorf("%+v", got)
	}
}

func TestPrintFindings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		findings []Finding
		want     string
	}{
		{
			[]Finding{
				{Name: "Go", State: Good, Found: "go1.26"},
				{Name: "inotify", State: Note, Found: "8 instances", Labs: podsLabs, Remedy: "Let root raise it."},
			},
			"ok    Go                  go1.26\nnote  inotify             8 instances\n" +
				"                          Labs 5, 6, 8 and 9 need it. Let root raise it.\n\n" +
				"All labs can be graded on this machine.\n",
		},
		{
			[]Finding{{Name: "user namespaces", State: Bad, Found: "none", Labs: podsLabs, Remedy: "Let root allow them."}},
			"bad   user namespaces     none\n                          Labs 5, 6, 8 and 9 need it. Let root allow them.\n\n" +
				"All labs can be graded on this machine but labs 5, 6, 8 and 9: see the lines that begin with bad.\n",
		},
		{
			[]Finding{{Name: "git", State: Bad, Found: "none", Labs: allLabs, Remedy: "Install it."}},
			"bad   git                 none\n                          All labs need it. Install it.\n\n" +
				"No lab can be graded on this machine yet: see the lines that begin with bad.\n",
		},
	} {
		var out strings.Builder
		if write(&out, test.findings); out.String() != test.want {
			t.Errorf("got\n%swant\n%s", &out, test.want)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, test := range []struct{ format, want string }{
		{"yaml", `--format is text or json, and not "yaml": correct it`},
		{"text", "run `make doctor` in the root of the checkout"},
	} {
		if err := run(test.format, os.Stdout); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("run() error = %v", err)
		}
	}
}
