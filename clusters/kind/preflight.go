// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/docker"
)

// Requirements of a cluster for its machine. They were measured with both profiles, Cilium and cert-manager
// (docs/reference/cluster.md), and rounded up.
const (
	gigabyte = 1 << 30

	baseMemory = 1 * gigabyte // the control plane, beyond what each node takes
	nodeMemory = 1 * gigabyte
	baseDisk   = 2 * gigabyte // the node image
	nodeDisk   = 3 * gigabyte // Cilium's and cert-manager's images, and what runs
	imagesDisk = 4 * gigabyte // where all images are built: the images, and what is compiled for them

	// A node is a whole system: systemd, containerd and the kubelet watch files. All nodes count as one user.
	baseInotifyInstances, nodeInotifyInstances = 8, 20
	baseInotifyWatches, nodeInotifyWatches     = 1024, 1024

	// oldestDocker is the first version with private cgroup namespaces, which kind requires. oldestKernel is the version
	// that Cilium 1.20 needs.
	oldestDockerMajor, oldestDockerMinor = 20, 10
	oldestKernelMajor, oldestKernelMinor = 5, 10
)

const inotifyFix = "`sysctl fs.inotify.max_user_instances=512 fs.inotify.max_user_watches=524288` " +
	"as root (in /etc/sysctl.d, it stays)"

// Facts are the results of the preflight measurements. A value that could not be measured is zero, and causes no
// complaint.
type Facts struct {
	// Missing reports that there is no docker command. Unreachable is its error message if it did not reach an engine.
	Missing     bool
	Unreachable string
	// Version, Cgroup ("1", "2"), Kernel, System and Rootless describe the engine, which may run in a virtual machine.
	Version, Cgroup, Kernel, System string
	Rootless                        bool
	// Memory is the engine's total memory, and Available is what this machine has left, both in bytes.
	Memory, Available int64
	// Root is Docker's folder, and DiskFree is the free space there, in bytes. DiskFree is 0 if the folder is not on this
	// machine.
	Root     string
	DiskFree int64
	// InotifyInstances and InotifyWatches are the limits for a user. InstancesFree is how many instances root can still
	// have, up to the number that is needed. It is negative if we are not root, and can't know.
	InotifyInstances, InotifyWatches, InstancesFree int
	// Taken names the user of a port of the profile, by the port's index.
	Taken map[int]string
}

// Measure asks Docker and the kernel. If the cluster exists, it uses its ports itself, so they are not tried.
func Measure(ctx context.Context, profile *Profile, exists bool) *Facts {
	facts := &Facts{Taken: map[int]string{}}
	output, err := docker.Output(ctx, "info", "--format", "{{json .}}")
	if errors.Is(err, docker.ErrMissing) {
		facts.Missing = true
		return facts
	}
	facts.engine(output, err)
	if facts.Unreachable != "" {
		return facts
	}
	if facts.Root != "" {
		facts.DiskFree = free(facts.Root)
	}
	if facts.DiskFree > 0 {
		facts.Available = available()
	}
	facts.InotifyInstances = number("/proc/sys/fs/inotify/max_user_instances")
	facts.InotifyWatches = number("/proc/sys/fs/inotify/max_user_watches")
	facts.InstancesFree = inotifyFree(instancesNeeded(profile))
	if !exists {
		for i, port := range profile.Ports() {
			if owner, taken := taken(ctx, port); taken {
				facts.Taken[i] = owner
			}
		}
	}
	return facts
}

// free returns the free space on the disk of a folder, in bytes, or 0 if the folder is not on this machine.
func free(folder string) int64 {
	var stat unix.Statfs_t
	if unix.Statfs(folder, &stat) != nil {
		return 0
	}
	return int64(stat.Bavail) * int64(stat.Bsize) //nolint:unconvert // its type differs between systems
}

// CheckDiskSpace returns the problem, if any, of the disk of a folder that will hold a cluster and the images that we
// build. It is for callers that have no engine yet.
func CheckDiskSpace(folder string, profile *Profile) (Problem, bool) {
	return diskProblem(folder, free(folder), diskOf(profile)+imagesDisk,
		count(int64(profile.Nodes()))+" and its images", checkoutDiskFix)
}

// dockerDiskFix and checkoutDiskFix explain how to free space in Docker's folder, and in a checkout.
const (
	dockerDiskFix   = "`docker system df` shows what Docker holds, and `docker system prune` removes unused data"
	checkoutDiskFix = "`make clean` removes what was built in the checkout, or else move it to a larger disk"
)

func diskOf(profile *Profile) int64 { return baseDisk + int64(profile.Nodes())*nodeDisk }

func diskProblem(folder string, free, need int64, what, fix string) (Problem, bool) {
	return Problem{
		fmt.Sprintf("%s are free in %s", size(free), folder), fmt.Sprintf("%s needs %s: %s", what, size(need), fix), true,
	}, free > 0 && free < need
}

// engine reads the output of `docker info`. If docker does not reach a server, it prints what it knows of itself and an
// error, so the error may be in the JSON, too.
func (f *Facts) engine(output string, err error) {
	var info struct {
		ServerVersion, CgroupVersion, KernelVersion, OperatingSystem, DockerRootDir string
		MemTotal                                                                    int64
		SecurityOptions                                                             []string
		ServerErrors                                                                []string
	}
	if failed := json.Unmarshal([]byte(output), &info); failed != nil && err == nil {
		err = fmt.Errorf("its answer is not JSON: %w", failed)
	}
	var failed *docker.Error
	switch {
	case len(info.ServerErrors) > 0:
		f.Unreachable = strings.Join(info.ServerErrors, "; ")
	case errors.As(err, &failed):
		f.Unreachable = strings.TrimSpace(failed.Stderr)
	case err != nil:
		f.Unreachable = err.Error()
	case info.ServerVersion == "":
		f.Unreachable = "podman, which does not report a version where Docker does"
	}
	f.Version, f.Cgroup, f.Kernel, f.System, f.Root = info.ServerVersion, info.CgroupVersion, info.KernelVersion,
		info.OperatingSystem, info.DockerRootDir
	f.Memory = info.MemTotal
	for _, option := range info.SecurityOptions {
		f.Rootless = f.Rootless || strings.Contains(option, "rootless")
	}
}

// Problem is a problem that prevents the creation of a cluster, or that is worth a warning.
type Problem struct {
	// What describes the problem, and Fix is what solves it.
	What, Fix string
	// Fatal reports that creating a cluster can't succeed.
	Fatal bool
}

func (t Problem) String() string { return t.What + ": " + t.Fix }

// Problems returns the problems that the facts show for the profile. A cluster that already exists needs no further
// resources.
func (f *Facts) Problems(profile *Profile, exists bool) []Problem {
	if f.Missing {
		return []Problem{{
			"there is no docker command on PATH",
			"on Debian `apt-get install docker.io` as root installs it; " +
				"elsewhere see https://docs.docker.com/engine/install", true,
		}}
	}
	if f.Unreachable != "" {
		return []Problem{f.unreachable()}
	}
	var problems []Problem
	fatal := func(what, fix string) { problems = append(problems, Problem{what, fix, true}) }
	note := func(what, fix string) { problems = append(problems, Problem{what, fix, false}) }

	if older(f.Version, oldestDockerMajor, oldestDockerMinor) {
		fatal("Docker's engine is version "+f.Version,
			fmt.Sprintf("kind needs %d.%d or newer", oldestDockerMajor, oldestDockerMinor))
	}
	if older(f.Kernel, oldestKernelMajor, oldestKernelMinor) {
		fatal("the kernel is "+f.Kernel, fmt.Sprintf("Cilium needs %d.%d or newer", oldestKernelMajor, oldestKernelMinor))
	}
	if f.Cgroup == "1" {
		switch {
		case f.Rootless:
			fatal("Docker runs without root on a machine with cgroup v1",
				"kind needs cgroup v2 for that: "+
					"start Linux with systemd.unified_cgroup_hierarchy=1, or use Docker's engine of root")
		case !profile.ToleratesCgroupV1():
			fatal("the machine has cgroup v1, which Kubernetes 1.36 refuses",
				"start Linux with systemd.unified_cgroup_hierarchy=1, "+
					"or put failCgroupV1: false into a KubeletConfiguration of the profile's kubeadmConfigPatches")
		default:
			note("the machine has cgroup v1",
				"the profile lets Kubernetes 1.36 take it (failCgroupV1: false); a later version will not")
		}
	}
	if exists {
		return problems
	}
	nodes := int64(profile.Nodes())
	if need := baseMemory + nodes*nodeMemory; f.Memory > 0 && f.Memory < need {
		fatal(fmt.Sprintf("Docker has %s of memory", size(f.Memory)),
			fmt.Sprintf("%s needs %s: take a smaller profile, or give Docker's virtual machine more, if it has one",
				count(nodes), size(need)))
	} else if f.Available > 0 && f.Available < need {
		fatal(fmt.Sprintf("%s of memory are available", size(f.Available)),
			fmt.Sprintf("%s needs %s: end other programs or clusters (`docker ps`), or take a smaller profile",
				count(nodes), size(need)))
	}
	if problem, full := diskProblem(f.Root, f.DiskFree, diskOf(profile), count(nodes), dockerDiskFix); full {
		problems = append(problems, problem)
	}
	need := instancesNeeded(profile)
	if f.InotifyInstances > 0 && (f.InotifyInstances < need || f.InstancesFree >= 0 && f.InstancesFree < need) {
		left := f.InstancesFree
		if left < 0 {
			left = f.InotifyInstances
		}
		fatal(fmt.Sprintf("of %d inotify instances root can have %d more", f.InotifyInstances, left),
			fmt.Sprintf("%s needs about %d: %s", count(nodes), need, inotifyFix))
	}
	if need := baseInotifyWatches + profile.Nodes()*nodeInotifyWatches; f.InotifyWatches > 0 && f.InotifyWatches < need {
		fatal(fmt.Sprintf("a user may have %d inotify watches", f.InotifyWatches),
			fmt.Sprintf("%s needs about %d: %s", count(nodes), need, inotifyFix))
	}
	for i, port := range profile.Ports() {
		if owner, taken := f.Taken[i]; taken {
			fatal(fmt.Sprintf("port %d of %s is taken by %s", port.Number, port.Address, owner),
				fmt.Sprintf("it is needed for %s: stop that program, or change the port in clusters/config/kind/%s.yaml",
					port.What, profile.Name))
		}
	}
	return problems
}

func (f *Facts) unreachable() Problem {
	answer := strings.ToLower(f.Unreachable)
	switch {
	case strings.Contains(answer, "permission denied"):
		return Problem{
			"you may not use Docker's engine",
			"`sudo usermod -aG docker $USER` allows it after you have logged in again; " +
				"anyone in that group can become root on this machine", true,
		}
	case strings.Contains(answer, "podman"):
		return Problem{
			"the docker command is podman's, by another name",
			"take Docker's own: Cilium on kind was never tried with podman", true,
		}
	case os.Getenv("DOCKER_HOST") != "":
		return Problem{
			"Docker's engine at DOCKER_HOST=" + os.Getenv("DOCKER_HOST") + " does not answer (" + f.Unreachable + ")",
			"start it, or unset DOCKER_HOST", true,
		}
	default:
		return Problem{
			"Docker's engine does not answer (" + f.Unreachable + ")",
			"start it: `sudo systemctl start docker`, or Docker Desktop; " +
				"as root on Debian this command starts one by itself", true,
		}
	}
}

func count(nodes int64) string {
	if nodes == 1 {
		return "one node"
	}
	return fmt.Sprintf("a cluster of %d nodes", nodes)
}

func size(bytes int64) string { return fmt.Sprintf("%.1f GB", float64(bytes)/gigabyte) }

// older compares the first two numbers of a version. A version that can't be read is not older.
func older(version string, major, minor int) bool {
	fields := strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if len(fields) < 2 {
		return false
	}
	a, _ := strconv.Atoi(fields[0])
	b, _ := strconv.Atoi(fields[1])
	return a < major || a == major && b < minor
}

// taken tries to listen on a port. If it can't, it returns the port's owner, as far as that is known.
func taken(ctx context.Context, port Port) (owner string, yes bool) {
	address := net.JoinHostPort(port.Address, strconv.Itoa(port.Number))
	var listen net.ListenConfig
	switch port.Protocol {
	case "tcp":
		listener, err := listen.Listen(ctx, "tcp", address)
		if err == nil {
			listener.Close()
			return "", false
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return fmt.Sprintf("no program, but it cannot be listened on (%v)", err), true
		}
	case "udp":
		listener, err := listen.ListenPacket(ctx, "udp", address)
		if err == nil {
			listener.Close()
			return "", false
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return fmt.Sprintf("no program, but it cannot be listened on (%v)", err), true
		}
	default:
		return "", false // no kernel that is common can be asked for sctp
	}
	if output, err := docker.Output(ctx, "ps", "--format", `{{.Names}}{{"\t"}}{{.Ports}}`); err == nil {
		for line := range strings.Lines(output) {
			name, ports, _ := strings.Cut(strings.TrimSpace(line), "\t")
			if strings.Contains(ports, fmt.Sprintf(":%d->", port.Number)) {
				return "the container " + name, true
			}
		}
	}
	if program := listening(port.Number); program != "" {
		return program, true
	}
	return "another program", true
}

// listening returns the program that listens on a TCP port, as far as we may see it. (proc(5), /proc/net/tcp)
func listening(port int) string {
	const state, inode, listens = 3, 9, "0A"
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			if len(fields) > inode && fields[state] == listens && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
				sockets["socket:["+fields[inode]+"]"] = true
			}
		}
	}
	if len(sockets) == 0 {
		return ""
	}
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, descriptor := range descriptors {
		target, err := os.Readlink(descriptor)
		if err != nil || !sockets[target] {
			continue
		}
		process := filepath.Dir(filepath.Dir(descriptor))
		name, _ := os.ReadFile(filepath.Join(process, "comm"))
		return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), filepath.Base(process))
	}
	return ""
}

func instancesNeeded(profile *Profile) int {
	return baseInotifyInstances + profile.Nodes()*nodeInotifyInstances
}

func number(file string) int {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(content)))
	return n
}

// available returns the memory that programs can still have, in bytes, or 0 if it is not known.
func available() int64 {
	system, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	memory, err := system.Meminfo()
	if err != nil || memory.MemAvailableBytes == nil {
		return 0
	}
	return int64(*memory.MemAvailableBytes) //nolint:gosec // no machine has so much
}
