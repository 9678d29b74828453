// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/limited"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/submission"
)

// scripted returns the scripts of testdata/submissions/scripts.txtar, in a cluster with icecreams and nothing else.
func scripted(t *testing.T) *scripts {
	t.Helper()
	have, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pool()
	if err != nil {
		t.Fatal(err)
	}
	lease := pool.Lease()
	t.Cleanup(lease.Return)
	st, err := lease.Start(t.Context(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := scope.Close(); err != nil {
			t.Error(err)
		}
	})
	opened, err := submission.Open(unpack(t, "scripts"), "")
	if err != nil {
		t.Fatal(err)
	}
	builder := &submission.Builder{Submission: opened, Scope: scope, ControllerGen: have.controllerGen}
	manifests, err := builder.Generate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	groups := []string{"demo.lva.io"}
	what := stage.Submission{Builder: builder, Manifests: manifests, Groups: groups}
	if _, err := st.Install(t.Context(), what, stage.Gateway{}); err != nil {
		t.Fatal(err)
	}
	watched := watchMachine()
	t.Cleanup(func() { watched.stop() })
	return &scripts{
		machine: watched, subject: &subject{builder: builder, cluster: st.Cluster(), groups: groups},
		kubectl: have.ControlPlane.Path,
	}
}

// administrator runs kubectl with all permissions.
func (s *scripts) administrator(t *testing.T, args ...string) string {
	t.Helper()
	output := limited.NewOutput(outputLimit)
	// The multicall program chooses its command by the name with which it is called.
	name := filepath.Join(s.builder.Scope.Dir, "kubectl")
	if err := os.Symlink(s.kubectl, name); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	p, err := s.builder.Scope.Start(process.Spec{
		Path: name, Args: append([]string{"--kubeconfig=" + s.cluster.Kubeconfig}, args...), Stdout: output, Stderr: output,
	})
	if err == nil {
		err = p.Wait(t.Context())
	}
	if err != nil {
		t.Fatalf("kubectl %q: %v\n%s", args, err, output.String())
	}
	return output.String()
}

func TestRescuerPermissions(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	s := scripted(t)
	write := func(name, content string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	sundae := write("sundae.yaml",
		"apiVersion: demo.lva.io/v1\nkind: Icecream\nmetadata:\n  name: sundae\n  finalizers: [a.example.com/b]\n")
	split := write("split.yaml",
		"apiVersion: demo.lva.io/v1\nkind: Icecream\nmetadata:\n  name: split\n")
	lease := write("lease.yaml",
		"apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata:\n  name: shop\n  namespace: default\n")
	s.administrator(t, "create", "-f", sundae, "-f", lease)
	before := digest(t, s.builder.Dir)
	for _, test := range []struct {
		line string
		// want is a part of the output. forbidden means that the API server refuses the request.
		want string
	}{
		{"kubectl auth whoami -o name", "selfsubjectreview.authentication.k8s.io/"},
		{"kubectl auth whoami -o jsonpath={.status.userInfo.username}", "system:serviceaccount:operator-system:rescuer"},
		{"kubectl get icecreams -o name", "icecream.demo.lva.io/sundae"},
		{"kubectl get leases -n default -o name", "lease.coordination.k8s.io/shop"},
		{
			`kubectl patch icecream sundae --type=merge -p {"metadata":{"finalizers":[]}}`,
			"icecream.demo.lva.io/sundae patched",
		},
		{"kubectl delete icecream sundae", `icecream.demo.lva.io "sundae" deleted`},
		{"kubectl create -f " + split, forbidden},
		{"kubectl delete customresourcedefinition icecreams.demo.lva.io", forbidden},
		{"kubectl delete lease shop -n default", forbidden},
		{"kubectl patch lease shop -n default -p {}", forbidden},
		{"kubectl get secrets -A", forbidden},
		{"kubectl get clusterroles", forbidden},
		{"kubectl delete validatingwebhookconfigurations x", forbidden},
		{"kubectl create token controller-manager -n operator-system", forbidden},
		{"kubectl create clusterrolebinding mine --clusterrole=cluster-admin --user=me", forbidden},
		{"kubectl get secrets -A --as=admin --as-group=system:masters", forbidden},
		{"kubectl get icecreams --as=system:serviceaccount:operator-system:controller-manager", forbidden},
	} {
		got, err := s.run(t.Context(), "zombie/try.sh", strings.Fields(test.line))
		switch {
		case err != nil:
			t.Errorf("%s: %v", test.line, err)
		case !strings.Contains(strings.ToLower(got.Text), strings.ToLower(test.want)) ||
			(got.Exit == 0) == (test.want == forbidden):
			t.Errorf("%s: want %q in the output, got exit code %d:\n%s", test.line, test.want, got.Exit, got.Text)
		}
	}
	if digest(t, s.builder.Dir) != before {
		t.Error("the submission's folder was changed")
	}
}

// forbidden is a part of kubectl's error for a 403, in any case.
const forbidden = "forbidden"

func TestRunScripts(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	s := scripted(t)
	home := filepath.Join(s.builder.Scope.Dir, "script")
	do := func(ctx context.Context, t *testing.T, script string, args ...string) *protocol.Output {
		t.Helper()
		got, err := s.run(ctx, "zombie/"+script, args)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	t.Run("separate folder and environment", func(t *testing.T) {
		first, second := do(t.Context(), t, "try.sh", "pwd"), do(t.Context(), t, "try.sh", "pwd")
		if !strings.HasPrefix(first.Text, home+"/") || first.Exit != 0 || first.Text == second.Text {
			t.Errorf("two scripts ran in %s and %s, want different folders below %s", first.Text, second.Text, home)
		}
		var names []string
		for line := range strings.Lines(do(t.Context(), t, "try.sh", "env").Text) {
			name, _, _ := strings.Cut(line, "=")
			names = append(names, name)
		}
		slices.Sort(names)
		// OPERATOR_LABS_SCOPE identifies the script's processes.
		want := []string{"HOME", "KUBECACHEDIR", "KUBECONFIG", "OPERATOR_LABS_SCOPE", "PATH", "PWD", "TMPDIR"}
		// Some shells set these.
		names = slices.DeleteFunc(names, func(name string) bool { return name == "_" || name == "OLDPWD" || name == "SHLVL" })
		if !slices.Equal(names, want) {
			t.Errorf("environment is %q, want %q", names, want)
		}
	})
	t.Run("exit code and output", func(t *testing.T) {
		if got := do(t.Context(), t, "echo.sh", "a", "", "c d"); got.Exit != 7 || got.Text != "[a][][c d]\nto stderr\n" {
			t.Errorf("exit code is %d and output %q", got.Exit, got.Text)
		}
		if got := do(t.Context(), t, "try.sh", "no-such-command"); got.Exit != 127 ||
			!strings.Contains(got.Text, "no-such-command") {
			t.Errorf("exit code is %d and output %q", got.Exit, got.Text)
		}
	})
	t.Run("missing script", func(t *testing.T) {
		if got, err := s.run(t.Context(), "zombie/none.sh", nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("run() = %+v, %v", got, err)
		}
	})
	t.Run("Windows line endings", func(t *testing.T) {
		const windows = "the script has Windows line endings (CRLF), and sh treats the CR as part of each line: " +
			"save it with LF, as `sed -i 's/\\r$//' zombie/"
		for script, content := range map[string]string{
			"windows.sh":         "#!/bin/sh\r\nset -eu\r\nexit 0\r\n",
			"windows-quiet.sh":   "echo order: sundae\r\n",
			"windows-comment.sh": "# order\r\necho order: sundae\n",
		} {
			if err := os.WriteFile(filepath.Join(s.builder.Dir, "zombie", script), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for script, refused := range map[string]bool{
			"echo.sh": false, "windows.sh": true, "windows-quiet.sh": true, "windows-comment.sh": false,
		} {
			if got := do(t.Context(), t, script); strings.HasPrefix(got.Problem, windows+script+"` does") != refused ||
				(got.Problem != "") != refused {
				t.Errorf("%s has the problem %q", script, got.Problem)
			}
		}
	})
	t.Run("background process is killed", func(t *testing.T) {
		got := do(t.Context(), t, "leave.sh")
		if _, err := strconv.Atoi(strings.TrimSpace(got.Text)); err != nil || got.Exit != 0 {
			t.Fatalf("exit code is %d and output %q", got.Exit, got.Text)
		}
		wantNone(t, home)
	})
	t.Run("script ends with its check", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if got := do(ctx, t, "hang.sh"); got.Exit != -1 ||
			got.Problem != "the script did not end, and was killed when its check timed out" {
			t.Errorf("exit code is %d and problem %q", got.Exit, got.Problem)
		}
		wantNone(t, home)
	})
	t.Run("output is limited", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		got := do(ctx, t, "flood.sh")
		if !strings.HasPrefix(got.Text, "again and again\n") || len(got.Text) != outputLimit {
			t.Errorf("kept %d bytes of the output, from %.40q", len(got.Text), got.Text)
		}
		wantNone(t, home)
	})
	t.Run("hanging script is killed", func(t *testing.T) {
		if limit := s.limit(); limit != scriptTimeout {
			t.Errorf("limit() = %s, want %s", limit, scriptTimeout)
		}
		s.timeout = 2 * time.Second
		began := time.Now()
		if got := do(t.Context(), t, "hang.sh"); got.Exit != -1 || got.Text != "begins\n" ||
			!strings.HasPrefix(got.Problem, "the script did not end, and was killed after ") {
			t.Errorf("exit code is %d, output %q and problem %q", got.Exit, got.Text, got.Problem)
		}
		if took := time.Since(began); took < s.timeout {
			t.Errorf("the script was killed after %s", took)
		}
		wantNone(t, home)
	})
	t.Run("busy machine extends the time limit", func(t *testing.T) {
		watched := s.machine
		defer func() { s.machine = watched }()
		s.machine = busyMachine(t, 2)
		s.timeout = time.Second
		began := time.Now()
		got := do(t.Context(), t, "hang.sh")
		if took := time.Since(began); got.Exit != -1 || took < 3*s.timeout || s.machine.wasCut() {
			t.Errorf("the script ended with %d after %s, want a third of the time counted", got.Exit, took)
		}
		s.timeout = scriptTimeout
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if do(ctx, t, "hang.sh"); !s.machine.wasCut() {
			t.Error("the check ended before the script's time limit, but the run is not marked as cut short")
		}
		wantNone(t, home)
	})
}

// In a lab whose checks deploy the submission, scripts read its workloads, several scripts at a time.
func TestWatcherPermissions(t *testing.T) {
	t.Parallel()
	s := scripted(t)
	s.delivery = &stage.Delivery{}
	var running sync.WaitGroup
	for _, test := range []struct {
		line string
		want string // as in TestRescuerPermissions, and empty for an empty list
	}{
		{"kubectl get icecreams -o name", ""},
		{"kubectl get pods,services,events -A -o name", "service/kubernetes"},
		{"kubectl get ingresses -A -o name", ""},
		{"kubectl get secrets -A", forbidden},
		{"kubectl get configmaps -A", forbidden},
		{"kubectl delete icecream sundae", forbidden},
		{"kubectl delete service kubernetes -n default", forbidden},
		{"kubectl run pod --image=probe -n default", forbidden},
	} {
		running.Go(func() {
			got, err := s.run(t.Context(), "zombie/try.sh", strings.Fields(test.line))
			switch {
			case err != nil:
				t.Errorf("%s: %v", test.line, err)
			case !strings.Contains(strings.ToLower(got.Text), test.want) || (got.Exit == 0) == (test.want == forbidden):
				t.Errorf("%s: want %q in the output, got exit code %d:\n%s", test.line, test.want, got.Exit, got.Text)
			}
		})
	}
	running.Wait()
}

// wantNone checks that no running process has a home folder in this one. It waits a little, because a killed process
// takes a moment to die.
func wantNone(t *testing.T, home string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	giveUp := time.After(5 * time.Second)
	for {
		var left []string
		processes, err := filepath.Glob("/proc/[0-9]*")
		if err != nil || len(processes) == 0 {
			t.Fatalf("found no processes: %v", err)
		}
		for _, process := range processes {
			environment, _ := os.ReadFile(filepath.Join(process, "environ")) // one that ended meanwhile has none
			if strings.Contains(string(environment), "HOME="+home+"/") {
				command, _ := os.ReadFile(filepath.Join(process, "cmdline"))
				left = append(left, strings.ReplaceAll(string(command), "\x00", " "))
			}
		}
		if len(left) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-giveUp:
			t.Fatalf("still running: %q", left)
		}
	}
}
