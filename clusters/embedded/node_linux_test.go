// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/node"
)

const (
	probeImage = "operator-labs/probe:v1"
	// partsVariable names the folder with a node's programs and images, for a role.
	partsVariable = "OPERATOR_LABS_TEST_PARTS"
)

func init() {
	roles["owner-with-node"] = func(program *multicall.Program) error {
		cluster, err := StartWithNode(context.Background(), program, partsIn(os.Getenv(partsVariable)))
		if err != nil {
			return err
		}
		printOwned(owned{Dir: cluster.Dir, Port: cluster.port.Port, PIDs: cluster.PIDs()})
		waitForLine()
		return cluster.Stop()
	}
}

// partsIn returns the parts of a node in one folder.
func partsIn(dir string) NodeParts {
	return NodeParts{
		Programs: node.Programs{Init: filepath.Join(dir, "init"), Agent: filepath.Join(dir, "agent")},
		Images:   filepath.Join(dir, "images"),
	}
}

// ensureParts builds the parts of a node, and the image of the course's own web server.
var ensureParts = sync.OnceValues(func() (NodeParts, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return NodeParts{}, err
	}
	parts := NodeParts{Programs: node.ProgramsOf(root)}
	if err := parts.Programs.Ensure(context.Background()); err != nil {
		return parts, err
	}
	catalogue, err := images.Load()
	if err != nil {
		return parts, err
	}
	probe, err := catalogue.Image(probeImage)
	if err != nil {
		return parts, err
	}
	store := images.StoreOf(root)
	parts.Images = store.Dir
	_, err = store.Ensure(context.Background(), []images.Image{probe}, nil)
	return parts, err
})

func nodeParts(t *testing.T) NodeParts {
	t.Helper()
	parts, err := ensureParts()
	if err != nil {
		t.Fatal(err)
	}
	const variable = "OPERATOR_LABS_NAMESPACES" // CI sets it to "required"
	if err := node.Probe(t.Context(), parts.Programs); errors.As(err, new(*node.Unavailable)) &&
		os.Getenv(variable) != "required" {
		t.Skipf("this machine can have no node, CI sets %s=required: %v", variable, err)
	} else if err != nil {
		t.Fatal(err)
	}
	return parts
}

// runWeb runs a web server as a Pod and waits until it is ready.
func runWeb(t *testing.T, client kubernetes.Interface, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: probeImage,
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
			ReadinessProbe: &corev1.Probe{
				PeriodSeconds: 1,
				ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}},
			},
		}}},
	}
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Pod "+name+" is ready", func() (ready bool, err error) {
		if pod, err = pods.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return false, err
		}
		for _, condition := range pod.Status.Conditions {
			ready = ready || condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
		}
		return ready, nil
	})
	return pod
}

// kubectl runs the program's kubectl as the cluster's administrator.
func kubectl(t *testing.T, program *multicall.Program, kubeconfig string, args ...string) (output string, code int) {
	t.Helper()
	cmd := exec.CommandContext(
		t.Context(), program.Path, append([]string{"kubectl", "--kubeconfig", kubeconfig}, args...)...,
	)
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
}

// inside returns the processes in the node that a process of the machine has started. It finds them by the user
// namespace of that process's child.
func inside(t *testing.T, host int) map[int]string {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", host, host))
	first := strings.Fields(string(children))
	for task := 0; len(first) == 0 && task < 50; task++ { // another of its threads has the child
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", host))
		for _, file := range tasks {
			if content, readErr := os.ReadFile(file); readErr == nil {
				first = append(first, strings.Fields(string(content))...)
			}
		}
	}
	// Another child may be the program that builds an image.
	first = slices.DeleteFunc(first, func(pid string) bool {
		line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		return !strings.HasPrefix(string(line), "operator-labs-node")
	})
	if len(first) == 0 {
		t.Fatalf("the node has no first process: %v", err)
	}
	namespace, err := os.Readlink("/proc/" + first[0] + "/ns/user")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]string{}
	all, _ := filepath.Glob("/proc/[0-9]*/ns/user")
	for _, file := range all {
		if other, err := os.Readlink(file); err == nil && other == namespace {
			process := filepath.Dir(filepath.Dir(file))
			pid, _ := strconv.Atoi(filepath.Base(process))
			line, _ := os.ReadFile(process + "/cmdline")
			name, _, _ := strings.Cut(string(line), "\x00")
			found[pid] = filepath.Base(name)
		}
	}
	return found
}

// pidOf finds a process of the node by its program's name.
func pidOf(t *testing.T, processes map[int]string, name string) int {
	t.Helper()
	for pid, is := range processes {
		if is == name {
			return pid
		}
	}
	t.Fatalf("no process %q among %v", name, processes)
	return 0
}

// Add-ons are installed while the node starts. If one fails, the start returns its error, and leaves nothing of the
// cluster.
func TestFailedAddOnStopsTheCluster(t *testing.T) {
	t.Parallel()
	failed := errors.New("no such chart")
	var started owned
	cluster, err := StartWithNode(t.Context(), controlPlane(t), nodeParts(t), func(ctx context.Context, c *Cluster) error {
		started = owned{Dir: c.Dir, Port: c.port.Port, PIDs: c.PIDs()}
		_, err := clientOf(t, c).CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
		return errors.Join(failed, err)
	})
	if cluster != nil || !errors.Is(err, failed) || err.Error() != failed.Error() {
		t.Errorf("got cluster %v and error %v, want no cluster and the error of the add-on", cluster, err)
	}
	wantGone(t, started)
}

// This is one test, because a node takes seconds to start.
func TestNodeRunsPodsAndRecoversFromKills(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	parts, program := nodeParts(t), controlPlane(t)
	cluster, err := StartWithNode(t.Context(), program, parts)
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			_ = cluster.Stop()
		}
	})
	client := clientOf(t, cluster)
	pod := runWeb(t, client, "web")

	if output, code := kubectl(
		t, program, cluster.Kubeconfig, "exec", "web", "--", "/probe", "get", "http://127.0.0.1:8080",
	); code != 0 || !strings.HasPrefix(output, "web answers") {
		t.Errorf("exec of the probe returned %q and exit code %d, want an answer and 0", output, code)
	}
	if output, code := kubectl(t, program, cluster.Kubeconfig, "exec", "web", "--", "/probe", "nonsense"); code != 1 ||
		!strings.Contains(output, "usage") {
		t.Errorf("exec with wrong arguments returned %q and exit code %d, want the usage and 1", output, code)
	}
	if output, _ := kubectl(t, program, cluster.Kubeconfig,
		"get", "--raw", "/api/v1/namespaces/default/pods/web:8080/proxy/"); !strings.HasPrefix(output, "web answers") {
		t.Errorf("through the API server, the Pod returned %q", output)
	}

	wantKubeletGuarded(t, cluster, program)

	before := inside(t, cluster.PIDs()["node"])
	for _, name := range []string{"agent", "kubelet"} {
		if err := syscall.Kill(pidOf(t, before, name), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the agent and the kubelet have been restarted", func() (bool, error) {
		now := inside(t, cluster.PIDs()["node"])
		again := 0
		for pid, name := range now {
			if was := before[pid] != ""; !was && (name == "agent" || name == "kubelet") {
				again++
			}
		}
		return again == 2, nil
	})
	other := runWeb(t, client, "other")
	if other.Status.PodIP == pod.Status.PodIP {
		t.Errorf("two Pods have the address %s", pod.Status.PodIP)
	}
	now, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || now.Status.ContainerStatuses[0].RestartCount != 0 ||
		now.Status.ContainerStatuses[0].ContainerID != pod.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("status of the earlier Pod = %+v, %v, want its container not restarted", now.Status, err)
	}
	if output, code := kubectl(t, program, cluster.Kubeconfig,
		"exec", "web", "--", "/probe", "get", "http://"+other.Status.PodIP+":8080"); code != 0 {
		t.Errorf("from Pod to Pod, the probe returned %q and exit code %d, want 0", output, code)
	}

	// Such a patch would crash the kubelet.
	output, code := kubectl(t, program, cluster.Kubeconfig, "patch", "pod", "web", "--subresource=resize", "--patch",
		`{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"20m"}}}]}}`)
	if code == 0 || !strings.Contains(output, "can't be resized in place") {
		t.Errorf("resizing a Pod returned exit code %d, want an error: %s", code, output)
	}

	if err := client.CoreV1().Pods(metav1.NamespaceDefault).Delete(
		t.Context(), "web", metav1.DeleteOptions{},
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Pod is gone", func() (bool, error) {
		_, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "web", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})

	last := inside(t, cluster.PIDs()["node"])
	was := owned{Dir: cluster.Dir, Port: cluster.port.Port, PIDs: cluster.PIDs()}
	if err := cluster.Stop(); err != nil {
		t.Error(err)
	}
	stopped = true
	wantGone(t, was)
	wantEnded(t, last)
}

// wantKubeletGuarded connects to the kubelet's port without a credential, and uses the kubelet's own credential for
// requests that it must not allow.
func wantKubeletGuarded(t *testing.T, cluster *Cluster, program *multicall.Program) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, //nolint:gosec // it must refuse us
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			connection, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(cluster.Dir, nodeEgress))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(connection, "CONNECT %s HTTP/1.1\r\n\r\n", address)
			answer := make([]byte, len("HTTP/1.1 200 connected\r\n\r\n"))
			if _, err := io.ReadFull(connection, answer); err != nil || !strings.Contains(string(answer), " 200 ") {
				return nil, fmt.Errorf("the tunnel to the node answers %q: %w", answer, err)
			}
			return connection, nil
		},
	}}
	for _, path := range []string{"/pods", "/exec/default/web/web?command=id", "/metrics"} {
		response, err := client.Get("https://" + nodeIP.String() + ":10250" + path)
		if err != nil {
			t.Error(err)
			continue
		}
		response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("without a credential, got status %s for the kubelet's %s, want 401", response.Status, path)
		}
	}
	kubelet := filepath.Join(cluster.Dir, kubeletKubeconfig)
	for _, args := range [][]string{
		{"get", "secrets", "--all-namespaces"},
		{"create", "namespace", "mine"},
		{"label", "node", NodeName, "node-role.kubernetes.io/control-plane=yes"},
	} {
		if output, code := kubectl(t, program, kubelet, args...); code == 0 ||
			!strings.Contains(output, "forbidden") && !strings.Contains(output, "Forbidden") {
			t.Errorf("the kubelet's credential allows %v: %s", args, output)
		}
	}
	if output, code := kubectl(t, program, kubelet, "get", "node", NodeName); code != 0 {
		t.Errorf("the kubelet's credential does not allow reading its own node: %s", output)
	}
}

func wantEnded(t *testing.T, processes map[int]string) {
	t.Helper()
	for pid, name := range processes {
		eventually(t, name+" of the node has ended", func() (bool, error) { return !runs(pid), nil })
	}
}

// The test kills each process of a node in turn, and the node's owner. Where we are root, an ordinary user runs the
// node.
func TestKilledNodeLeavesNoProcess(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	original := nodeParts(t)
	program := *controlPlane(t)
	home, err := os.MkdirTemp("", "operator-labs-test-") //nolint:usetesting // t.TempDir lies in a folder that only we can enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	executable := filepath.Join(home, "test")
	for from, to := range map[string]string{
		testExecutable(t):       "test",
		program.Path:            "controlplane",
		original.Programs.Init:  "init",
		original.Programs.Agent: "agent",
	} {
		copyFile(t, from, filepath.Join(home, to))
	}
	program.Path = filepath.Join(home, "controlplane")
	const nobody = 65534
	if os.Getuid() == 0 {
		if err := filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, nobody, nobody))
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, victim := range []string{"owner", "host", "first"} {
		owner := newActor(t, "owner-with-node", executable, &program, home, partsVariable+"="+home)
		if os.Getuid() == 0 {
			owner.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		owner.launch(t)
		o := owner.readOwned(t)
		processes := inside(t, o.PIDs["node"])
		pidOf(t, processes, "kubelet")
		switch victim {
		case "owner":
			owner.kill()
		case "host":
			_ = syscall.Kill(o.PIDs["node"], syscall.SIGKILL)
		case "first":
			_ = syscall.Kill(pidOf(t, processes, "operator-labs-node"), syscall.SIGKILL)
		}
		wantEnded(t, processes)
		owner.kill()
		wantGone(t, o)
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil || strings.Contains(string(mounts), o.Dir) {
			t.Errorf("after the %s was killed, mounts of the node remain: %v", victim, err)
		}
	}
}

func TestLimitsCondition(t *testing.T) {
	t.Parallel()
	for limits, want := range map[node.Limits]string{
		{Memory: true, CPU: true}: "True: memory and CPU limits of containers are enforced",
		{Memory: true}: "False: memory limits of containers are enforced; " +
			"CPU limits are accepted but not enforced on this node",
		{CPU: true}: "False: CPU limits of containers are enforced; " +
			"memory limits are accepted but not enforced on this node",
		{}: "False: memory and CPU limits of containers are accepted but not enforced on this node",
	} {
		if got := limitsConditionOf(limits); string(got.Status)+": "+got.Message != want {
			t.Errorf("limitsConditionOf(%+v) = %s: %s, want %s", limits, got.Status, got.Message, want)
		}
	}
}
