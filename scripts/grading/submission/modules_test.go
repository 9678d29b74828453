// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/scripts/grading/submission/samples"
)

// The module that these submissions need is one that this program is made of, so a machine that runs the test has it.
const needed = "github.com/go-logr/logr"

// needing creates a submission that needs a module, and whose go.mod names a second one that it does not need.
func needing(t *testing.T) string {
	t.Helper()
	dir := samples.Lay(t, samples.Module+"-- cmd/main.go --\npackage main\n\nimport \""+needed+
		"\"\n\nfunc main() { logr.Discard().Info(\"hello\") }\n")
	requirements, sums := "", ""
	content, err := os.ReadFile(filepath.Join("..", "..", "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if fields[0] == needed || fields[0] == "golang.org/x/text" {
			sums += line
			if !strings.Contains(fields[1], "/go.mod") {
				requirements += "\nrequire " + fields[0] + " " + fields[1] + "\n"
			}
		}
	}
	mod := strings.TrimPrefix(samples.Module, "-- go.mod --\n") + requirements
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600),
		os.WriteFile(filepath.Join(dir, "go.sum"), []byte(sums), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return dir
}

// emptyModuleCache gives the test a module cache of its own, and returns the one of this machine as a module proxy.
func emptyModuleCache(t *testing.T) (proxy string) {
	t.Helper()
	proxy = "file://" + filepath.Join(gobuild.ModuleCache(), "cache", "download")
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	t.Setenv("GOCACHE", strings.TrimSpace(string(out)))
	t.Setenv("GOMODCACHE", cache)
	t.Setenv("GOSUMDB", "off")
	// The go command removes the write permission.
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", cache).Run() })
	return proxy
}

func TestOnlyNeededModulesAreFetched(t *testing.T) {
	t.Setenv("GOPROXY", emptyModuleCache(t))
	dir := needing(t)
	before, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	b := builder(t, dir)
	if got := MissingModules(dir); got != 2 {
		t.Errorf("MissingModules() = %d, want 2", got)
	}
	if problem := problemOf(t, b.Build(t.Context())); !strings.Contains(problem.Reason, "are not on this machine") {
		t.Errorf("Build() without the modules: got problem %v", problem)
	}
	var steps [][2]int
	if err := b.Fetch(t.Context(), func(done, total int) { steps = append(steps, [2]int{done, total}) }); err != nil {
		t.Fatal(err)
	}
	if len(steps) != 1 || steps[0] != [2]int{1, 2} {
		t.Errorf("the progress was %v, want one download of two modules that go.mod names", steps)
	}
	if got := MissingModules(dir); got != 1 {
		t.Errorf("%d modules are missing, want only the one that nothing imports", got)
	}
	if err := b.Build(t.Context()); err != nil {
		t.Error(err)
	}
	after, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil || string(after) != string(before) {
		t.Errorf("go.sum was changed: %v", err)
	}
}

func TestPartiallyDownloadedModuleIsMissing(t *testing.T) {
	t.Setenv("GOPROXY", emptyModuleCache(t))
	dir := needing(t)
	if err := builder(t, dir).Fetch(t.Context(), func(int, int) {}); err != nil {
		t.Fatal(err)
	}
	before := MissingModules(dir)
	downloads := filepath.Join(gobuild.ModuleCache(), "cache", "download", filepath.FromSlash(needed), "@v")
	zips, err := filepath.Glob(filepath.Join(downloads, "*.zip"))
	if err != nil || len(zips) != 1 {
		t.Fatalf("got downloads %v, error = %v", zips, err)
	}
	if err := os.WriteFile(strings.TrimSuffix(zips[0], ".zip")+".partial", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := MissingModules(dir); got != before+1 {
		t.Errorf("%d modules are missing, want %d", got, before+1)
	}
}

func TestFailingDownload(t *testing.T) {
	answer := func(code int) func(*testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "no", code)
			}))
			t.Cleanup(server.Close)
			return server.URL
		}
	}
	for _, test := range []struct {
		name  string
		proxy func(*testing.T) string
		// environment and problem are prefixes of the reason. One of them is empty.
		environment, problem string
	}{
		{
			"no answer", func(*testing.T) string { return "http://127.0.0.1:1" },
			"modules could not be downloaded, because the network", "",
		},
		{
			"no such host", func(*testing.T) string { return "http://proxy.invalid" },
			"modules could not be downloaded, because the network", "",
		},
		{"it is forbidden", answer(http.StatusForbidden), "modules could not be downloaded, because the network", ""},
		{"the proxy is broken", answer(http.StatusBadGateway), "modules could not be downloaded, because the network", ""},
		{"there is no such module", answer(http.StatusNotFound), "", "its modules can't be downloaded"},
		{"the certificate is unknown", func(t *testing.T) string {
			t.Helper()
			server := httptest.NewTLSServer(http.NotFoundHandler())
			t.Cleanup(server.Close)
			return server.URL
		}, "modules could not be downloaded, because the network", ""},
		{"the settings are nonsense", func(*testing.T) string { return "nonsense" }, "Go is set up wrong", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			emptyModuleCache(t)
			t.Setenv("GOPROXY", test.proxy(t))
			err := builder(t, needing(t)).Fetch(t.Context(), func(int, int) {})
			environmentErr, isEnvironment := errors.AsType[*EnvironmentError](err)
			switch {
			case isEnvironment != (test.environment != ""):
				t.Errorf("Fetch() error = %v", err)
			case isEnvironment && !strings.HasPrefix(environmentErr.Reason, test.environment):
				t.Errorf("got reason %s", environmentErr.Reason)
			case !isEnvironment && !strings.HasPrefix(problemOf(t, err).Reason, test.problem):
				t.Errorf("got problem %v", err)
			}
		})
	}
}

func TestModuleWithAWrongChecksum(t *testing.T) {
	proxy := emptyModuleCache(t)
	t.Setenv("GOPROXY", proxy)
	dir := needing(t)
	name := filepath.Join(dir, "go.sum")
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	line, rest, _ := strings.Cut(string(content), "h1:")
	if err := os.WriteFile(name, []byte(line+"h1:AAAA"+rest[4:]), 0o600); err != nil {
		t.Fatal(err)
	}
	b := builder(t, dir)
	// Without its go.sum, the module can be downloaded.
	if problem := problemOf(t, b.Fetch(t.Context(), func(int, int) {})); !strings.HasPrefix(problem.Reason,
		"its go.sum has another checksum") {
		t.Errorf("Fetch() problem = %v", problem)
	}
	// If the module is on this machine, it was verified when it was downloaded, so go.sum must be wrong.
	t.Setenv("GOMODCACHE", filepath.Dir(filepath.Dir(strings.TrimPrefix(proxy, "file://"))))
	if problem := problemOf(t, b.Build(t.Context())); !strings.HasPrefix(problem.Reason,
		"its go.sum has another checksum") {
		t.Errorf("Build() problem = %v", problem)
	}
}

func TestHangingDownload(t *testing.T) {
	emptyModuleCache(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // it never answers
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	t.Setenv("GOPROXY", "http://"+listener.Addr().String())
	b := builder(t, needing(t))
	ctx, cancel := context.WithTimeoutCause(t.Context(), 1, errTooLong)
	defer cancel()
	if environmentErr, ok := errors.AsType[*EnvironmentError](b.Fetch(ctx, func(int, int) {})); !ok ||
		!strings.HasPrefix(environmentErr.Reason, "its modules were not downloaded within 15m0s: check the connection") {
		t.Errorf("Fetch() error = %v", environmentErr)
	}
}

// Whatever the environment, a stranger's go.mod does not determine which hosts are contacted.
func TestOnlyModuleProxiesAreUsed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, set, want string }{
		{"nothing is set", "", "https://proxy.golang.org"},
		{"the default", "GOPROXY=https://proxy.golang.org,direct", "https://proxy.golang.org"},
		{"two proxies", "GOPROXY=https://a.example|https://b.example,direct", "https://a.example,https://b.example"},
		{"only the hosts themselves", "GOPROXY=direct", "https://proxy.golang.org"},
		{"no proxy", "GOPROXY=off", "off"},
		{"files", "GOPROXY=file:///srv/modules", "file:///srv/modules"},
	} {
		got := proxyOnly([]string{"HOME=/nowhere", "GOPROXY=https://earlier.example", c.set})
		if c.set == "" {
			got = proxyOnly(nil)
		}
		if want := []string{"GOPROXY=" + c.want, "GONOPROXY=none", "GOVCS=*:off"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", c.name, got, want)
		}
	}
}
