// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lva.io/operators/clusters/debian"
	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/gobuild"
)

const (
	// socket is where the engine listens, and where all clients expect it.
	socket = "/var/run/docker.sock"
	// runFolder holds the engine's own sockets. The names of sockets may have about a hundred bytes, so it can't be
	// below a checkout.
	runFolder = "/run/operator-labs-engine"
	// runtimeName is the name by which the engine knows our runtime.
	runtimeName = "operator-labs"

	startTime = 60 * time.Second
	stopTime  = 30 * time.Second
	askTime   = 5 * time.Second
	interval  = 200 * time.Millisecond

	// detach is MNT_DETACH of Linux. A mount that is still in use is removed when it no longer is.
	detach = 2
)

// ErrContainers reports that an engine can't be stopped because it has containers.
var ErrContainers = errors.New("there are containers in Docker's engine: " +
	"`docker ps` lists them, `cluster delete` removes those of a cluster")

// folder is where an engine that we started keeps its data.
func folder(root string) string { return filepath.Join(root, ".cache", "engine") }

// Needed reports whether there is no engine and Start could provide one: we are root on Linux with apt, and no setting
// names an engine elsewhere.
func Needed(ctx context.Context) bool {
	if answers(ctx) || runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return false
	}
	if os.Getenv("DOCKER_HOST") != "" || os.Getenv("DOCKER_CONTEXT") != "" {
		return false
	}
	_, err := exec.LookPath("apt-get")
	return err == nil
}

// answers reports whether an engine answers where the docker command would look for it.
func answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if _, err := exec.LookPath("docker"); err == nil {
		command := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Version}}")
		command.WaitDelay = time.Second
		return command.Run() == nil
	}
	return ping(ctx)
}

// ping reports whether an engine answers at the usual socket.
func ping(ctx context.Context) bool {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return false
	}
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// Start installs Docker's engine from Debian's packages unless it is installed, and starts it unless it runs. With
// systemd, the engine is an ordinary service, and stays. Elsewhere it is a process of ours, with its data in the
// checkout at root. That process outlives this command until Stop ends it. The returned text describes what was done.
func Start(ctx context.Context, root string, report func(string)) (string, error) {
	if answers(ctx) {
		return "runs", nil
	}
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		return "", errors.New("Docker's engine is not running, " + //nolint:staticcheck // Docker is a name
			"and only root on Linux can start it here: start it as usual on this machine")
	}
	if err := os.MkdirAll(folder(root), 0o711); err != nil {
		return "", fmt.Errorf("creating the folder of Docker's engine: %w", err)
	}
	unlock, err := filelock.Wait(ctx, folder(root)+".lock")
	if err != nil {
		return "", fmt.Errorf("waiting for another command that starts Docker's engine: %w", err)
	}
	defer unlock()
	if ping(ctx) {
		return "runs", nil
	}
	var done []string
	if _, err := exec.LookPath("dockerd"); err != nil {
		report("installing docker.io with apt")
		if err := debian.Install(ctx, "docker.io"); err != nil {
			return "", err
		}
		done = append(done, "installed docker.io")
	}
	if _, err := exec.LookPath("docker"); err != nil {
		if err := debian.Install(ctx, "docker-cli"); err != nil { // a package of its own since Debian 13
			return "", err
		}
	}
	report("starting it")
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		command := exec.CommandContext(ctx, "systemctl", "start", "docker.service")
		command.WaitDelay = time.Second
		if out, err := command.CombinedOutput(); err != nil {
			return "", fmt.Errorf("starting docker.service: %w: see `journalctl -u docker`\n%s", err, bytes.TrimSpace(out))
		}
		return strings.Join(append(done, "started docker.service"), ", "), nil
	}
	action, err := start(ctx, root, report)
	if err != nil {
		return "", err
	}
	return strings.Join(append(done, action), ", "), nil
}

// start runs the engine by hand.
func start(ctx context.Context, root string, report func(string)) (string, error) {
	dir := folder(root)
	args := []string{
		"--data-root", filepath.Join(dir, "data"), "--exec-root", runFolder, "--pidfile", pidFile(root),
		"--host", "unix://" + socket, "--oom-score-adjust", "0", // to lower it takes a capability that a host may lack
	}
	action := "started dockerd"
	reason, err := limits()
	if err != nil {
		return "", err
	}
	if reason != "" {
		report("building the container runtime for it")
		program, err := buildRuntime(ctx, root)
		if err != nil {
			return "", err
		}
		args = append(args, "--add-runtime", runtimeName+"="+program, "--default-runtime", runtimeName)
		action += " with our runtime (" + reason + ")"
	}
	forward, _ := policy(ctx)
	if err := os.WriteFile(filepath.Join(dir, "forward-policy"), []byte(forward), 0o644); err != nil {
		return "", err
	}
	log, err := os.Create(logFile(root))
	if err != nil {
		return "", err
	}
	defer log.Close()
	command := exec.Command("dockerd", args...) //nolint:noctx // it outlives this command
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return "", fmt.Errorf("starting Docker's engine: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	deadline := time.After(startTime)
	for {
		select {
		case <-ctx.Done():
			_ = command.Process.Signal(syscall.SIGTERM)
			return "", context.Cause(ctx)
		case err := <-ended:
			return "", fmt.Errorf("starting Docker's engine: dockerd exited (%w); the end of its log, %s:\n%s",
				err, log.Name(), lastLines(log.Name()))
		case <-deadline:
			_ = command.Process.Signal(syscall.SIGTERM)
			return "", fmt.Errorf("starting Docker's engine: it does not answer after %s: "+
				"the end of its log, %s:\n%s", startTime, log.Name(), lastLines(log.Name()))
		case <-time.After(interval):
			if ping(ctx) {
				return action, nil
			}
		}
	}
}

// limits reports what on this machine keeps runc from running containers, if anything does.
func limits() (string, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	if !mayRaiseLimits(string(status)) {
		return "this machine's root lacks CAP_SYS_RESOURCE", nil
	}
	return "", nil
}

// mayRaiseLimits reports whether CAP_SYS_RESOURCE is among the capabilities that a process here can have at all.
func mayRaiseLimits(status string) bool {
	const sysResource = 24
	for line := range strings.Lines(status) {
		if set, found := strings.CutPrefix(line, "CapBnd:"); found {
			bits, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
			return err != nil || bits&(1<<sysResource) != 0
		}
	}
	return true
}

// buildRuntime builds the runtime of the containers, clusters/images/programs/runtime. Its file is the one that the
// node image's store also uses.
func buildRuntime(ctx context.Context, root string) (string, error) {
	target := gobuild.Target{
		Package: ".", Module: filepath.Join(root, "clusters", "images", "programs", "runtime"),
		Output: filepath.Join(root, ".cache", "images", "programs", "runtime"),
	}
	if err := target.Ensure(ctx, nil); err != nil {
		return "", err
	}
	return target.Output, nil
}

func pidFile(root string) string { return filepath.Join(folder(root), "dockerd.pid") }

func logFile(root string) string { return filepath.Join(folder(root), "dockerd.log") }

// ours returns the engine that Start has started for the checkout at root, or nil. On Linux an os.Process is a handle,
// which never refers to another process, so it is opened before we check the process that has the number.
func ours(root string) *os.Process {
	text, err := os.ReadFile(pidFile(root))
	if err != nil {
		return nil
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil
	}
	engine, err := os.FindProcess(number)
	if err != nil {
		return nil
	}
	command, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(number), "cmdline"))
	if err != nil || !strings.Contains(string(command), filepath.Join(folder(root), "data")) {
		return nil
	}
	return engine
}

// StopIfOurs stops an engine that Start has started, if it has no containers left. It reports whether it did.
func StopIfOurs(ctx context.Context, root string) (bool, error) {
	err := Stop(ctx, root)
	if errors.Is(err, ErrContainers) || errors.Is(err, errNotOurs) {
		return false, nil
	}
	return err == nil, err
}

var errNotOurs = errors.New("no engine that we started is running; " +
	"stop an engine of this machine the way it was started")

// Stop stops the engine that Start has started, and removes its images, its networks, and its packet filter rules. If
// the engine has containers, Stop returns an error and does nothing.
func Stop(ctx context.Context, root string) error {
	engine := ours(root)
	if engine == nil {
		if _, err := os.Stat(filepath.Join(folder(root), "data")); err != nil || os.Geteuid() != 0 {
			return errNotOurs
		}
		if ping(ctx) {
			return cleanUp(ctx, root) // ours is gone, and another one runs
		}
		// The engine was killed. Its mounts and processes still exist, and only an engine can release them.
		if _, err := start(ctx, root, func(string) {}); err != nil {
			return err
		}
		if engine = ours(root); engine == nil {
			return fmt.Errorf("ending Docker's engine: it has exited; the end of its log:\n%s", lastLines(logFile(root)))
		}
	}
	out, err := output(ctx, "docker", "--host", "unix://"+socket, "ps", "--all", "--quiet")
	if err != nil {
		return fmt.Errorf("listing the containers of Docker's engine: %w", err)
	}
	if out != "" {
		return ErrContainers
	}
	if _, err := output(ctx, "docker", "--host", "unix://"+socket, "network", "prune", "--force"); err != nil {
		return fmt.Errorf("removing the networks of Docker's engine: %w", err)
	}
	if err := end(ctx, engine); err != nil {
		return err
	}
	return cleanUp(ctx, root)
}

// end ends the engine's process, by force if necessary.
func end(ctx context.Context, engine *os.Process) error {
	if err := engine.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending Docker's engine: %w", err)
	}
	deadline := time.Now().Add(stopTime)
	for killed := false; ; {
		if gone(engine) {
			return nil
		}
		switch {
		case time.Now().After(deadline) && killed:
			return fmt.Errorf("ending Docker's engine: its process %d does not exit", engine.Pid)
		case time.Now().After(deadline):
			_ = engine.Kill() // its containerd ends with it
			killed, deadline = true, time.Now().Add(stopTime)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(interval):
		}
	}
}

// gone reports whether a process has ended. A process whose parent has not waited for it has ended, too.
func gone(process *os.Process) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process.Pid), "stat"))
	if err != nil || errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}

// cleanUp removes what an engine leaves behind.
func cleanUp(ctx context.Context, root string) error {
	dir := folder(root)
	another := ping(ctx)
	own := []string{filepath.Join(dir, "data"), runFolder}
	if !another {
		own = append(own, "/run/docker")
	}
	for _, path := range own {
		if err := unmount(path); err != nil {
			return err
		}
	}
	if another { // the rest may be its own
		return errors.Join(os.RemoveAll(runFolder), os.RemoveAll(dir))
	}
	if _, err := output(ctx, "ip", "link", "show", "docker0"); err == nil {
		if _, err := output(ctx, "ip", "link", "delete", "docker0"); err != nil {
			return fmt.Errorf("removing the network of Docker's engine: %w", err)
		}
	}
	if err := removeRules(ctx, dir); err != nil {
		return err
	}
	left := append(own, socket, dir)
	if _, err := os.Stat("/run/containerd/containerd.sock"); errors.Is(err, fs.ErrNotExist) {
		left = append(left, "/run/containerd") // an engine stores files there, too, but so does a containerd of this machine
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing the leftovers of Docker's engine: %w", err)
		}
	}
	return nil
}

// unmount unmounts a folder and everything that is mounted in it, in reverse order.
func unmount(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1]+"/", dir+"/") {
			points = append(points, fields[1])
		}
	}
	for _, point := range slices.Backward(points) {
		if err := syscall.Unmount(point, detach); err != nil && !errors.Is(err, syscall.EINVAL) {
			return &fs.PathError{Op: "unmounting", Path: point, Err: err}
		}
	}
	return nil
}

// policy returns the policy for packets that this machine forwards. Docker's engine sets it to DROP.
func policy(ctx context.Context) (string, error) {
	rules, err := output(ctx, "iptables-save", "-t", "filter")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(rules) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == ":FORWARD" {
			return fields[1], nil
		}
	}
	return "ACCEPT", nil // there is no table yet
}

// removeRules removes the engine's rules from the packet filter of this machine.
func removeRules(ctx context.Context, dir string) error {
	rules, err := output(ctx, "iptables-save")
	if err != nil {
		return nil //nolint:nilerr // without iptables there are no rules
	}
	before, err := os.ReadFile(filepath.Join(dir, "forward-policy"))
	if err != nil || len(before) == 0 {
		before = []byte("ACCEPT")
	}
	command := exec.CommandContext(ctx, "iptables-restore")
	command.Stdin = strings.NewReader(withoutDocker(rules, string(before)))
	command.WaitDelay = time.Second
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("removing the rules of Docker's engine: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// withoutDocker returns the output of iptables-save without the rules that Docker's engine added.
func withoutDocker(rules, forward string) string {
	var kept strings.Builder
	for line := range strings.Lines(rules) {
		switch {
		case strings.HasPrefix(line, ":FORWARD DROP"):
			line = strings.Replace(line, "DROP", forward, 1)
		case strings.HasPrefix(line, ":DOCKER"), strings.HasPrefix(line, "-") && mentionsDocker(line):
			continue
		}
		kept.WriteString(line)
	}
	return kept.String()
}

func mentionsDocker(rule string) bool {
	fields := strings.Fields(rule)
	for i, field := range fields {
		if strings.HasPrefix(field, "DOCKER") || field == "docker0" {
			return true
		}
		// These are the bridges of networks that users created.
		if i > 0 && (fields[i-1] == "-i" || fields[i-1] == "-o") && len(field) == 15 && strings.HasPrefix(field, "br-") {
			return true
		}
	}
	return false
}

func output(ctx context.Context, program string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, program, args...)
	command.WaitDelay = time.Second
	var problem bytes.Buffer
	command.Stderr = &problem
	out, err := command.Output()
	if err != nil && problem.Len() > 0 {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(problem.Bytes()))
	}
	return strings.TrimSpace(string(out)), err
}

func lastLines(file string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}
