// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package container_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/container"
	"lva.io/operators/clusters/node/namespace"
	"lva.io/operators/clusters/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Inside(m) }

// shell returns a container that runs a script with the machine's own programs.
func shell(t *testing.T, script string) container.Spec {
	t.Helper()
	return container.Spec{
		Args:         []string{"/bin/sh", "-c", script},
		Env:          []string{"PATH=" + container.Path},
		Root:         container.Root{Dir: t.TempDir()},
		Mounts:       nodetest.MachinePrograms(),
		Capabilities: container.Unprivileged,
	}
}

// result has the output of a container and its exit code.
type result struct {
	out  string
	code int
}

// run runs a container until it ends.
func run(t *testing.T, spec container.Spec, joined container.Joined) result {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	process, err := container.Start(spec, joined, container.Streams{Out: write, Err: write})
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	output, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	state, err := process.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return result{out: strings.TrimSpace(string(output)), code: state.ExitCode()}
}

// wantOutput runs a script that must print want and exit with 0.
func wantOutput(t *testing.T, spec container.Spec, want string) {
	t.Helper()
	if got := run(t, spec, container.Joined{}); got.out != want || got.code != 0 {
		t.Errorf("%q printed %q and exited with %d; want %q and 0", spec.Args[len(spec.Args)-1], got.out, got.code, want)
	}
}

func TestProgramIsAloneInItsPIDNamespace(t *testing.T) {
	wantOutput(t, shell(t, `echo $$; cd /proc; echo [0-9]*`), "1\n1")
}

func TestProgramSeesOnlyItsOwnFiles(t *testing.T) {
	spec := shell(t, `ls /; ls /mnt 2>&1`)
	if err := os.WriteFile(filepath.Join(spec.Root.Dir, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	got := run(t, spec, container.Joined{})
	for _, want := range []string{"mine", "proc", "dev", "sys", "usr"} {
		if !slices.Contains(strings.Fields(got.out), want) {
			t.Errorf("%s is missing from %q", want, got.out)
		}
	}
	for _, foreign := range []string{"home", "root", "work", "tmp", "etc"} {
		if slices.Contains(strings.Fields(got.out), foreign) {
			t.Errorf("/%s of the node is visible in %q", foreign, got.out)
		}
	}
}

func TestExitCodeIsTheProgramsOwn(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "exit 255": 255} {
		if got := run(t, shell(t, script), container.Joined{}); got.code != want {
			t.Errorf("%q exited with %d, want %d", script, got.code, want)
		}
	}
}

func TestStartErrorNamesTheCause(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*container.Spec)
		want   string
	}{
		"a path":   {func(s *container.Spec) { s.Args = []string{"/no/such"} }, `"/no/such": no such file`},
		"a name":   {func(s *container.Spec) { s.Args = []string{"nosuch"} }, `"nosuch": executable file not found in $PATH`},
		"nothing":  {func(s *container.Spec) { s.Args = nil }, "no command"},
		"a folder": {func(s *container.Spec) { s.Args = []string{"/usr"} }, `"/usr": permission denied`},
		"a volume": {func(s *container.Spec) {
			s.Mounts = append(s.Mounts, container.Mount{Source: "/no/such", Target: "/v"})
		}, "/no/such"},
		"a text":    {func(s *container.Spec) { s.Args = []string{"/proc/version"} }, "permission denied"},
		"a new dir": {func(s *container.Spec) { s.Dir = "/proc/nosuch" }, "working directory"},
	} {
		spec := shell(t, "")
		test.change(&spec)
		process, err := container.Start(spec, container.Joined{}, container.Streams{})
		var failed *container.StartError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: Start() error = %v, want a StartError with %q", name, err, test.want)
		}
		if process != nil {
			t.Errorf("%s: Start() returned a process with its error", name)
		}
	}
}

func TestUserRunsWithoutCapabilities(t *testing.T) {
	spec := shell(t, `id -u; id -g; grep CapEff /proc/self/status | cut -f2`)
	spec.User, spec.Group = 1234, 5678
	wantOutput(t, spec, "1234\n5678\n0000000000000000")
}

func TestNoNewPrivilegesDisablesSetuid(t *testing.T) {
	id, err := os.ReadFile("/usr/bin/id")
	if err != nil {
		t.Skipf("the machine has no program for this test: %v", err)
	}
	owner := "0"
	if namespace.SingleID() {
		owner = "1234" // there is no other ID
	}
	for forbidden, want := range map[bool]string{false: owner, true: "1234"} {
		spec := shell(t, `/id -u`)
		spec.User, spec.NoNewPrivileges = 1234, forbidden
		file := filepath.Join(spec.Root.Dir, "id")
		if err := os.WriteFile(file, id, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o755|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
		wantOutput(t, spec, want)
	}
}

func TestRootHasOnlyItsCapabilities(t *testing.T) {
	kept, err := container.WithCapabilities(container.Unprivileged, []string{"NET_ADMIN"}, []string{"ALL"})
	if err != nil {
		t.Fatal(err)
	}
	spec := shell(t, `grep CapBnd /proc/self/status | cut -f2`)
	spec.Capabilities = kept
	wantOutput(t, spec, strings.Repeat("0", 12)+"1000") // 1 << 12
}

func TestCapabilitiesAreAddedAndDropped(t *testing.T) {
	for name, test := range map[string]struct{ add, drop, has, hasNot []string }{
		"nothing":           {nil, nil, []string{"CHOWN"}, []string{"SYS_ADMIN"}},
		"drop all":          {nil, []string{"ALL"}, nil, []string{"CHOWN"}},
		"drop all, add one": {[]string{"CAP_CHOWN"}, []string{"ALL"}, []string{"CHOWN"}, []string{"KILL"}},
		"add all, drop one": {[]string{"ALL"}, []string{"chown"}, []string{"SYS_ADMIN"}, []string{"CHOWN"}},
	} {
		got, err := container.WithCapabilities(container.Unprivileged, test.add, test.drop)
		if err != nil {
			t.Errorf("%s: WithCapabilities() error = %v", name, err)
		}
		for _, want := range test.has {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %s is missing", name, want)
			}
		}
		for _, not := range test.hasNot {
			if slices.Contains(got, not) {
				t.Errorf("%s: %s was not dropped", name, not)
			}
		}
	}
	if _, err := container.WithCapabilities(nil, []string{"FLY"}, nil); err == nil ||
		!strings.Contains(err.Error(), `"FLY"`) {
		t.Errorf("WithCapabilities() error for an unknown capability = %v", err)
	}
}

func TestContainerCannotUnshareUnderTheFilter(t *testing.T) {
	script := `unshare -U true 2>&1 && echo allowed || echo refused`
	spec := shell(t, script)
	spec.Seccomp = true
	if got := run(t, spec, container.Joined{}); !strings.HasSuffix(got.out, "refused") {
		t.Errorf("with the filter, the output is %q, want it to end with \"refused\"", got.out)
	}
	wantOutput(t, shell(t, script), "allowed")
}

func TestOrdinaryProgramsRunUnderTheFilter(t *testing.T) {
	spec := shell(t, `(echo one; echo two) | sort -r | tail -n 1; sleep 0 & wait
		umask 022; touch /file && stat -c %a /file; id -u; exec date +%%`)
	spec.Seccomp, spec.NoNewPrivileges = true, true
	wantOutput(t, spec, "one\n644\n0\n%")
	spec.User, spec.Group, spec.Dir = 1234, 5678, "/dev/shm"
	spec.Args = []string{"/bin/sh", "-c", `echo hello > file && cat file; id -u`}
	wantOutput(t, spec, "hello\n1234")
}

func TestVolumeMounts(t *testing.T) {
	volume := t.TempDir()
	if err := os.WriteFile(filepath.Join(volume, "file"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := shell(t,
		`cat /deep/down/file; echo new > /deep/down/new; (echo x > /fixed/x) 2>/dev/null || echo refused; cat /one`)
	spec.Mounts = append(spec.Mounts,
		container.Mount{Source: volume, Target: "/deep/down"},
		container.Mount{Source: volume, Target: "/fixed", ReadOnly: true},
		container.Mount{Source: filepath.Join(volume, "file"), Target: "/one"})
	wantOutput(t, spec, "contentrefused\ncontent")
	if content, err := os.ReadFile(filepath.Join(volume, "new")); err != nil || string(content) != "new\n" {
		t.Errorf("the written file has content %q, %v", content, err)
	}
}

func TestSymlinkInImageStaysInside(t *testing.T) {
	outside, volume := t.TempDir(), t.TempDir()
	for name, link := range map[string]string{
		"absolute": outside,
		"relative": "../../../../../.." + outside,
		"dangling": outside + "/new",
	} {
		spec := shell(t, "ls -d /"+name+"/volume")
		if err := os.Symlink(link, filepath.Join(spec.Root.Dir, name)); err != nil {
			t.Fatal(err)
		}
		spec.Mounts = append(spec.Mounts, container.Mount{Source: volume, Target: "/" + name + "/volume"})
		wantOutput(t, spec, "/"+name+"/volume")
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("found %v outside of the container, %v; want nothing", left, err)
	}
}

func TestMaskedAndReadOnlyPaths(t *testing.T) {
	spec := shell(t,
		`cat /proc/version; ls /proc/scsi /proc/fs; (echo 1 > /proc/sys/kernel/hostname) 2>/dev/null || echo refused`)
	spec.Masked, spec.ReadOnly = []string{"/proc/version", "/proc/fs", "/proc/scsi", "/proc/nosuch"},
		[]string{"/proc/sys", "/proc/none"}
	got := run(t, spec, container.Joined{})
	if strings.Contains(got.out, "Linux") || !strings.HasSuffix(got.out, "refused") {
		t.Errorf("got output %q, want it to end with \"refused\", without \"Linux\"", got.out)
	}
}

func TestReadOnlyRootAllowsWritesToVolumes(t *testing.T) {
	spec := shell(t, `(echo x > /x) 2>/dev/null || echo refused; echo y > /volume/y && echo written`)
	spec.Root.ReadOnly = true
	spec.Mounts = append(spec.Mounts, container.Mount{Source: t.TempDir(), Target: "/volume"})
	wantOutput(t, spec, "refused\nwritten")
}

func TestLayersAreStacked(t *testing.T) {
	lower, upper := t.TempDir(), t.TempDir()
	for file, content := range map[string]string{lower + "/a": "low", lower + "/b": "low", upper + "/b": "high"} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	writable := t.TempDir()
	root := container.Root{
		Dir:    writable + "/root",
		Layers: []string{lower, upper},
		Upper:  writable + "/upper",
		Work:   writable + "/work",
	}
	for _, dir := range []string{root.Dir, root.Upper, root.Work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	spec := shell(t, `cat /a; cat /b; rm /a; echo more > /b; echo; ls /a 2>/dev/null; cat /b`)
	spec.Root = root
	wantOutput(t, spec, "lowhigh\nmore")
	if content, err := os.ReadFile(lower + "/a"); err != nil || string(content) != "low" {
		t.Errorf("the lower layer has content %q, %v; want low", content, err)
	}
	if content, err := os.ReadFile(upper + "/b"); err != nil || string(content) != "high" {
		t.Errorf("the upper layer has content %q, %v; want high", content, err)
	}
}

func TestImageVolumeSubPath(t *testing.T) {
	lower, upper, outside := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{lower + "/deep/part", upper + "/deep/part"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, content := range map[string]string{
		lower + "/deep/part/a": "low", upper + "/deep/part/b": "high", outside + "/secret": "secret",
	} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"inside": "deep/part",
		"out":    "../../../../../../../" + outside,
		"away":   outside,
	} {
		if err := os.Symlink(to, filepath.Join(upper, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, layers := range []string{lower + ":" + upper, upper} {
		low := "low"
		if layers == upper {
			low = ""
		}
		mounted := func(sub string) result {
			spec := shell(t,
				`cat /volume/a /volume/b /volume 2>/dev/null; echo x > /volume/x || echo x > /volume || echo; ls / | grep deep`)
			spec.Mounts = append(spec.Mounts, container.Mount{Source: layers, Image: true, SubPath: sub, Target: "/volume"})
			return run(t, spec, container.Joined{})
		}
		for sub, want := range map[string]string{"deep/part": low + "high", "inside": low + "high", "deep/part/b": "high"} {
			if got := mounted(sub); !strings.HasPrefix(got.out, want) || !strings.Contains(got.out, "Read-only") ||
				strings.HasSuffix(got.out, "deep") {
				t.Errorf("mounting the part %q of %s: got %+v, want %q", sub, layers, got, want)
			}
		}
	}
	for sub, want := range map[string]string{
		"../" + filepath.Base(outside): "points outside the image", "out/secret": "points outside the image",
		"away": "points outside the image", "/etc": "points outside the image", "nosuch": "no such file",
	} {
		spec := shell(t, "true")
		spec.Mounts = append(spec.Mounts,
			container.Mount{Source: lower + ":" + upper, Image: true, SubPath: sub, Target: "/volume"})
		if _, err := container.Start(spec, container.Joined{}, container.Streams{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("Start() with the part %q: error = %v, want one with %q", sub, err, want)
		}
	}
}

func TestContainersJoinPodNamespaces(t *testing.T) {
	set, err := namespace.NewSet(filepath.Join(t.TempDir(), "set"), "the-pod")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	joined := container.Joined{Namespaces: map[string]*os.File{}}
	for _, kind := range []string{"ipc", "uts"} {
		file, err := set.Open(kind)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		joined.Namespaces[kind] = file
	}
	script := `hostname; readlink /proc/self/ns/ipc`
	one, two := run(t, shell(t, script), joined), run(t, shell(t, script), joined)
	if one != two || !strings.HasPrefix(one.out, "the-pod\n") {
		t.Errorf("the containers printed %q and %q, want the same", one.out, two.out)
	}
}

func TestProgramEntersRunningContainer(t *testing.T) {
	spec := shell(t, `echo inside > /there; echo ready; exec sleep 100`)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	process, err := container.Start(spec, container.Joined{}, container.Streams{Out: write})
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = process.Kill()
		_, _ = process.Wait()
	}()
	if _, err := read.Read(make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	descriptor, err := unix.PidfdOpen(process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	first := os.NewFile(uintptr(descriptor), "first")
	defer first.Close()
	// The first process was still the shell when it signalled that it was ready.
	enter := shell(t, `cat /there; while [ "$(cat /proc/1/comm)" = sh ]; do :; done; cat /proc/1/comm`)
	enter.Enter = true
	if got := run(t, enter, container.Joined{Processes: first}); got.out != "inside\nsleep" {
		t.Errorf("got output %q, want the container's file and process", got.out)
	}
}

func TestNoProcessOutlivesItsContainer(t *testing.T) {
	spec := shell(t, `(setsid sleep 1000 &) ; (trap "" TERM HUP INT; sleep 1000) & sleep 0.1; exit 3`)
	if got := run(t, spec, container.Joined{}); got.code != 3 {
		t.Errorf("exit code = %d, want 3", got.code)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		if comm, _ := os.ReadFile("/proc/" + entry.Name() + "/comm"); string(comm) == "sleep\n" {
			t.Errorf("process %s outlived its container", entry.Name())
		}
	}
}
