// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command runtime runs containers with runc on hosts that restrict what even root may do. Docker and the containerd of
// a node call it in place of runc. It edits runc's input, and then executes runc. On a host without these restrictions
// it changes nothing.
//
//   - A host may lack capabilities, even for root: most often CAP_SYS_RESOURCE. runc then refuses a container that asks
//     for all of them (docker run --privileged, Cilium's agent). The program removes capabilities that we do not have.
//   - Without CAP_SYS_RESOURCE no process may raise a limit, or lower its own OOM score. The program drops the limits
//     that a container asks for, and gives it no better OOM score than our own.
//
// The runc that it executes is $OPERATOR_LABS_RUNC, or runc.real in the program's folder, or the host's.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
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
	case "exec":
		if call.process != "" {
			if err := edit(call.process, false); err != nil {
				return err
			}
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
		original := filepath.Join(filepath.Dir(own), "runc.real")
		if _, err := os.Stat(original); err == nil {
			return original, nil
		}
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return "", errors.New("runc is not on PATH: on Debian, `apt-get install runc` installs it")
	}
	return runc, nil
}

// call is the part of runc's command line that matters here.
type call struct{ command, bundle, process string }

func parse(args []string) call {
	commands := []string{"create", "run", "restore", "exec", "delete", "state", "kill", "start"}
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
	return c
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

// limit removes from a process what this host does not grant.
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

// ownPriority returns how early the kernel ends this process when memory runs out.
func ownPriority() int {
	content, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return 0
	}
	priority, _ := strconv.Atoi(strings.TrimSpace(string(content)))
	return priority
}

// capabilities are the names of capabilities, by number: linux/capability.h.
var capabilities = strings.Fields("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP " +
	"LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO " +
	"SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE " +
	"AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF " +
	"CHECKPOINT_RESTORE")

// missingCapabilities returns the capabilities that no process here can have.
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
