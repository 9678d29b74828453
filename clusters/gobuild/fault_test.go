// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gobuild

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"lva.io/operators/clusters/longtest"
)

// Go 1.26 printed each output, on a machine with that fault.
func TestMachineFault(t *testing.T) {
	t.Parallel()
	const get = `main.go:3:8: golang.org/x/text@v0.30.0: `
	const reading = get + `reading http://127.0.0.1:8081/golang.org/x/text/@v/v0.30.0.zip: `
	for _, test := range []struct{ output, reason string }{
		{
			get + `Get "https://proxy.example/golang.org/x/text/@v/v0.30.0.zip": ` +
				`dial tcp: lookup proxy.example on 10.0.0.1:53: no such host`,
			"modules could not be downloaded",
		},
		{
			`go: golang.org/x/text@v0.30.0: Get "https://proxy.example/@v/v0.30.0.mod": ` +
				`dial tcp: lookup proxy.example: no such host`,
			"modules could not be downloaded",
		},
		{
			get + `Get "http://192.0.2.1/v0.30.0.zip": dial tcp 192.0.2.1:80: connect: network is unreachable`,
			"modules could not be downloaded",
		},
		{
			get + `Get "https://proxy.example/v0.30.0.zip": proxyconnect tcp: dial tcp 127.0.0.1:1: connect: connection refused`,
			"modules could not be downloaded",
		},
		{
			get + `Get "https://127.0.0.1:8081/v0.30.0.zip": tls: first record does not look like a TLS handshake`,
			"modules could not be downloaded",
		},
		{
			get + `Get "https://proxy.example/v0.30.0.zip": tls: failed to verify certificate: ` +
				`x509: certificate signed by unknown authority`,
			"modules could not be downloaded",
		},
		{get + `Get "https://proxy.example/v0.30.0.zip": net/http: TLS handshake timeout`, "modules could not be downloaded"},
		{
			get + `read "http://127.0.0.1:8081/golang.org/x/text/@v/v0.30.0.zip": unexpected EOF`,
			"modules could not be downloaded",
		},
		{reading + "403 Forbidden", "modules could not be downloaded"},
		{reading + "407 Proxy Authentication Required", "modules could not be downloaded"},
		{reading + "429 Too Many Requests", "modules could not be downloaded"},
		{reading + "503 Service Unavailable", "modules could not be downloaded"},
		{
			`main.go:3:8: unrecognized import path "golang.org/x/text": ` +
				`https fetch: Get "https://golang.org/x/text?go-get=1": ` +
				`dial tcp: lookup golang.org: no such host`,
			"modules could not be downloaded",
		},
		{
			"go: github.com/a/b@v1.0.0: git ls-remote -q origin in /srv/a/go/pkg/mod/cache/vcs/1: exit status 128:\n" +
				"\tfatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com",
			"modules could not be downloaded",
		},
		{
			"verifying golang.org/x/text@v0.30.0: checksum mismatch\n" +
				"\tdownloaded: h1:a=\n\tgo.sum:     h1:b=\n\nSECURITY ERROR",
			"a module is not the one that go.sum names",
		},
		{
			`main.go:3:8: golang.org/x/text@v0.30.0: exec: "git": executable file not found in $PATH`,
			"a module has to be downloaded from its repository",
		},
		{
			get + `read "https://proxy.example/v0.30.0.zip": ` +
				`write /mnt/cache/download/v0.30.0.zip858981202.tmp: no space left on device`,
			"the disk is full",
		},
		{
			"# internal/runtime/maps\ncompile: writing output: write $WORK/b030/_pkg_.a: no space left on device",
			"the disk is full",
		},
		{
			"example.test/x: go build example.test/x: copying /tmp/a.out to /mnt/x: write /mnt/x: no space left on device",
			"the disk is full",
		},
		{"main.go:3:8: write /srv/a/.cache/go-build/97/9761-d: file too large", "the disk is full"},
		{"go: creating work dir: mkdir /mnt/go-build1: read-only file system", "the disk can't be read or written"},
		{"math/bits: /usr/local/go/pkg/tool/linux_amd64/compile: signal: killed", "a program of Go was killed"},
		{"# example.test/x\n/usr/local/go/pkg/tool/linux_amd64/link: signal: killed", "a program of Go was killed"},
		{"signal: killed", "a program of Go was killed"},
		{
			"# example.test/x\nruntime: out of memory: cannot allocate 4194304-byte block (0 in use)\n" +
				"fatal error: out of memory",
			"a program of Go was killed",
		},
		{"fatal error: failed to reserve page summary memory\n\nruntime stack:", "a program of Go was killed"},
		{
			"runtime: failed to create new OS thread (have 2 already; errno=11)\nfatal error: newosproc",
			"the system allows no more processes",
		},
		{"go: open /srv/a/go.mod: too many open files", "the system allows no more processes"},
		{
			"build cache is required, but could not be located: GOCACHE is not defined and " +
				"neither $XDG_CACHE_HOME nor $HOME are defined",
			"Go can't use the folders of its caches",
		},
		{
			"failed to initialize build cache at /nonexistent/.cache/go-build: mkdir /nonexistent: permission denied",
			"Go can't use the folders of its caches",
		},
		{"go: module cache not found: neither GOMODCACHE nor GOPATH is set", "Go can't use the folders of its caches"},
		{
			"go: could not create module cache: mkdir /nonexistent: permission denied",
			"Go can't use the folders of its caches",
		},
		{
			"Error: load packages in root \"/a\": err: exit status 1: stderr: " +
				"go: could not create module cache: mkdir /nonexistent: permission denied",
			"Go can't use the folders of its caches",
		},
		{"go: GOPATH entry is relative; must be absolute path: \"rel\".", "Go can't use the folders of its caches"},
		{"go: creating work dir: stat /nonexistent: no such file or directory", "Go can't make its temporary files"},
		{`go: parsing $GOFLAGS: non-flag "nonsense"`, "Go is set up wrong"},
		{"go: unsupported GOOS/GOARCH pair nonsense/amd64", "Go is set up wrong"},
		{"main.go:3:8: invalid proxy URL missing scheme: nonsense", "Go is set up wrong"},
		{"go: golang.org/x/sync@v0.24.0: verifying go.mod: invalid GOSUMDB: malformed verifier id", "Go is set up wrong"},
		{"go: cannot find GOROOT directory: /nonsense", "the installation of Go is damaged"},
		{`go: no such tool "compile"`, "the installation of Go is damaged"},
		{
			"../../go/pkg/mod/golang.org/x/text@v0.30.0/transform/transform.go:12:2: " +
				"package bytes is not in std (/opt/go/src/bytes)",
			"the installation of Go is damaged",
		},
		{"fork/exec /usr/local/go/pkg/tool/linux_amd64/compile: exec format error", "the installation of Go is damaged"},

		{"# example.test/x\n./main.go:4:2: undefined: undefinedName", ""},
		{"exit status 1", ""},
		{"main.go:3:8: package nosuch is not in std (/usr/local/go/src/nosuch)", ""},
		{"main.go:3:8: module lookup disabled by GOPROXY=off", ""},
		{"main.go:3:8: missing go.sum entry for module providing package golang.org/x/text/width", ""},
		{reading + "404 Not Found", ""},
		{reading + "410 Gone", ""},
		{"go: go.mod requires go >= 1.99 (running go 1.26.8; GOTOOLCHAIN=local)", ""},
		// A submission can make the go command print this.
		{
			"# example.test/x\n./main.go:4:16: cannot use \"no space left on device\" " +
				"(untyped string constant) as int value in variable declaration", "",
		},
		{"# example.test/x\ngo: creating work dir:1: undefined: watch\nno space left on device:1:5: undefined: watch", ""},
		{"# example.test/x\ngo: a@v1.0.0: Get \"https://a\": dial tcp 1.1.1.1:443: undefined: watch", ""},
		{"go: errors parsing go.mod:\ngo.mod:5: unknown block type: compile: signal: killed", ""},
	} {
		reason, is := MachineFault(test.output)
		if is != (test.reason != "") || !strings.HasPrefix(reason, test.reason) {
			t.Errorf("MachineFault(\n%s\n) = %q, want %q", test.output, reason, test.reason)
		}
		if is && (strings.Contains(reason, "\n") || !strings.Contains(reason, "): ")) {
			t.Errorf("%q is not one sentence with what to do", reason)
		}
	}
}

func TestLongLineIsShortenedToItsCause(t *testing.T) {
	t.Parallel()
	long := "https://proxy.example/" + strings.Repeat("é", 500)
	reason, is := MachineFault(`go: x@v1.0.0: Get "` + long + `": dial tcp: lookup proxy.example: no such host`)
	if !is || len([]rune(reason)) > 400 || !strings.Contains(reason, "no such host): check the connection") {
		t.Errorf("reason = %q", reason)
	}
}

// withTools creates an installation of Go with our compiler and linker, one of which is replaced by a script.
func withTools(t *testing.T, tool, script string) (goroot string) {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	installed := strings.TrimSpace(string(out))
	goroot = t.TempDir()
	folder := filepath.Join("pkg", "tool", runtime.GOOS+"_"+runtime.GOARCH)
	if err := os.MkdirAll(filepath.Join(goroot, folder), 0o755); err != nil {
		t.Fatal(err)
	}
	link := func(name string) {
		if err := os.Symlink(filepath.Join(installed, name), filepath.Join(goroot, name)); err != nil &&
			!errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"src", "lib", "VERSION", "go.env", "pkg/include"} {
		link(name)
	}
	file := filepath.Join(folder, tool)
	// The go command asks each tool for its version before it uses it.
	content := fmt.Sprintf("#!/bin/sh\ncase \"$1\" in -V=full) exec %s \"$@\";; esac\n%s\n",
		filepath.Join(installed, file), script)
	if err := os.WriteFile(filepath.Join(goroot, file), []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	tools, err := os.ReadDir(filepath.Join(installed, folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range tools {
		link(filepath.Join(folder, entry.Name()))
	}
	return goroot
}

func TestKilledCompilerIsMachineFault(t *testing.T) {
	for _, tool := range longtest.First([]string{"compile", "link"}) {
		t.Run(tool, func(t *testing.T) {
			t.Setenv("GOROOT", withTools(t, tool, "kill -9 $$"))
			target := newTarget(t)
			write(t, target, "main.go", hello+"\n// "+target.Module+" has never been compiled\n")
			err := target.Ensure(t.Context(), nil)
			if err == nil ||
				!strings.HasPrefix(err.Error(), "building greeting: a program of Go was killed or had no memory left (") ||
				!strings.Contains(err.Error(), tool+": signal: killed): close other programs") ||
				!strings.Contains(err.Error(), "\ngo build: exit status 1\n") {
				t.Errorf("Ensure() error = %v", err)
			}
		})
	}
}

func TestFullDiskIsMachineFault(t *testing.T) {
	longtest.Proof(t)
	if os.Getenv("OPERATOR_LABS_SMALL_DISK") == "" {
		// The run's folder is on a disk of one megabyte, in a mount namespace that ends with the test.
		small := t.TempDir()
		command := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
			`mount -t tmpfs -o size=1m tmpfs "$TMPDIR" || exit 111; `+
				`exec "$0" -test.run '^TestFullDiskIsMachineFault$' -test.v`, os.Args[0])
		command.Env = append(os.Environ(), "OPERATOR_LABS_SMALL_DISK=1", "TMPDIR="+small)
		out, err := command.CombinedOutput()
		if missing := errors.Is(err, exec.ErrNotFound); missing ||
			(command.ProcessState != nil && command.ProcessState.ExitCode() == 111) ||
			strings.HasPrefix(string(out), "unshare: ") {
			t.Skipf("a small disk can't be mounted here: %v: %s", err, out)
		}
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	target := newTarget(t)
	target.Output = filepath.Join(target.Module, "greeting")
	if err := target.Ensure(t.Context(), nil); err == nil ||
		!strings.HasPrefix(err.Error(), "building greeting: the disk is full (") {
		t.Errorf("Ensure() error = %v", err)
	}
}

// Settings that a user or a company has configured for all work in Go must not break a build. Their module sources stay
// in effect.
func TestUserSettingsDoNotBreakABuild(t *testing.T) {
	cache, empty, configuration := cacheOf(t), t.TempDir(), t.TempDir()
	written := filepath.Join(configuration, "go", "env")
	nonsense := "nonsense\n=\nGOFLAGS=nonsense\nGOOS=nonsense\nGOPATH=here\nGO111MODULE=off\n"
	if err := errors.Join(os.Mkdir(filepath.Dir(written), 0o700),
		os.WriteFile(written, []byte(nonsense), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, settings := range longtest.First([]string{
		"GOFLAGS=nonsense", "HOME= XDG_CACHE_HOME= GOPATH= GOMODCACHE= GOCACHE=", "HOME=here", "GOCACHE=off", "GOCACHE=here",
		"GOCACHE= XDG_CACHE_HOME=here", "GOPATH=here", "GOFLAGS=-mod=vendor", "GO111MODULE=off",
		"GOOS=nonsense", "GOEXPERIMENT=nonsense", "GOTMPDIR=/nonexistent",
		"GOROOT=" + empty, "GOENV=" + empty, "GOENV=" + written, "XDG_CONFIG_HOME=" + configuration,
	}) {
		t.Run(settings, func(t *testing.T) {
			target := newTarget(t)
			t.Setenv("GOCACHE", cache)
			for setting := range strings.FieldsSeq(settings) {
				name, value, _ := strings.Cut(setting, "=")
				t.Setenv(name, value)
			}
			ensure(t, target)
			if out, err := exec.Command(target.Output).CombinedOutput(); err != nil || string(out) != "hello\n" {
				t.Errorf("the output is %q (%v)", out, err)
			}
		})
	}
}

// cacheOf is the build cache of the machine, wherever HOME is.
func cacheOf(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestUserChoosesModuleSources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("GOPROXY=https://written.example\nGOPRIVATE=git.example\nGOFLAGS=-mod=mod\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOENV", file)
	t.Setenv("GOPROXY", "")
	t.Setenv("GOPRIVATE", "")
	t.Setenv("GONOSUMDB", "exported.example")
	t.Setenv("GOFLAGS", "")
	for name, want := range map[string]string{
		"GOPROXY": "https://written.example", "GOPRIVATE": "git.example",
		"GONOSUMDB": "exported.example", "GOFLAGS": "-mod=readonly",
	} {
		if got := goEnv(t, name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	t.Setenv("GOPROXY", "https://exported.example")
	if got := goEnv(t, "GOPROXY"); got != "https://exported.example" {
		t.Errorf("GOPROXY = %q, want the exported value and not that of `go env -w`", got)
	}
}

// goEnv returns the value of a variable that the go command uses in the environment of a build.
func goEnv(t *testing.T, name string) string {
	t.Helper()
	command := exec.Command("go", "env", name)
	command.Env = Environment()
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TMPDIR may be in memory, as on Debian 13.
func TestBuildUsesTempFolderNextToItsOutput(t *testing.T) {
	arguments := filepath.Join(t.TempDir(), "arguments")
	t.Setenv("GOROOT", withTools(t, "link", `echo "$@" >`+arguments+"; exit 1"))
	target := newTarget(t)
	if err := target.Ensure(t.Context(), nil); err == nil {
		t.Fatal("it was linked")
	}
	output, err := os.ReadFile(arguments)
	inTempFolder := regexp.MustCompile("^-o " + regexp.QuoteMeta(target.Output+workDirSuffix) + "[0-9]+/go-build")
	if err != nil || !inTempFolder.Match(output) {
		t.Errorf("the linker was called with %s (%v)", output, err)
	}
}

func TestBuildLeavesTMPDIREmpty(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	// The build fails while the linker runs, and the go command is killed before it can clean up.
	t.Setenv("GOROOT", withTools(t, "link", "kill -9 $PPID"))
	target := newTarget(t)
	if err := target.Ensure(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "a program of Go was killed") {
		t.Errorf("Ensure() error = %v", err)
	}
	wantOnlyResults(t, target, "greeting.lock")
	left, err := filepath.Glob(filepath.Join(temporary, "go-build*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	wantNoRun(t, temporary)
}

// The text of an error may contain names that a submission has chosen.
func TestMachineErrorDependsOnType(t *testing.T) {
	t.Parallel()
	ending := func(script string) error { return exec.CommandContext(t.Context(), "/bin/sh", "-c", script).Run() }
	of := func(path string, err error) error {
		return fmt.Errorf("copying: %w", &fs.PathError{Op: "write", Path: path, Err: err})
	}
	for _, test := range []struct {
		err    error
		reason string
	}{
		{of("/x", syscall.ENOSPC), "the disk is full (copying: write /x: no space left on device): free some space"},
		{of("/x", syscall.EDQUOT), "the disk is full ("},
		{of("/x", syscall.EROFS), "the disk can't be read or written ("},
		{of("/x", syscall.EMFILE), "the system allows no more processes or open files ("},
		{of("/x", syscall.ENOMEM), "a program of Go was killed or had no memory left ("},
		{ending("kill -9 $$"), "a program of Go was killed or had no memory left (signal: killed): close other programs"},
		{ending("exit 137"), ""},
		{of("no space left on device", syscall.ENOENT), ""},
		{errors.New("signal: killed"), ""},
		{nil, ""},
	} {
		reason, is := MachineError(test.err)
		if is != (test.reason != "") || !strings.HasPrefix(reason, test.reason) {
			t.Errorf("MachineError(%v) = %q, want %q", test.err, reason, test.reason)
		}
	}
}
