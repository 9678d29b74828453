// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package fresh

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/clusters/process"
)

const bare = `[user]
1000
[environment]
HOME=/home/student
PATH=/go/bin:/usr/bin:/bin
PWD=/srv/operator-labs
[home]
.cache
go
operator-labs
[checkout]
.git
Makefile
[modules]
[programs]
`

func TestIsBareFindsCaches(t *testing.T) {
	t.Parallel()
	m := &machine{root: true, variables: []string{"HOME=/home/student", "PATH=/go/bin:/usr/bin:/bin"}}
	if err := m.isBare(bare); err != nil {
		t.Errorf("a bare machine: %v", err)
	}
	for _, test := range []struct{ after, insert, want string }{
		{"[modules]\n", "cache\n", "the module cache has [cache]"},
		{"[checkout]\n", ".cache\n", "the checkout has .cache"},
		{"[checkout]\n", "out\n", "the checkout has out"},
		{"[home]\n", ".kube\n", "the home has .kube"},
		{"[environment]\n", "GOFLAGS=-mod=mod\n", "GOFLAGS is set"},
		{"[environment]\n", "PATH=/opt/bin\n", "PATH is set"},
		{"[programs]\n", "/usr/bin/gcc\n", "it has [/usr/bin/gcc]"},
	} {
		if err := m.isBare(strings.Replace(bare, test.after, test.after+test.insert, 1)); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("want %q, got error %v", test.want, err)
		}
	}
	for _, output := range []string{
		"", strings.Replace(bare, "1000", "0", 1), strings.Replace(bare, "Makefile", "nothing", 1),
	} {
		if m.isBare(output) == nil {
			t.Errorf("isBare() accepted this machine:\n%s", output)
		}
	}
}

func TestUnexpectedVerdicts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, report, output string
		full                 bool
		want                 string
	}{
		{"full marks", `{"outcome": "graded", "score": 100, "maxScore": 100}`, "", true, ""},
		{"a skeleton", `{"outcome": "graded", "score": 0, "maxScore": 100}`, "", false, ""},
		{"too few points", `{"outcome": "graded", "score": 90, "maxScore": 100}`, "", true, "it has 90 of 100 points"},
		{"too many points", `{"outcome": "graded", "score": 100, "maxScore": 100}`, "", false, "it has 100 of 100 points"},
		{
			"not built", `{"outcome": "not-built", "reason": "modules", "score": 0, "maxScore": 100}`,
			"", false, "the outcome is not-built: modules",
		},
		{
			"suggests --fetch", `{"outcome": "graded", "score": 0, "maxScore": 100}`,
			"grade it with --fetch", false, "it mentions --fetch",
		},
		{"without points", `{"outcome": "graded"}`, "", false, "it has 0 of 0 points"},
		{"no report", "", "", true, "there is no report"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if test.report != "" {
				if err := os.WriteFile(filepath.Join(dir, "report.json"), []byte(test.report), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := result{output: test.output, checkout: dir}.wantGrade(".", test.full)
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("want %q, got error %v", test.want, err)
			}
		})
	}
}

// If no root is available, the nearest approximation is an ordinary user, an empty home, and none of our variables.
func TestMachineWithoutRoot(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("SECRET", "ours")
	t.Setenv("GOPROXY", "https://proxy.example")
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer scope.Close()
	modules := t.TempDir()
	h, err := inspectHost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if _, err := exec.LookPath("setpriv"); err != nil {
			t.Skip("setpriv is not installed")
		}
		// Another user runs the commands, and must be able to enter the folders above the modules.
		for dir := modules; dir != os.TempDir(); dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	m, err := withoutRoot(scope, h, modules, errors.New("only root may make one"))
	if err != nil {
		t.Fatal(err)
	}
	home := m.home
	if err := errors.Join(
		os.Mkdir(filepath.Join(home, clone), 0o755),
		os.WriteFile(filepath.Join(home, clone, "Makefile"), nil, 0o644),
	); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := m.try(t.Context(), step{"look", inventory, func(r result) error {
		return errors.Join(r.wantExitCode(0), m.isBare(r.output))
	}}, &out); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "GOPROXY=https://proxy.example\n") || strings.Contains(out.String(), "SECRET") {
		t.Errorf("the environment is\n%s", out.String())
	}
	if err := m.try(t.Context(), step{"fail", "echo no; exit 3", func(r result) error {
		return errors.Join(r.wantExitCode(3), r.wantOutput("no\n"))
	}}, &out); err != nil {
		t.Error(err)
	}
	if err := errors.Join(m.close(), scope.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the machine's home is left: %v", err)
	}
}

func TestEmptyModuleCacheFromFullOne(t *testing.T) {
	t.Parallel()
	modules := filepath.Join(t.TempDir(), "modules")
	download := filepath.Join(modules, "cache", "download", "example.com", "a", "@v")
	if err := errors.Join(
		os.MkdirAll(download, 0o755),
		os.WriteFile(filepath.Join(download, "v1.0.0.zip"), []byte("12345"), 0o400),
		os.Chmod(download, 0o500),
	); err != nil {
		t.Fatal(err)
	}
	if count, size, err := downloaded(modules); err != nil || count != 1 || size != 5 {
		t.Errorf("downloaded() = %d, %d, %v", count, size, err)
	}
	if err := empty(t.Context(), modules); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(modules)
	if err != nil || len(left) > 0 {
		t.Errorf("the module cache has %v, error %v", left, err)
	}
}

func TestSandboxSharesOnlyGo(t *testing.T) {
	t.Setenv("GOPROXY", "file:///srv/modules,https://proxy.example")
	m := &machine{temporary: "/scope/tmp", home: "/scope/home"}
	m.variables = variablesOf(homeInRoot, "/usr/local/go")
	arguments := strings.Join(m.sandbox(
		host{goroot: "/usr/local/go", gocache: "/srv/go-build"}, "/scope/root", "/modules",
	), " ")
	for _, want := range []string{
		"--clearenv", "--unshare-user --uid 1000", "--die-with-parent",
		"--bind /scope/root / ", "--bind /modules " + homeInRoot + "/go/pkg/mod ",
		"--ro-bind /usr/local/go /usr/local/go ", "--ro-bind-try /srv/modules /srv/modules", "--remount-ro /",
	} {
		if !strings.Contains(arguments, want) {
			t.Errorf("missing %s in %s", want, arguments)
		}
	}
	for _, never := range []string{" /root /", "--bind / ", " " + os.Getenv("HOME") + " "} {
		if strings.Contains(arguments, never) {
			t.Errorf("unexpected %q in %s", never, arguments)
		}
	}
}

func TestInstalledProgramsAreNotCompiled(t *testing.T) {
	t.Parallel()
	const installed = "install prebuilt programs (first): done in 17s\n"
	for output, fails := range map[string]bool{
		installed: false,
		"build an installer of prebuilt programs: done in 5.8s\n" + installed +
			"step build                  37.3 s\n": false,
		"install prebuilt programs (first): failed in 2s\n":                          true,
		installed + "build the lab command: done in 2m\n":                            true,
		installed + "2 of 4: build Kubernetes 1.36.3: done in 2m\n":                  true,
		installed + "download the modules of lab 01-icecream: 3 of 9 modules (2s)\n": true,
	} {
		if err := (result{output: output}).installs("first"); (err != nil) != fails {
			t.Errorf("installs() after %q: error = %v", output, err)
		}
	}
}
