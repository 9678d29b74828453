// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/images/named"
	"lva.io/operators/clusters/node/builds"
	"lva.io/operators/clusters/node/cgroup"
	"lva.io/operators/clusters/node/namespace"
	"lva.io/operators/clusters/node/outside"
	"lva.io/operators/clusters/node/plan"
	"lva.io/operators/clusters/node/relay"
	"lva.io/operators/clusters/socket"
)

// readyFile is the descriptor to which this process reports the status of the node. It is the first one after the
// standard streams.
const readyFile = 3

// host starts the node and forwards its connections. The node and this process end together.
func host(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: host PLAN")
	}
	enterGroup(arguments[0])
	unix.CloseOnExec(readyFile) // the reader waits until no process has it open
	ready := os.NewFile(readyFile, "ready")
	report := func(s plan.Status) error {
		text, _ := json.Marshal(s) // can't fail: the fields are strings and bools
		_, err := ready.Write(text)
		return errors.Join(err, ready.Close())
	}
	text, err := os.ReadFile(arguments[0])
	if err != nil {
		return err
	}
	var h plan.Host
	if err := json.Unmarshal(text, &h); err != nil {
		return fmt.Errorf("reading the plan of a node: %w", err)
	}
	groups, life := createGroups(h, groupOf(arguments[0]))
	defer life.Close()
	node, inside, err := startNode(h, groups)
	if err != nil {
		return errors.Join(err, report(statusOf(err)))
	}
	if err := serve(h, inside); err != nil {
		return errors.Join(err, report(plan.Status{Error: err.Error()}))
	}
	if err := report(plan.Status{
		Limits: plan.Limits{Memory: groups.Limits("memory"), CPU: groups.Limits("cpu")},
	}); err != nil {
		return err // no process waits for the node any more
	}
	return fmt.Errorf("the node has ended: %w", node.Wait())
}

// probe creates namespaces with a file system like those of a node, ends them, and prints the status.
func probe([]string) error {
	dir, err := os.MkdirTemp("", "operator-labs-probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	node, _, err := startNode(plan.Host{Name: "probe", Dir: dir, Init: self, Images: dir}, nil)
	text, _ := json.Marshal(statusOf(err)) // can't fail: the fields are strings
	if err == nil {
		err = node.Process.Kill()
		_ = node.Wait()
	}
	fmt.Println(string(text))
	if _, ok := errors.AsType[*namespace.Unavailable](err); ok {
		return nil // the status answers the question
	}
	return err
}

// startNode starts the first process of the node and waits until it is ready. inside requests sockets from the node.
func startNode(h plan.Host, groups *cgroup.Group) (node *exec.Cmd, inside *namespace.Crossing, err error) {
	mapping := namespace.Choose()
	if h.SingleID {
		mapping = mapping.Alone()
	}
	if groups != nil {
		h.AgentArgs = append(h.AgentArgs, "-cgroups="+plan.Cgroups)
	}
	root, trees, err := files(h, mapping, groups)
	if err != nil {
		return nil, nil, err
	}
	defer closeFiles(trees)
	planned, err := memory(plan.Node{Name: h.Name, Root: root, Agent: h.AgentArgs, Kubelet: h.KubeletArgs})
	if err != nil {
		return nil, nil, err
	}
	defer planned.Close()
	statusRead, statusWrite, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer statusRead.Close()
	defer statusWrite.Close()
	outAsks, outServes, err := namespace.CrossingPair()
	if err != nil {
		return nil, nil, err
	}
	inAsks, inServes, err := namespace.CrossingPair()
	if err != nil {
		return nil, nil, err
	}
	var logs []*os.File
	for _, name := range []string{"agent.log", "kubelet.log"} {
		log, err := os.OpenFile(filepath.Join(h.Dir, "log", name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, fmt.Errorf("creating the node's logs: %w", err)
		}
		defer log.Close()
		logs = append(logs, log)
	}
	var cgroup *os.File
	if groups != nil {
		if cgroup, err = os.Open(groups.Programs()); err != nil {
			return nil, nil, err
		}
		defer cgroup.Close()
	}
	node, err = namespace.Start(namespace.Command{
		Cgroup: cgroup,
		// Root's node runs as another user, who may have no access to the path of our file. The kernel finds /proc/self/exe
		// without it.
		Path: "/proc/self/exe", Args: []string{"operator-labs-node"}, Env: scopeOf(os.Environ()),
		Mapping: mapping, Stdout: logs[0], Stderr: logs[0],
		Files: append([]*os.File{planned, statusWrite, outAsks, inServes, logs[0], logs[1]}, trees...),
	})
	for _, passed := range []*os.File{statusWrite, outAsks, inServes} {
		passed.Close()
	}
	if err != nil {
		return nil, nil, err
	}
	if inside, err = namespace.NewCrossing(inAsks); err != nil {
		return nil, nil, err
	}
	go func() {
		_ = namespace.ServeCrossing(outServes, dialFor(h.Local), namespace.Answers{builds.Question: buildBy(h.Builder)})
	}()
	return node, inside, await(statusRead)
}

// dialFor returns a function that connects Pods to the machine's network. Pods reach the machine's own programs only
// through package egress, because programs that listen on 127.0.0.1 expect no Pods.
func dialFor(path string) namespace.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(address); err != nil || host != plan.MachineIP {
			return outside.Dial(ctx, network, address)
		}
		if found, ok := dialLocal(ctx, path, address).(*buffered); ok && network == "tcp" {
			return found.Conn, nil // no byte of the stream has been read yet
		}
		return nil, fmt.Errorf("no program on the machine accepts connections from Pods at %s", address)
	}
}

// buildBy returns a function that starts a command that builds an image. The answer is the output of the command.
func buildBy(command []string) func(reference string) (*os.File, error) {
	return func(reference string) (*os.File, error) {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		defer write.Close()
		if len(command) == 0 {
			_, err := write.Write(builds.Answer(named.ErrUnknown))
			return read, err
		}
		cmd := exec.Command(command[0], append(slices.Clone(command[1:]), reference)...)
		cmd.Stdout, cmd.Stderr = write, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(fmt.Errorf("building an image: %w", err), read.Close())
		}
		go func() { _ = cmd.Wait() }() // the command reports its result itself
		return read, nil
	}
}

// scopeOf returns the variable of an environment that marks the processes of a cluster.
func scopeOf(environment []string) []string {
	var kept []string
	for _, variable := range environment {
		if strings.HasPrefix(variable, "OPERATOR_LABS_SCOPE=") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// await waits until the first process reports the status of the node.
func await(status *os.File) error {
	text, err := io.ReadAll(status)
	if err != nil {
		return err
	}
	var s plan.Status
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("the node's first process exited before it reported a status: %w", err)
	}
	switch {
	case s.Reason != "":
		return &namespace.Unavailable{Reason: s.Reason, Remedy: s.Remedy, Err: errors.New(s.Error)}
	case s.Error != "":
		return errors.New(s.Error)
	}
	return nil
}

// memory returns an anonymous file with a value as JSON.
func memory(value any) (*os.File, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	descriptor, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(descriptor), "plan")
	if _, err := file.Write(text); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// files returns the file system of the node. trees are the sources of mounts that the first process can't open itself.
func files(
	h plan.Host, mapping namespace.Mapping, groups *cgroup.Group,
) (root namespace.Root, trees []*os.File, err error) {
	user, group := mapping.Owner()
	unpacked := filepath.Join(h.Images, "unpacked", fmt.Sprint(user))
	if err := createFolders(h, unpacked, user, group); err != nil {
		return root, nil, err
	}
	root = namespace.Root{
		Mounts: mounts(h, unpacked, groups),
		Files: map[string]string{
			"/etc/passwd":   "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n",
			"/etc/group":    "root:x:0:\nnobody:x:65534:\n",
			"/etc/hostname": h.Name + "\n",
			"/etc/hosts":    "127.0.0.1 localhost\n" + plan.NodeIP + " " + h.Name + "\n",
			// The kubelet reads this file to report its operating system.
			"/etc/os-release":  "ID=operator-labs\nNAME=\"Operator Labs\"\nPRETTY_NAME=\"Operator Labs node\"\n",
			"/etc/resolv.conf": "nameserver " + plan.NodeIP + "\n",
		},
		Links: map[string]string{
			"/bin/mount": plan.InitPath, "/bin/umount": plan.InitPath,
			"/var/run": "/run", "/usr/sbin": "bin", "/sbin": "bin",
		},
	}
	if user != os.Geteuid() {
		trees, err = detach(root.Mounts)
	}
	return root, trees, err
}

// createFolders creates the folders of the machine that the node sees, and gives the user who is root in the node those
// that the node writes to, and the files that only this user may read.
func createFolders(h plan.Host, unpacked string, user, group int) error {
	etc, pods := filepath.Join(h.Dir, "etc"), filepath.Join(h.Dir, "log", "pods")
	for _, dir := range []string{etc, filepath.Join(h.Dir, "var"), pods, unpacked} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("creating the node's folders: %w", err)
		}
	}
	if user == os.Geteuid() {
		return nil
	}
	written := []string{pods, unpacked}
	if h.Keep {
		written = append(written, filepath.Join(h.Dir, "var"))
	}
	entries, err := os.ReadDir(etc)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		written = append(written, filepath.Join(etc, entry.Name()))
	}
	for _, path := range written {
		if err := os.Chown(path, user, group); err != nil {
			return fmt.Errorf("changing the owner of the node's files: %w", err)
		}
	}
	return nil
}

// mounts returns the mounts of the node's file system, parents first.
func mounts(h plan.Host, unpacked string, groups *cgroup.Group) []namespace.Mount {
	// The size is 25% of the machine's memory.
	data := namespace.Mount{Target: "/var", Options: "mode=755,size=25%"}
	if h.Keep {
		data = namespace.Mount{Target: "/var", Source: filepath.Join(h.Dir, "var")}
	}
	all := []namespace.Mount{
		{Target: "/tmp", Options: "mode=1777,size=10%"},
		{Target: "/run", Options: "mode=755,size=10%"},
		data,
		{Target: "/var/log/pods", Source: filepath.Join(h.Dir, "log", "pods")},
		{Target: plan.Etc, Source: filepath.Join(h.Dir, "etc"), ReadOnly: true},
		{Target: plan.Layers, Source: unpacked},
		{Target: plan.InitPath, Source: h.Init, ReadOnly: true},
	}
	for target, source := range map[string]string{plan.AgentPath: h.Agent, plan.ControlPlanePath: h.ControlPlane} {
		if source != "" {
			all = append(all, namespace.Mount{Target: target, Source: source, ReadOnly: true})
		}
	}
	if groups != nil {
		all = append(all, namespace.Mount{Target: plan.Cgroups, Source: groups.Dir})
	}
	if _, err := os.Stat(h.Images); err == nil {
		all = append(all, namespace.Mount{Target: plan.Images, Source: h.Images, ReadOnly: true})
	}
	return all
}

// detach opens the sources of mounts for a user who has no right to see their paths.
func detach(mounts []namespace.Mount) (trees []*os.File, err error) {
	for i, mount := range mounts {
		if mount.Source == "" {
			continue
		}
		tree, err := namespace.Detach(mount.Source)
		if err != nil {
			closeFiles(trees)
			// Copying a mount requires the same right as creating a namespace, and the seccomp filter of a container forbids
			// both.
			return nil, namespace.Explain(fmt.Errorf("copying the mounts of the node's files: %w", err))
		}
		mounts[i].Tree = firstTree + len(trees)
		trees = append(trees, tree)
	}
	return trees, nil
}

func closeFiles(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}

// serve connects the node's programs to the API server, and the API server to the node.
func serve(h plan.Host, inside *namespace.Crossing) error {
	if h.API != "" {
		_, port, err := net.SplitHostPort(h.API)
		if err != nil {
			return fmt.Errorf("the API server's address: %w", err)
		}
		listener, err := inside.Listen(context.Background(), "tcp4", net.JoinHostPort("0.0.0.0", port))
		if err != nil {
			return err
		}
		go forward(listener, func() (net.Conn, error) { return net.Dial("tcp", h.API) })
	}
	if h.Runtime != "" {
		if err := serveRuntime(h.Runtime, inside); err != nil {
			return err
		}
	}
	if h.Egress != "" {
		return serveEgress(h, inside)
	}
	return nil
}

// serveRuntime forwards connections from a socket of the machine to the container runtime's socket in the node.
func serveRuntime(path string, inside *namespace.Crossing) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the socket of an earlier node: %w", err)
	}
	listener, err := socket.Listen(path)
	if err != nil {
		return err
	}
	go forward(listener, func() (net.Conn, error) {
		return inside.DialContext(context.Background(), "unix", plan.CRISocket)
	})
	return nil
}

// forward forwards each connection to another one, until the listener is closed.
func forward(listener net.Listener, dial func() (net.Conn, error)) {
	relay.Each(listener.Accept, func(connection net.Conn) {
		go func() {
			other, err := dial()
			if err != nil {
				connection.Close()
				return
			}
			relay.Join(context.Background(), connection, other)
		}()
	})
}
