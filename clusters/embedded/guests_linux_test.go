// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/node/builds"
)

const guestImage = "test/guest:v1"

func init() {
	// The files that Pods write are on a disk of their own. No other process sees the disk, and it is removed with the
	// last process of the playground.
	roles["up on a small disk"] = func(program *multicall.Program) error {
		playground := &Playground{Dir: os.Getenv(dirVariable)}
		disk := filepath.Join(playground.Dir, "node", "var")
		if err := errors.Join(
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			os.MkdirAll(disk, 0o700),
			unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"),
		); err != nil {
			return err
		}
		if _, err := playground.UpWithNode(context.Background(), program, partsIn(os.Getenv(partsVariable))); err != nil {
			return err
		}
		printOwned(owned{Dir: playground.Dir})
		return nil
	}
}

// guests is a cluster with a node that has one image, of node/nodetest/guest, and can't build any other.
type guests struct {
	*Cluster
	program *multicall.Program
	client  kubernetes.Interface
}

// guestParts returns the parts of a node, and a store with one image.
func guestParts(t *testing.T) NodeParts {
	t.Helper()
	parts := nodeParts(t)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	guest := gobuild.Target{
		Package: "./node/nodetest/guest",
		Module:  filepath.Join(root, "clusters"),
		Output:  filepath.Join(root, ".cache", "node", "guest"),
	}
	if err := guest.Ensure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	store := images.StoreOf(root)
	store.Dir = t.TempDir()
	if _, err := store.FromProgram(t.Context(), guestImage, guest.Output); err != nil {
		t.Fatal(err)
	}
	parts.Images = store.Dir
	return parts
}

func startGuests(t *testing.T) *guests {
	t.Helper()
	parts, program := guestParts(t), controlPlane(t)
	words := filepath.Join(t.TempDir(), "words")
	output := slices.Concat(builds.Progress("1 of 9 packages compiled"),
		builds.Progress("5 of 9 packages compiled"),
		builds.Answer(errors.New("slow.go:1: no such word")))
	if err := os.WriteFile(words, output, 0o600); err != nil {
		t.Fatal(err)
	}
	parts.Programs.Builder = []string{"/bin/sh", "-c", `cat "$0"`, words}
	cluster, err := StartWithNode(t.Context(), program, parts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &guests{cluster, program, clientOf(t, cluster)}
}

// createPod runs a guest as a Pod with a grace period of one second.
func (g *guests) createPod(t *testing.T, name string, args []string, change ...func(*corev1.Pod)) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](1), RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "guest", Image: guestImage, Args: args}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	if _, err := g.client.CoreV1().Pods(metav1.NamespaceDefault).Create(
		t.Context(), pod, metav1.CreateOptions{},
	); err != nil {
		t.Fatal(err)
	}
}

// await waits until condition returns true for a Pod.
func (g *guests) await(t *testing.T, name, what string, condition func(*corev1.Pod) bool) (pod *corev1.Pod) {
	t.Helper()
	within(t, time.Minute, name+" "+what, func() (ready bool, err error) {
		pod, err = g.client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && condition(pod), err
	})
	return pod
}

// wantLog waits until the log of a Pod has these lines.
func (g *guests) wantLog(t *testing.T, name string, lines ...string) {
	t.Helper()
	g.await(t, name, "has started", func(pod *corev1.Pod) bool { return pod.Status.Phase != corev1.PodPending })
	want := strings.Join(lines, "\n")
	var last string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(last)
		}
	})
	eventually(t, name+" prints "+want, func() (bool, error) {
		output, code := kubectl(t, g.program, g.Kubeconfig, "logs", name)
		last = fmt.Sprintf("kubectl logs %s ended with %d and printed %q", name, code, output)
		return code == 0 && output == want, nil
	})
}

// remove deletes a Pod and waits until it is gone.
func (g *guests) remove(t *testing.T, name string) {
	t.Helper()
	pods := g.client.CoreV1().Pods(metav1.NamespaceDefault)
	if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, name+" is gone", func() (bool, error) {
		_, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// events waits until a Pod has an Event with a reason and a message, and returns all Events with that reason.
func (g *guests) events(t *testing.T, name, reason, message string) (found []corev1.Event) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s has an Event %s: %s", name, reason, message), func() (bool, error) {
		all, err := g.client.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return false, err
		}
		found = slices.DeleteFunc(all.Items, func(e corev1.Event) bool { return e.Reason != reason })
		return slices.ContainsFunc(found, func(e corev1.Event) bool { return strings.Contains(e.Message, message) }), nil
	})
	return found
}

// The node survives programs that misbehave, and reports correctly how they ended. This is one test, because a node
// takes seconds to start.
func TestNodeSurvivesMisbehavingPods(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	g := startGuests(t)
	t.Run("all at once", func(t *testing.T) {
		for name, behave := range map[string]func(t *testing.T, name string){
			"ignores-sigterm":  g.ignoresSIGTERM,
			"spawns-processes": g.spawnsProcesses,
			"leaves-zombies":   g.leavesZombies,
			"exits":            g.exits,
			"floods-log":       g.floodsLog,
			"fills-memory":     g.fillsMemory,
			"fills-disk":       g.fillsDisk,
			"waits-for-image":  g.waitsForImage,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				behave(t, name)
			})
		}
	})
	t.Run("taken port", g.takenPort)
	for pid, name := range inside(t, g.PIDs()["node"]) {
		if name == "manager" {
			eventually(t, fmt.Sprintf("process %d of a deleted guest has ended", pid), func() (bool, error) {
				return !runs(pid), nil
			})
		}
	}
}

func (g *guests) ignoresSIGTERM(t *testing.T, name string) {
	t.Helper()
	const keep = "operator-labs.test/keep"
	g.createPod(t, name, []string{"ignore-sigterm"}, func(pod *corev1.Pod) { pod.Finalizers = []string{keep} })
	g.wantLog(t, name, "ignores SIGTERM")
	pods := g.client.CoreV1().Pods(metav1.NamespaceDefault)
	if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := g.await(t, name, "ends", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Terminated != nil
	})
	if ended := pod.Status.ContainerStatuses[0].State.Terminated; ended.ExitCode != 137 || ended.Reason != "Error" {
		t.Errorf("termination state = %+v, want exit code 137 and reason Error", ended)
	}
	if _, err := pods.Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (g *guests) spawnsProcesses(t *testing.T, name string) {
	t.Helper()
	g.createPod(t, name, []string{"spawn"})
	g.wantLog(t, name, "ignores SIGTERM", "ignores SIGTERM", "ignores SIGTERM")
	g.remove(t, name)
}

func (g *guests) leavesZombies(t *testing.T, name string) {
	t.Helper()
	g.createPod(t, name, []string{"leave-zombie"}, func(pod *corev1.Pod) { pod.Spec.ShareProcessNamespace = new(true) })
	g.wantLog(t, name, "1 zombie")
	g.remove(t, name)
}

func (g *guests) exits(t *testing.T, name string) {
	t.Helper()
	g.createPod(t, name, []string{"exit", "3"}, func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	})
	pod := g.await(t, name, "is in CrashLoopBackOff", func(pod *corev1.Pod) bool {
		s := pod.Status.ContainerStatuses
		return len(s) > 0 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "CrashLoopBackOff" &&
			s[0].LastTerminationState.Terminated != nil
	})
	if ended := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; ended.ExitCode != 3 ||
		ended.Reason != "Error" {
		t.Errorf("termination state = %+v, want exit code 3 and reason Error", ended)
	}
	g.remove(t, name)
}

func (g *guests) floodsLog(t *testing.T, name string) {
	t.Helper()
	const much, most = 1 << 30, 512 << 20 // bytes
	g.createPod(t, name, []string{"print", fmt.Sprint(much)})
	dir := filepath.Join(g.Dir, "node", "log", "pods")
	within(t, 2*time.Minute, "the log is complete", func() (bool, error) {
		if size := sizeOf(filepath.Join(dir, metav1.NamespaceDefault+"_"+name+"_*")); size > most {
			return false, fmt.Errorf("its log takes %d MiB", size>>20)
		}
		output, code := kubectl(t, g.program, g.Kubeconfig, "logs", name, "--tail=1")
		return code == 0 && output == "the end", nil
	})
	g.remove(t, name)
}

// sizeOf returns the number of bytes in the folders that match a pattern.
func sizeOf(pattern string) (size int64) {
	dirs, _ := filepath.Glob(pattern)
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				if info, err := entry.Info(); err == nil {
					size += info.Size()
				}
			}
			return nil
		})
	}
	return size
}

func (g *guests) fillsMemory(t *testing.T, name string) {
	t.Helper()
	g.createPod(t, name, []string{"fill", "/volume/file", fmt.Sprint(8 << 20)}, func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{
			Name: "volume",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
				Medium: corev1.StorageMediumMemory, SizeLimit: new(resource.MustParse("4Mi")),
			}},
		}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "volume", MountPath: "/volume"}}
	})
	g.await(t, name, "fails", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	g.wantLog(t, name, "guest: write /volume/file: no space left on device")
	g.remove(t, name)
}

func (g *guests) fillsDisk(t *testing.T, name string) {
	t.Helper()
	g.createPod(t, name, []string{"fill", "/tmp/file", fmt.Sprint(8 << 20)}, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
			corev1.ResourceEphemeralStorage: resource.MustParse("4Mi"),
		}
	})
	pod := g.await(t, name, "is evicted", func(pod *corev1.Pod) bool { return pod.Status.Reason == "Evicted" })
	if pod.Status.Phase != corev1.PodFailed || !strings.Contains(pod.Status.Message, "exceeds") {
		t.Errorf("status of the evicted Pod = %+v, want phase Failed and a message with \"exceeds\"", pod.Status)
	}
	g.remove(t, name)
}

func (g *guests) waitsForImage(t *testing.T, name string) {
	t.Helper()
	g.createPod(t, name, nil, func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "test/slow:v1" })
	if events := g.events(t, name, "Building", `"test/slow:v1": 5 of 9 packages compiled`); len(events) != 1 ||
		events[0].Count < 2 {
		t.Errorf("got Events %+v, want one Event that is updated repeatedly", events)
	}
	g.events(t, name, "Failed", "slow.go:1: no such word")
	if output, _ := kubectl(
		t, g.program, g.Kubeconfig, "describe", "pod", name,
	); !strings.Contains(output, "5 of 9 packages compiled") {
		t.Errorf("the output of kubectl describe lacks the progress of the build:\n%s", output)
	}
	g.remove(t, name)
}

// takenPort requests a port that another program has, gets it later, and keeps it when the agent restarts.
func (g *guests) takenPort(t *testing.T) {
	const name = "wants-port"
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().(*net.TCPAddr)
	g.createPod(t, name, []string{"serve", ":8080"}, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: int32(address.Port)}}
	})
	g.events(t, name, "PortUnavailable",
		fmt.Sprintf("TCP port %d of this machine's 127.0.0.1 is in use by another program", address.Port))
	taken.Close()
	welcome := func() (bool, error) {
		connection, err := net.Dial("tcp4", address.String())
		if err != nil {
			return false, nil
		}
		defer connection.Close()
		output, _ := bufio.NewReader(connection).ReadString('\n')
		return output == "welcome\n", nil
	}
	eventually(t, "the port reaches the Pod", welcome)
	agent := pidOf(t, inside(t, g.PIDs()["node"]), "agent")
	if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent has ended", func() (bool, error) { return !runs(agent), nil })
	eventually(t, "the port reaches the Pod again", welcome)
	g.remove(t, name)
	eventually(t, "the port is free", func() (bool, error) {
		listener, err := net.ListenTCP("tcp4", address)
		if err != nil {
			return false, nil //nolint:nilerr // eventually tries again
		}
		return true, listener.Close()
	})
}

// When Pods have filled the node's whole disk, the Pods that did it are evicted. The others and the node keep running.
func TestFullDiskEvictsThePodsThatFilledIt(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	if os.Getuid() != 0 {
		t.Skip("only root can give the node a small disk")
	}
	parts, program, home := guestParts(t), controlPlane(t), t.TempDir()
	for name, file := range map[string]string{
		"init":   parts.Programs.Init,
		"agent":  parts.Programs.Agent,
		"images": parts.Images,
	} {
		if err := os.Symlink(file, filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
	}
	playground := newPlayground(t)
	starts := newActor(t, "up on a small disk", testExecutable(t), program, t.TempDir(),
		dirVariable+"="+playground.Dir, partsVariable+"="+home)
	starts.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	starts.launch(t)
	starts.readOwned(t)
	client := clientAt(t, playground)
	g := &guests{&Cluster{Dir: playground.Dir, Kubeconfig: playground.Kubeconfig()}, program, client}
	running := func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }
	kubelet := pidOf(t, inside(t, stateOf(t, playground).PIDs["node"]), "kubelet")

	// Their images are not in this store. The kubelet has no usage data of a Pod whose containers never started, and would
	// evict it first.
	if output, code := kubectl(t, program, g.Kubeconfig, "delete", "deployments", "--all", "--all-namespaces"); code != 0 {
		t.Fatal(output)
	}
	g.createPod(t, "bystander", []string{"serve", ":8080"})
	before := g.await(t, "bystander", "runs", running)
	g.createPod(t, "in-volume", []string{"fill-disk", "/volume/file"}, func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{
			Name:         "volume",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "volume", MountPath: "/volume"}}
	})
	g.wantLog(t, "in-volume", "write /volume/file: no space left on device")
	if output, code := kubectl(t, program, g.Kubeconfig, "exec", "bystander", "--", "/manager", "exit", "3"); code != 3 {
		t.Errorf("on the full disk, exec returned exit code %d, want 3: %s", code, output)
	}
	g.awaitEviction(t, "in-volume")
	g.createPod(t, "in-layer", []string{"fill-disk", "/tmp/file"})
	g.awaitEviction(t, "in-layer")

	after := g.await(t, "bystander", "runs", running)
	if now, then := after.Status.ContainerStatuses[0],
		before.Status.ContainerStatuses[0]; now.ContainerID != then.ContainerID {
		t.Errorf("the container of the other Pod was replaced: got %+v, want %+v", now, then)
	}
	if now := pidOf(t, inside(t, stateOf(t, playground).PIDs["node"]), "kubelet"); now != kubelet {
		t.Errorf("the kubelet has PID %d, want %d as before", now, kubelet)
	}
}

// awaitEviction waits until a Pod that has filled the disk is evicted, and then until the node has room again.
func (g *guests) awaitEviction(t *testing.T, name string) {
	t.Helper()
	diskPressure := func(want corev1.ConditionStatus) func() (bool, error) {
		return func() (bool, error) {
			node, err := g.client.CoreV1().Nodes().Get(t.Context(), NodeName, metav1.GetOptions{})
			return err == nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeDiskPressure && c.Status == want
			}) && (want == corev1.ConditionTrue || len(node.Spec.Taints) == 0), err
		}
	}
	const patience = 2 * time.Minute // the kubelet checks the disk every ten seconds, and reports as often
	within(t, patience, "the node is under DiskPressure", diskPressure(corev1.ConditionTrue))
	within(t, patience, name+" is evicted", func() (bool, error) {
		pod, err := g.client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && pod.Status.Reason == "Evicted" &&
			strings.Contains(pod.Status.Message, "low on resource: ephemeral-storage"), err
	})
	within(t, patience, "the node is no longer under DiskPressure", diskPressure(corev1.ConditionFalse))
}
