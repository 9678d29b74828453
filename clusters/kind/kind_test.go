// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lva.io/operators/clusters/docker"
)

func load(t *testing.T, name string) *Profile {
	t.Helper()
	profile, err := LoadProfile(name)
	if err != nil {
		t.Fatal(err)
	}
	return profile
}

func TestProfilesFitTheCourse(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string]int{"student": 2, "classroom": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			profile := load(t, name)
			if profile.Nodes() != nodes || profile.ControlPlanes() != 1 {
				t.Errorf("got %d nodes and %d control planes, want %d and 1", profile.Nodes(), profile.ControlPlanes(), nodes)
			}
			if !profile.ToleratesCgroupV1() {
				t.Error("the kubelets would not start with cgroup v1")
			}
			if network := profile.cluster.Networking; !network.DisableDefaultCNI || network.KubeProxyMode != "none" {
				t.Error("it has a network of kind's or kube-proxy, where Cilium is to be")
			}
			cluster, err := profile.forCluster("mine", "/folder")
			if err != nil {
				t.Fatal(err)
			}
			if mount := cluster.Nodes[0].ExtraMounts[0]; mount.HostPath != "/folder/audit-policy.yaml" {
				t.Errorf("the audit policy is mounted from %s", mount.HostPath)
			}
			if !strings.Contains(cluster.Nodes[0].KubeadmConfigPatchesJSON6902[0].Patch, docker.AuditLog) {
				t.Errorf("the API server writes no audit log to %s", docker.AuditLog)
			}
		})
	}
}

func TestSharedAPIServerHasHostNames(t *testing.T) {
	t.Parallel()
	cluster, err := load(t, "classroom").forCluster("mine", "/folder")
	if err != nil {
		t.Fatal(err)
	}
	last := cluster.KubeadmConfigPatchesJSON6902[len(cluster.KubeadmConfigPatchesJSON6902)-1]
	var patch []struct{ Op, Path, Value string }
	if err := json.Unmarshal([]byte(last.Patch), &patch); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(last.Patch, `"`+host+`"`) || !strings.Contains(last.Patch, `"127.0.0.1"`) ||
		patch[0].Path != "/apiServer/certSANs/-" {
		t.Errorf("certificate names = %s", last.Patch)
	}
	alone, err := load(t, "student").forCluster("mine", "/folder")
	if err != nil {
		t.Fatal(err)
	}
	if len(alone.KubeadmConfigPatchesJSON6902) != 0 {
		t.Error("the certificate has more names, although only this machine reaches the API server")
	}
}

func TestInvalidProfileIsAnError(t *testing.T) {
	t.Parallel()
	const head = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n"
	for name, test := range map[string]struct{ content, want string }{
		"not YAML":         {"\t", "not kind's configuration"},
		"an unknown field": {head + "nodez: []\nnodes: [{role: control-plane}]\n", "nodez"},
		"another version":  {"kind: Cluster\napiVersion: v1\nnodes: [{role: control-plane}]\n", "v1alpha4"},
		"a name":           {head + "name: mine\nnodes: [{role: control-plane}]\n", "--name"},
		"a wrong role":     {head + "nodes: [{role: master}]\n", "not \"master\""},
		"no control plane": {head + "nodes: [{role: worker}]\n", "control-plane"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := parseProfile("mine", []byte(test.content)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want it to contain %q", err, test.want)
			}
		})
	}
	if _, err := LoadProfile("../secret"); err == nil || !strings.Contains(err.Error(), "classroom, student") {
		t.Errorf("error = %v, want the names of the profiles", err)
	}
}

func TestProfileHashFollowsItsContent(t *testing.T) {
	t.Parallel()
	const head = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes: [{role: control-plane}]\n"
	first, err := parseProfile("mine", []byte(head))
	if err != nil {
		t.Fatal(err)
	}
	second, err := parseProfile("mine", []byte(head+"# a word\n"))
	if err != nil {
		t.Fatal(err)
	}
	if first.Hash == second.Hash {
		t.Error("the hash is unchanged after an edit")
	}
}

// healthyFacts returns the facts of a machine on which nothing is wrong.
func healthyFacts() Facts {
	return Facts{
		Version: "29.1.3", Cgroup: "2", Kernel: "6.12.57-amd64",
		Memory: 16 * gigabyte, Available: 12 * gigabyte, DiskFree: 100 * gigabyte,
		Root: "/var/lib/docker", InotifyInstances: 1024, InotifyWatches: 1 << 20, InstancesFree: 1000,
	}
}

func TestPreflightNamesProblemsAndFixes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		profile string
		change  func(*Facts)
		fatal   bool
		want    string // "" if nothing is wrong
	}{
		"nothing wrong": {"student", func(*Facts) {}, false, ""},
		"no docker":     {"student", func(f *Facts) { *f = Facts{Missing: true} }, true, "apt-get install docker.io"},
		"no permission": {"student", func(f *Facts) {
			*f = Facts{Unreachable: "permission denied while trying to connect to the Docker daemon socket"}
		}, true, "usermod -aG docker"},
		"no engine": {"student", func(f *Facts) {
			*f = Facts{Unreachable: "Cannot connect to the Docker daemon at unix:///var/run/docker.sock"}
		}, true, "systemctl start docker"},
		"an old engine":             {"student", func(f *Facts) { f.Version = "19.03.15" }, true, "20.10"},
		"an engine just new enough": {"student", func(f *Facts) { f.Version = "20.10.24+dfsg1" }, false, ""},
		"an old kernel":             {"student", func(f *Facts) { f.Kernel = "4.19.0-27-amd64" }, true, "5.10"},
		"cgroup v1":                 {"student", func(f *Facts) { f.Cgroup = "1" }, false, "failCgroupV1"},
		"cgroup v1 without root": {
			"student", func(f *Facts) { f.Cgroup, f.Rootless = "1", true }, true,
			"unified_cgroup_hierarchy",
		},
		"a small virtual machine": {"student", func(f *Facts) { f.Memory = 2 * gigabyte }, true, "memory"},
		"memory taken by others":  {"classroom", func(f *Facts) { f.Available = 3 * gigabyte }, true, "docker ps"},
		"a full disk":             {"student", func(f *Facts) { f.DiskFree = gigabyte }, true, "docker system prune"},
		"few inotify instances":   {"classroom", func(f *Facts) { f.InstancesFree = 20 }, true, "max_user_instances"},
		"a low limit, not root": {
			"classroom", func(f *Facts) { f.InotifyInstances, f.InstancesFree = 64, -1 }, true,
			"max_user_instances",
		},
		"few inotify watches": {"student", func(f *Facts) { f.InotifyWatches = 2048 }, true, "max_user_watches"},
		"a port in use": {"classroom", func(f *Facts) {
			f.Taken = map[int]string{0: "the container other"}
		}, true, "the container other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts := healthyFacts()
			test.change(&facts)
			problems := facts.Problems(load(t, test.profile), false)
			if test.want == "" {
				if len(problems) > 0 {
					t.Errorf("problems = %v, want none", problems)
				}
				return
			}
			if len(problems) != 1 || problems[0].Fatal != test.fatal || !strings.Contains(problems[0].String(), test.want) {
				t.Errorf("problems = %v, want one, fatal: %t, with %q", problems, test.fatal, test.want)
			}
		})
	}
}

func TestDiskSpaceForImagesAndNodes(t *testing.T) {
	t.Parallel()
	profile, err := LoadProfile("student")
	if err != nil {
		t.Fatal(err)
	}
	need := diskOf(profile) + imagesDisk
	for _, test := range []struct {
		free int64
		full bool
	}{{need, false}, {need - 1, true}, {1, true}, {0, false}} { // 0: unknown
		if problem, full := diskProblem("/data", test.free, need, "a cluster", checkoutDiskFix); full != test.full ||
			full && !problem.Fatal {
			t.Errorf("with %d bytes free of %d: full %t (%s), want %t", test.free, need, full, problem, test.full)
		}
	}
	if problem, full := CheckDiskSpace(filepath.Join(t.TempDir(), "missing"), profile); full {
		t.Errorf("problem of a missing folder = %s", problem)
	}
	// The user has no Docker yet.
	problem, _ := CheckDiskSpace(t.TempDir(), profile)
	if strings.Contains(problem.Fix, "docker") || !strings.Contains(problem.Fix, "make clean") {
		t.Errorf("fix = %s", problem.Fix)
	}
}

func TestExistingClusterNeedsNoDiskSpace(t *testing.T) {
	t.Parallel()
	facts := healthyFacts()
	facts.Available, facts.DiskFree, facts.InotifyInstances = 1, 1, 40
	if problems := facts.Problems(load(t, "student"), true); len(problems) > 0 {
		t.Errorf("problems = %v, want none", problems)
	}
}

func TestUntoleratedCgroupV1IsFatal(t *testing.T) {
	t.Parallel()
	profile, err := parseProfile("mine", []byte(
		"kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes: [{role: control-plane}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	facts := healthyFacts()
	facts.Cgroup = "1"
	if problems := facts.Problems(profile, false); len(problems) != 1 || !problems[0].Fatal {
		t.Errorf("problems = %v", problems)
	}
}

func TestParseEngineInfo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		output      string
		err         error
		unreachable string
	}{
		"an engine": {`{"ServerVersion":"20.10.24","CgroupVersion":"1","SecurityOptions":["name=rootless"]}`, nil, ""},
		"no engine": {
			`{"ServerErrors":["Cannot connect to the Docker daemon"]}`,
			&docker.Error{Stderr: "exit", Err: errors.New("exit status 1")}, "Cannot connect",
		},
		"no engine, old": {
			"", &docker.Error{Stderr: "permission denied", Err: errors.New("exit status 1")},
			"permission denied",
		},
		"podman, named docker": {`{"host":{"arch":"amd64"},"version":{"Version":"4.3.1"}}`, nil, "podman"},
		"something else":       {"hello", nil, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts := &Facts{}
			facts.engine(test.output, test.err)
			if (test.unreachable == "") != (facts.Unreachable == "") || !strings.Contains(facts.Unreachable, test.unreachable) {
				t.Errorf("got %q, want %q", facts.Unreachable, test.unreachable)
			}
			if test.unreachable == "" && !facts.Rootless {
				t.Error("Rootless is not set for an engine without root")
			}
		})
	}
}

func TestOccupiedPortNamesItsOwner(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed below
	if err != nil {
		t.Fatal(err)
	}
	number := listener.Addr().(*net.TCPAddr).Port
	owner, is := taken(t.Context(), Port{Address: "127.0.0.1", Number: number, Protocol: "tcp"})
	if !is {
		t.Fatal("the port's owner was not found")
	}
	if _, err := os.Stat("/proc/net/tcp"); err == nil && !strings.Contains(owner, strconv.Itoa(os.Getpid())) {
		t.Errorf("owner = %s, want our process %d", owner, os.Getpid())
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if owner, is := taken(t.Context(), Port{Address: "127.0.0.1", Number: number, Protocol: "tcp"}); is {
		t.Errorf("owner of a free port = %s", owner)
	}
}

func TestRegistryDetection(t *testing.T) {
	t.Parallel()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(registry.Close)
	portal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(portal.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if err := answer(t.Context(), []string{registry.URL}); err != nil {
		t.Errorf("a registry that requires authentication: error = %v", err)
	}
	if err := answer(t.Context(), []string{registry.URL, portal.URL}); err == nil ||
		!strings.Contains(err.Error(), "403") {
		t.Errorf("a captive portal: error = %v", err)
	}
	if err := answer(t.Context(), []string{registry.URL, gone.URL}); err == nil {
		t.Error("no error for a server that does not listen")
	}
}

func TestLogsAreSearchedForKnownProblems(t *testing.T) {
	t.Parallel()
	for log, want := range map[string]string{
		"Failed to create inotify object: Too many open files":                                       "max_user_instances",
		"kubelet is configured to not run on a host using cgroup v1":                                 "failCgroupV1",
		"Bind for 127.0.0.1:30080 failed: port is already allocated":                                 "clusters/config/kind",
		"write /var/lib/docker/tmp/x: no space left on device":                                       "docker system df",
		"docker: Error response from daemon: unable to apply caps: operation not permitted: unknown": "engine start",
		"all is well": "",
	} {
		if got := hint(log); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("hint(%q) = %q, want %q", log, got, want)
		}
	}
}

func TestKindMessagesHaveNoDecoration(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		" • Preparing nodes 📦 📦   ...\n": "Preparing nodes",
		" ✓ Preparing nodes 📦 📦 \n":      "",
		"Creating cluster \"a\" ...\n":   "Creating cluster \"a\"",
		"":                               "",
	} {
		if got := plain(output); got != want {
			t.Errorf("plain(%q) = %q, want %q", output, got, want)
		}
	}
}

func TestNodeIsReadyWhenItAcceptsPods(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{}
	if nodeState(node).Ready {
		t.Error("the node is ready, although its kubelet has not reported")
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
	if state := nodeState(node); !state.Ready {
		t.Errorf("the node is not ready: %s", state.Why)
	}
	node.Spec.Taints = append(node.Spec.Taints,
		corev1.Taint{Key: "node.cilium.io/agent-not-ready", Effect: corev1.TaintEffectNoExecute})
	if state := nodeState(node); state.Ready || !strings.Contains(state.Why, "agent-not-ready") {
		t.Errorf("a node that accepts no Pods is ready: %t, %s", state.Ready, state.Why)
	}
}

func TestGuardedProcessEndsAtDeadline(t *testing.T) {
	cluster, err := New(t.TempDir(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	late := errors.New("it was not done in time")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, late)
	defer cancel()
	began := time.Now()
	err = cluster.guarded(ctx, func(string) {}, func() error {
		// Like kind, it takes no context.
		return exec.Command("sleep", "60").Run() //nolint:noctx // that is the point
	})
	if !errors.Is(err, late) || time.Since(began) > 10*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	if marker, found := os.LookupEnv("OPERATOR_LABS_SCOPE"); found {
		t.Errorf("programs that start later would also end: %s", marker)
	}
}

func TestClusterNameIsValidContainerName(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"operator-labs": true, "a": true,
		"": false, "-a": false, "A": false, "a b": false, "../a": false, strings.Repeat("a", 41): false,
	} {
		cluster, err := New("/checkout", name)
		if (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
		if good && cluster.Kubeconfig() != filepath.Join("/checkout/.cache/kind", name, "kubeconfig") {
			t.Errorf("its kubeconfig is %s", cluster.Kubeconfig())
		}
	}
}
