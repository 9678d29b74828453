// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"lva.io/operators/clusters/images/named"
	"lva.io/operators/clusters/node/cri"
	"lva.io/operators/clusters/node/keeper"
	"lva.io/operators/clusters/node/nodetest"
	"lva.io/operators/clusters/node/podnet"
	"lva.io/operators/clusters/node/rootfs"
)

func TestMain(m *testing.M) { nodetest.Inside(m) }

// timeout is how long an operation that takes milliseconds may take on a busy machine.
const timeout = 20 * time.Second

const image = "test/empty:v1"

// parts are the objects of which a process can have only one.
type parts struct {
	keeper *keeper.Client
	pods   *podnet.Network
}

var shared = sync.OnceValues(func() (*parts, error) {
	socket := "/mnt/keeper.sock"
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	go keeper.New().Serve(listener)
	pods, err := podnet.Open()
	return &parts{&keeper.Client{Socket: socket}, pods}, err
})

// network is the Pods' network without Services. It records the calls.
type network struct {
	pods    *podnet.Network
	mutex   sync.Mutex
	drained []string
	// published has the ports of the node that Pods have: "web 80->8080".
	published map[string]string
	// detachErr is the error of the next Detach.
	detachErr error
}

func (n *network) Attach(id string) (*os.File, netip.Addr, error) {
	pod, err := n.pods.Attach(id)
	if err != nil {
		return nil, netip.Addr{}, err
	}
	return pod.Namespace, pod.Address, nil
}

func (n *network) Detach(id string) error {
	if err := n.detachErr; err != nil {
		n.detachErr = nil
		return err
	}
	return n.pods.Detach(id)
}

func (n *network) Attached() []string { return slices.Collect(maps.Keys(n.pods.Pods())) }

func (n *network) Publish(
	id string, pod *runtimeapi.PodSandboxMetadata, _ netip.Addr, ports []*runtimeapi.PortMapping,
) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, port := range ports {
		n.published[id] = fmt.Sprintf("%s %d->%d", pod.GetName(), port.GetHostPort(), port.GetContainerPort())
	}
}

func (n *network) Withdraw(id string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	delete(n.published, id)
}

func (n *network) Drained(_ context.Context, pod *runtimeapi.PodSandboxMetadata, _ netip.Addr, _ *os.File) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.drained = append(n.drained, pod.Name)
	return nil
}

// runtime is a server and the clients with which a kubelet would use it.
type runtime struct {
	runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
	dir     string
	files   *rootfs.Store
	network *network
	cgroups string
	end     func()
	// builtFor is the Pod for which an image was built last.
	builtFor string
}

func newRuntime(t *testing.T) *runtime {
	t.Helper()
	p, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	r := &runtime{dir: t.TempDir(), network: &network{pods: p.pods, published: map[string]string{}}}
	if r.files, err = rootfs.New(filepath.Join(r.dir, "images"), filepath.Join(r.dir, "layers"),
		filepath.Join(r.dir, "containers")); err != nil {
		t.Fatal(err)
	}
	r.putImage(t, image, `{"config":{"Env":["FROM=image","BOTH=image"],"User":"0"}}`)
	r.serve(t, p)
	t.Cleanup(func() { r.clean(t) })
	return r
}

// serve starts a server. It can be called again after the earlier server has ended.
func (r *runtime) serve(t *testing.T, p *parts) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	server, err := cri.New(ctx, cri.Options{
		Dir: filepath.Join(r.dir, "state"), NodeIP: "10.244.0.1", Init: "/proc/self/exe",
		Keeper: p.keeper, Files: r.files, Network: r.network, Cgroups: r.cgroups,
		Build: func(_ context.Context, pod *runtimeapi.PodSandboxMetadata, reference string) error {
			r.builtFor = pod.GetName()
			if reference != "test/built:v1" {
				return named.ErrUnknown
			}
			r.putImage(t, reference, `{}`)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(r.dir, "cri.sock")
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, socket) }()
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	r.RuntimeServiceClient, r.images = runtimeapi.NewRuntimeServiceClient(connection),
		runtimeapi.NewImageServiceClient(connection)
	r.end = func() {
		cancel()
		if err := errors.Join(connection.Close(), <-ended); err != nil {
			t.Error(err)
		}
	}
}

// limit restarts the server with a folder in which it creates control groups.
func (r *runtime) limit(t *testing.T, groups string) {
	t.Helper()
	p, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	r.end()
	r.cgroups = groups
	r.serve(t, p)
}

// clean removes everything that a test has left, and checks that nothing remains.
func (r *runtime) clean(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	all, err := r.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range all.Items {
		if _, err := r.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod.Id}); err != nil {
			t.Error(err)
		}
	}
	for _, folder := range []string{"state/sandboxes", "state/containers", "state/namespaces", "containers"} {
		if left, err := os.ReadDir(filepath.Join(r.dir, folder)); err == nil && len(left) > 0 {
			t.Errorf("folder %s still contains %v", folder, left)
		}
	}
	if left := r.network.pods.Pods(); len(left) > 0 {
		t.Errorf("these sandboxes still have a network: %v", left)
	}
	r.end()
}

// putImage puts an image without files into the store.
func (r *runtime) putImage(t *testing.T, reference, configuration string) {
	t.Helper()
	put := func(content string) named.Blob {
		digest := sha256.Sum256([]byte(content))
		b := named.Blob{Digest: "sha256:" + hex.EncodeToString(digest[:]), Size: int64(len(content))}
		if err := os.MkdirAll(filepath.Dir(b.Path(r.files.Images)), 0o755); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(b.Path(r.files.Images), []byte(content), 0o644); err != nil {
			t.Error(err)
		}
		return b
	}
	const blocks = 1024 // the end of an archive, without any entries
	err := named.Write(r.files.Images, named.Image{
		Reference: reference, Configuration: put(configuration), Layers: []named.Blob{put(string(make([]byte, blocks)))},
	})
	if err != nil {
		t.Error(err)
	}
}
