// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dustin/go-humanize/english"

	"lva.io/operators/scripts/manifest"
)

// isDoctor makes this test binary the command.
const isDoctor = "OPERATOR_LABS_TEST_IS_DOCTOR"

func TestMain(m *testing.M) {
	if os.Getenv(isDoctor) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// examined is what the command finds where a line of shell has prepared the machine. $0 is the command, $1 an empty folder.
func examined(t *testing.T, prepare string) (findings map[string]Finding, code int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "--mount", "sh", "-c", prepare, program, t.TempDir())
	c.Dir, c.Env, c.Stderr = root, append(os.Environ(), isDoctor+"=1"), os.Stderr
	out, err := c.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		code = failed.ExitCode()
	} else if err != nil {
		t.Skipf("unshare of util-linux is needed: %v", err)
	}
	var all []Finding
	if err := json.Unmarshal(out, &all); err != nil {
		if os.Getenv("OPERATOR_LABS_NAMESPACES") != "required" {
			t.Skipf("no user namespace can be made here, see CI, which sets OPERATOR_LABS_NAMESPACES=required: %s", out)
		}
		t.Fatalf("it printed %q: %v", out, err)
	}
	findings = map[string]Finding{}
	for _, f := range all {
		findings[f.Name] = f
	}
	return findings, code
}

func TestMachinesThatLackSomething(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what, prepare string
		code          int
		want          Finding
	}{
		{"nothing", `exec "$0" -format json`, 0, Finding{Name: "user namespaces", State: Good, Found: "they can be made"}},
		{
			"namespaces", `echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" -format json`, 1,
			Finding{
				Name: "user namespaces", State: Bad, Labs: "labs 5, 6, 8 and 9", Found: "this machine allows no namespaces of the kind user",
				Remedy: "Let root run: sysctl user.max_user_namespaces=15000",
			},
		},
		{
			"a TMPDIR in which programs run", `mount -t tmpfs -o noexec none "$1" && TMPDIR="$1" exec "$0" -format json`, 1,
			Finding{Name: "TMPDIR", State: Bad, Labs: "all labs", Found: "no program may run from there (noexec)", Remedy: "Set TMPDIR to a folder on another file system."},
		},
		{
			"a TMPDIR on a disk", `mount -t tmpfs -o size=1200m none "$1" && TMPDIR="$1" exec "$0" -format json`, 0,
			Finding{Name: "TMPDIR", State: Good, Found: "which is in memory"},
		},
		{
			"space in TMPDIR", `mount -t tmpfs -o size=500m none "$1" && TMPDIR="$1" exec "$0" -format json`, 1,
			Finding{
				Name: "TMPDIR's disk", State: Bad, Labs: "all labs", Found: "0.5 GB free",
				Remedy: "A run takes up to 1 GB: free some space, or set TMPDIR to a folder on another disk.",
			},
		},
		{
			"an absolute TMPDIR", `TMPDIR=somewhere exec "$0" -format json`, 1,
			Finding{Name: "TMPDIR", State: Bad, Labs: "all labs", Found: "which is no absolute path", Remedy: "Set TMPDIR."},
		},
		{
			"git", `mkdir "$1/bin" && for tool in go make; do ln -s "$(command -v $tool)" "$1/bin"; done && PATH="$1/bin" exec "$0" -format json`, 1,
			Finding{Name: "git", State: Bad, Labs: "all labs", Found: "there is none on PATH", Remedy: "Let root run: apt-get install git"},
		},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			all, code := examined(t, test.prepare)
			got := all[test.want.Name]
			if code != test.code {
				t.Errorf("the exit code is %d, want %d: %+v", code, test.code, all)
			}
			if !strings.Contains(got.Found, test.want.Found) {
				t.Errorf("it finds %q, want %q", got.Found, test.want.Found)
			}
			got.Found = test.want.Found
			if got != test.want {
				t.Errorf("the finding is %+v, want %+v", got, test.want)
			}
		})
	}
}

// The doctor is built before anything else, so it does not read labs.yaml.
func TestTheLabsThatNeedPods(t *testing.T) {
	t.Parallel()
	list, err := manifest.Load("../..")
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
		t.Errorf("the doctor says %q, and labs.yaml says %q", podsLabs, want)
	}
}

func TestAFolderThatIsNoPlaceForAClone(t *testing.T) {
	t.Parallel()
	colon := filepath.Join(t.TempDir(), "a:b")
	if err := os.Mkdir(colon, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := place(colon); got.State != Bad || !strings.Contains(got.Found, "has a colon in its path") {
		t.Errorf("%+v", got)
	}
	windows := t.TempDir()
	if err := os.WriteFile(filepath.Join(windows, "Makefile"), []byte("all:\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := lineEnds(windows); got.State != Bad || !strings.Contains(got.Remedy, "core.autocrlf") {
		t.Errorf("%+v", got)
	}
	old := t.TempDir()
	if err := os.WriteFile(filepath.Join(old, "go.work"), []byte("go 1.999.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := goFound(old); got.State != Bad || !strings.Contains(got.Remedy, "Go 1.999 or newer is needed") {
		t.Errorf("%+v", got)
	}
}

func TestWhatIsPrinted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		findings []Finding
		want     string
	}{
		{
			[]Finding{{Name: "Go", State: Good, Found: "go1.26"}, {Name: "inotify", State: Note, Found: "8 instances", Labs: podsLabs, Remedy: "Let root raise it."}},
			"ok    Go                  go1.26\nnote  inotify             8 instances\n" +
				"                          Labs 5, 6, 8 and 9 need it. Let root raise it.\n\nAll labs can be graded on this machine.\n",
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
			t.Errorf("it prints\n%swant\n%s", &out, test.want)
		}
	}
}

func TestWrongUse(t *testing.T) {
	for _, test := range []struct{ format, want string }{
		{"yaml", `--format is text or json, and not "yaml": correct it`}, {"text", "run `make doctor` in the root of the checkout"},
	} {
		if err := run(test.format, os.Stdout); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("the error is %v", err)
		}
	}
}
