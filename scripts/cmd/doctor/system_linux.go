// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/namespace"
	"lva.io/operators/clusters/openfiles"
)

// ofSystem returns the findings that exist only on Linux.
func ofSystem() []Finding {
	named := func(name string, f Finding) Finding {
		f.Name = name
		return f
	}
	return []Finding{
		named("memory", memory()), named("user namespaces", namespaces()), named("control groups", controlGroups()),
		named("Landlock", landlock()), named("inotify", inotify()), named("inotify's watches", watches(watchesFile)),
		named("open files", openFiles()), named("huge pages", hugePages(hugePagesFile, "/proc/cpuinfo")),
	}
}

func memory() Finding {
	system, err := procfs.NewDefaultFS()
	if err != nil {
		return note(allLabs, err.Error(), "Mount /proc.")
	}
	memory, err := system.Meminfo()
	if err != nil {
		return note(allLabs, err.Error(), "Mount /proc.")
	}
	total, available := float64(*memory.MemTotalBytes)/1e9, float64(*memory.MemAvailableBytes)/1e9
	found := fmt.Sprintf("%.1f GB, of which %.1f are available", total, available)
	const needed = 1.5 // a cluster with a node takes 1 GB, and compiling as much
	if available < needed {
		return note(allLabs, found, "A run takes 1 GB at most, and the first build 1.5 GB: end other programs.")
	}
	return good(found)
}

// inMemory returns a note if a folder is in memory.
func inMemory(dir string) string {
	var system unix.Statfs_t
	if unix.Statfs(dir, &system) == nil && system.Type == unix.TMPFS_MAGIC {
		return ", which is in memory"
	}
	return ""
}

// probeArgument makes this program the first process of new namespaces.
const probeArgument = "-probe"

// probed is the code that runs there. It begins like the node's first process.
func probed() (code int) {
	if namespace.Begin() != nil {
		return 1
	}
	return 0
}

// namespaces checks whether the node's first process can begin.
func namespaces() Finding {
	err := tryNamespaces()
	if unavailable, ok := errors.AsType[*namespace.Unavailable](err); ok {
		return bad(podsLabs, unavailable.Reason, capitalized(unavailable.Remedy))
	}
	if err != nil {
		return bad(podsLabs, err.Error(), "See docs/reference/machines.md.")
	}
	return good("they can be created")
}

// tryNamespaces creates namespaces as the node does. The error is a *namespace.Unavailable if the kernel refuses them.
func tryNamespaces() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd, err := namespace.Start(namespace.Command{
		Path: program, Args: []string{program, probeArgument}, Env: os.Environ(), Mapping: namespace.Choose(),
	})
	if err != nil {
		return err
	}
	if cmd.Wait() != nil { // the first process has no rights there, for example because of AppArmor
		return namespace.Explain(unix.EPERM)
	}
	return nil
}

// controlGroups checks whether limits of Pods are enforced. Nothing else depends on control groups.
func controlGroups() Finding {
	content, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return note("limits of Pods", "there is no unified hierarchy", "All labs can be graded without it.")
	}
	own, _ := os.ReadFile("/proc/self/cgroup") // without this file, the root group is checked
	group := "/sys/fs/cgroup" + strings.TrimSpace(strings.TrimPrefix(string(own), "0::"))
	if unix.Access(group, unix.W_OK) != nil {
		return note("limits of Pods", "this user may not create any", "All labs can be graded without it.")
	}
	return good("they can be created: " + strings.TrimSpace(string(content)))
}

// landlock checks the version of the kernel's Landlock interface (landlock(7)). Version 4 limits connections. The
// sandbox of `lab class` needs this version (grade.TrySandbox, which would link Kubernetes' client). Version 6 limits
// signals.
func landlock() Finding {
	const createRulesetVersion, connections, signals = 1, 4, 6
	const sandbox = "`lab class` needs version 4, of Linux 6.7, for its sandbox. All labs can be graded without: " +
		"docs/guides/grading.md"
	number, _, failed := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, createRulesetVersion)
	switch {
	case failed != 0:
		return note("submissions of strangers", "there is none", sandbox)
	case number < connections:
		return note("submissions of strangers", fmt.Sprintf("version %d", number), sandbox)
	case number < signals:
		return note("submissions of strangers", fmt.Sprintf("version %d", number),
			"Version 6, of Linux 6.12, keeps a submission from signalling others. All labs can be graded without it.")
	}
	return good(fmt.Sprintf("version %d", number))
}

// instancesNeeded is twice as many instances of inotify as the kubelet, its container runtime and an operator use
// together.
const instancesNeeded = 64

func inotify() Finding {
	const remedy = "Let root run: sysctl -w fs.inotify.max_user_instances=1024"
	limit := ""
	if content, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances"); err == nil {
		limit = strings.TrimSpace(string(content))
	}
	descriptor, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return bad(allLabs, fmt.Sprintf("this user has used all of its %s instances", limit), remedy)
	}
	unix.Close(descriptor)
	if number, err := strconv.Atoi(limit); err == nil && number < instancesNeeded {
		return note(podsLabs, limit+" instances for each user", remedy)
	}
	return good(limit + " instances for each user")
}

const watchesFile = "/proc/sys/fs/inotify/max_user_watches"

// leastWatches is the lowest limit that Linux chooses by itself since 5.11. The kubelet and an operator need dozens of
// watches, and the editors of the same user take the rest.
const leastWatches = 8192

// watches checks how many files a user may watch by inotify, according to the kernel's setting, and whether one more
// can be watched. Without any, the node does not become ready. Tried on 2026-11-30: labs 1, 2, 4 and 7 still have full
// marks then.
func watches(setting string) Finding {
	const remedy = "Let root run: sysctl -w fs.inotify.max_user_watches=524288"
	limit := ""
	if content, err := os.ReadFile(setting); err == nil {
		limit = strings.TrimSpace(string(content))
	}
	descriptor, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return note(podsLabs, err.Error(), "See inotify above.") // which has the remedy
	}
	defer unix.Close(descriptor)
	if _, err := unix.InotifyAddWatch(descriptor, os.TempDir(), unix.IN_DELETE_SELF); errors.Is(err, unix.ENOSPC) {
		return bad(podsLabs, fmt.Sprintf("this user has used all of its %s watches", limit), remedy)
	}
	if number, err := strconv.Atoi(limit); err == nil && number < leastWatches {
		return note(podsLabs, limit+" for each user", remedy)
	}
	return good(limit + " for each user")
}

func openFiles() Finding {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return note(allLabs, err.Error(), "Look at ulimit -n.")
	}
	found := fmt.Sprintf("%d, and %d at most", limit.Cur, limit.Max)
	if err := openfiles.Check(); err != nil {
		// Only root may raise a hard limit. A * in this file does not mean root.
		return bad(allLabs, found, fmt.Sprintf(
			"A cluster needs %d. Let root run: printf '* - nofile 65536\\nroot - nofile 65536\\n' "+
				">/etc/security/limits.d/operator-labs.conf, and log in again. "+
				"A container has --ulimit nofile=65536.", openfiles.Least,
		))
	}
	return good(found)
}

const hugePagesFile = "/sys/kernel/mm/transparent_hugepage/enabled"

// hugePages checks whether programs get pages of 2 MB automatically, as Go programs want them. This matters on a
// virtual machine, where the first access to a page and each lookup of its address take longer:
// docs/reference/machines.md.
func hugePages(setting, processors string) Finding {
	content, err := os.ReadFile(setting)
	if err != nil {
		return good("this kernel does not have them")
	}
	_, chosen, _ := strings.Cut(string(content), "[")
	chosen, _, _ = strings.Cut(chosen, "]")
	flags, err := os.ReadFile(processors)
	virtual := err == nil && slices.Contains(strings.Fields(string(flags)), "hypervisor")
	if chosen == "always" || !virtual {
		return good(chosen)
	}
	return note(
		"fast builds", chosen, "On a virtual machine, compiling may take twice as long. Let root run: echo always >"+setting,
	)
}
