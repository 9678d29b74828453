// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command runtime runs containers with runc on hosts that do not let them do everything. It is called instead of runc,
// by Docker and by the containerd of a node, edits what runc is told, and becomes runc. On a host without these limits it
// changes nothing.
//
//   - A host may lack capabilities, even for root: most often CAP_SYS_RESOURCE. runc then refuses a container that asks
//     for all of them (docker run --privileged, Cilium's agent). Capabilities that we do not have are taken out.
//   - Without CAP_SYS_RESOURCE nobody may raise a limit or its own priority for memory. Limits that a container asks for
//     are dropped, and its priority is at best our own.
//   - With both versions of control groups mounted, containers share the root of version 2, and a program that one of
//     them attaches there (Cilium's load balancer for sockets) would apply to the whole machine. Each container of the
//     host gets a group of its own there.
//
// The runc that it becomes is $OPERATOR_LABS_RUNC, or runc.real beside it, or the host's.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// unified is where version 2 of control groups is mounted beside version 1.
const unified = "/sys/fs/cgroup/unified"

func main() {
	if err := run(os.Args[1:]); err != nil {
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			os.Exit(ended.ExitCode())
		}
		fmt.Fprintln(os.Stderr, "the container runtime of Operator Labs:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	runc, err := findRunc()
	if err != nil {
		return err
	}
	call := parse(args)
	switch call.command {
	case "create", "run", "restore":
		bundle := call.bundle
		if bundle == "" {
			if bundle, err = os.Getwd(); err != nil {
				return err
			}
		}
		if err := edit(filepath.Join(bundle, "config.json"), true); err != nil {
			return err
		}
		if err := enterGroup(call.id); err != nil {
			return err
		}
	case "exec":
		if call.process != "" {
			if err := edit(call.process, false); err != nil {
				return err
			}
		}
	case "delete":
		if group := groupOf(call.id); group != "" {
			// Not exec: the container's group goes after it.
			command := exec.Command(runc, args...)
			command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
			err := command.Run()
			_ = os.Remove(group)
			return err
		}
	}
	return syscall.Exec(runc, append([]string{"runc"}, args...), os.Environ())
}

func findRunc() (string, error) {
	if named := os.Getenv("OPERATOR_LABS_RUNC"); named != "" {
		return named, nil
	}
	own, err := os.Executable()
	if err == nil {
		beside := filepath.Join(filepath.Dir(own), "runc.real")
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return "", errors.New("there is no runc on PATH: on Debian, `apt-get install runc` installs it")
	}
	return runc, nil
}

// call is what runc was asked to do, as far as it matters here.
type call struct{ command, id, bundle, process string }

func parse(args []string) call {
	commands := []string{"create", "run", "restore", "exec", "delete"}
	var c call
	for i, arg := range args {
		if c.command == "" {
			if slices.Contains(commands, arg) {
				c.command = arg
			}
			continue
		}
		name, value, assigned := strings.Cut(arg, "=")
		if !assigned && i+1 < len(args) {
			value = args[i+1]
		}
		switch name {
		case "--bundle", "-b":
			c.bundle = value
		case "--process", "-p":
			c.process = value
		}
	}
	if len(args) > 0 {
		c.id = args[len(args)-1]
	}
	return c
}

// groupOf is the container's control group of version 2. It is empty where version 1 is not mounted beside it.
func groupOf(id string) string {
	if _, err := os.Stat(filepath.Join(unified, "cgroup.controllers")); err != nil || id == "" || strings.Contains(id, "/") {
		return ""
	}
	return filepath.Join(unified, "operator-labs-"+id)
}

// enterGroup moves this process, and so the container, into its group. The namespace of control groups that runc makes
// then has that group as its root.
func enterGroup(id string) error {
	group := groupOf(id)
	if group == "" {
		return nil
	}
	if err := os.MkdirAll(group, 0o755); err != nil {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			return nil // within a node it may not be writable, and the node's own group is enough
		}
		return err
	}
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0o644); err != nil {
		return fmt.Errorf("entering the control group of the container: %w", err)
	}
	return nil
}

// edit changes a bundle's configuration, or a process to be run in a container.
func edit(file string, bundle bool) error {
	missing, err := missingCapabilities()
	if err != nil || len(missing) == 0 {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var configuration map[string]any
	if err := json.Unmarshal(content, &configuration); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	process := configuration
	if bundle {
		process, _ = configuration["process"].(map[string]any)
	}
	if process == nil {
		return nil
	}
	limit(process, missing, ownPriority())
	if content, err = json.Marshal(configuration); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

// limit takes out of a process what this host does not grant.
func limit(process map[string]any, missing []string, priority int) {
	if sets, ok := process["capabilities"].(map[string]any); ok {
		for name, set := range sets {
			capabilities, ok := set.([]any)
			if !ok {
				continue
			}
			sets[name] = slices.DeleteFunc(capabilities, func(capability any) bool {
				text, _ := capability.(string)
				return slices.Contains(missing, text)
			})
		}
	}
	if !slices.Contains(missing, "CAP_SYS_RESOURCE") {
		return
	}
	if wanted, ok := process["oomScoreAdj"].(float64); ok && int(wanted) < priority {
		process["oomScoreAdj"] = priority
	}
	delete(process, "rlimits")
}

// ownPriority is how early the kernel ends this process when memory runs out.
func ownPriority() int {
	content, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return 0
	}
	priority, _ := strconv.Atoi(strings.TrimSpace(string(content)))
	return priority
}

// capabilities are their names, by number: linux/capability.h.
var capabilities = strings.Fields("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP " +
	"LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO " +
	"SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE " +
	"AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF " +
	"CHECKPOINT_RESTORE")

// missingCapabilities are those that no process here can have.
func missingCapabilities() ([]string, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	return lacking(string(status))
}

func lacking(status string) ([]string, error) {
	for line := range strings.Lines(status) {
		set, found := strings.CutPrefix(line, "CapBnd:")
		if !found {
			continue
		}
		bits, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the capabilities of this host: %w", err)
		}
		var missing []string
		for number, name := range capabilities {
			if bits&(1<<number) == 0 {
				missing = append(missing, "CAP_"+name)
			}
		}
		return missing, nil
	}
	return nil, nil
}
