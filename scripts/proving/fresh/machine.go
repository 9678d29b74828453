// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package fresh

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lva.io/operators/clusters/debian"
	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/progress"
)

const (
	// suite is the Debian release of the root. packages are its packages besides those that Debian calls essential.
	suite    = "bookworm"
	packages = "make,git,ca-certificates"
	// homeInRoot is the user's home in the root.
	homeInRoot = "/home/student"
	// nobodyUID is the user on a machine without a root of its own, if we run as root.
	nobodyUID = 65534
)

// certificates is the file in which Debian, and Go on it, look for certificate authorities. This machine's file may
// have the authority of a proxy, without which nothing can be downloaded.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// machine is the machine on which the commands are tried.
type machine struct {
	scope *process.Scope
	what  string
	// root reports that the machine has a root of its own.
	root bool
	// warm reports that its caches are this machine's.
	warm bool
	// home is its user's home, and temporary is the folder for temporary files. Both are paths of this machine. temporary
	// is empty if others use that folder, too.
	home, temporary string
	// program and arguments run a script in the checkout. The script is the last argument. environment is the environment
	// of program.
	program                string
	arguments, environment []string
	// variables are the environment variables of the script.
	variables []string
	// close removes files that the scope does not remove.
	close func() error
}

func (m *machine) String() string { return m.what }

// host has the parts of this machine that are used: Go, and with warm its caches.
type host struct {
	goroot, gocache, gomodcache string
	warm                        bool
	// airGap reports that the machine has no network and no module proxy.
	airGap bool
}

func (h host) caches() string {
	if h.airGap {
		return "no module proxy, and the module cache and the build cache of this machine"
	}
	if h.warm {
		return "and uses the module cache and the build cache of this machine"
	}
	return "an empty module cache and an empty build cache"
}

// more returns additional variables of the machine.
func (h host) more() []string {
	if h.airGap {
		return []string{"GOPROXY=off"}
	}
	return nil
}

func inspectHost(ctx context.Context) (host, error) {
	installed, err := gobuild.Installed(ctx)
	if err != nil {
		return host{}, err
	}
	h := host{goroot: installed.Root, gocache: installed.BuildCache, gomodcache: installed.ModuleCache}
	return h, errors.Join(os.MkdirAll(h.gocache, 0o755), os.MkdirAll(h.gomodcache, 0o755))
}

// newMachine creates a Debian root if possible, and otherwise the nearest approximation. modules is the folder of its
// module cache.
func newMachine(ctx context.Context, scope *process.Scope, h host, modules string) (*machine, error) {
	m, err := debianRoot(ctx, scope, h, modules)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return withoutRoot(scope, h, modules, err)
	}
	return m, nil
}

// variablesOf returns the variables of the machine's user: paths, and settings without which nothing can be downloaded
// here.
func variablesOf(home, goroot string, more ...string) []string {
	variables := append([]string{"HOME=" + home, "PATH=" + filepath.Join(goroot, "bin") + ":/usr/bin:/bin"}, more...)
	for _, variable := range gobuild.Environment() {
		name, value, _ := strings.Cut(variable, "=")
		switch strings.ToUpper(name) {
		case "GOPROXY":
			if value != "" && !slices.Contains(more, "GOPROXY=off") {
				variables = append(variables, variable)
			}
		case "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE",
			"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR":
			if value != "" {
				variables = append(variables, variable)
			}
		}
	}
	return variables
}

// debianRoot creates a Debian root. The error explains why that is impossible here.
func debianRoot(ctx context.Context, scope *process.Scope, h host, modules string) (*machine, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("only root may make one")
	}
	if err := debian.Need(ctx, map[string]string{
		"mmdebstrap":             "mmdebstrap",
		"bubblewrap":             "bwrap",
		"debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
	}); err != nil {
		return nil, err
	}
	program, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, err
	}
	root := filepath.Join(scope.Dir, "root")
	if err := install(ctx, scope, root); err != nil {
		return nil, err
	}
	passwd, err := os.OpenFile(filepath.Join(root, "etc", "passwd"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(passwd, "student:x:1000:1000::%s:/bin/sh\n", homeInRoot)
	if err := errors.Join(err, passwd.Close()); err != nil {
		return nil, err
	}
	m := &machine{
		scope: scope, root: true, home: filepath.Join(scope.Dir, "home"), temporary: filepath.Join(scope.Dir, "tmp"),
		program: program, environment: []string{},
		variables: variablesOf(homeInRoot, h.goroot, h.more()...), close: func() error { return nil },
		warm: h.warm, what: "a Debian root (" + suite + ") with this machine's Go, make, git and ca-certificates, " +
			"whose user has no rights and an empty home, " + h.caches(),
	}
	if h.airGap {
		m.what += ". It has no network"
	}
	if err := errors.Join(os.Mkdir(m.home, 0o755), os.Mkdir(m.temporary, 0o755)); err != nil {
		return nil, err
	}
	m.arguments = m.sandbox(h, root, modules)
	command := exec.CommandContext(ctx, m.program, append(slices.Clone(m.arguments), "--chdir", "/", "true")...)
	if out, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("bwrap: %w: %s", err, bytes.TrimSpace(out))
	}
	m.arguments = append(m.arguments, "--chdir", homeInRoot+"/"+clone, "/bin/sh", "-c")
	return m, nil
}

// sandbox returns the arguments with which bwrap makes a root the root folder of a process. The process has namespaces
// of its own, so all mounts and processes end with it. In its user namespace it is an ordinary user, while its files
// belong to root on this machine.
func (m *machine) sandbox(h host, root, modules string) []string {
	arguments := []string{
		"--unshare-user", "--uid", "1000", "--gid", "1000",
		"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", "fresh",
		"--die-with-parent", "--new-session", "--clearenv",
		"--bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--bind", m.temporary, "/tmp",
		"--bind", m.home, homeInRoot, "--bind", modules, homeInRoot + "/go/pkg/mod", "--ro-bind", h.goroot, h.goroot,
	}
	if h.warm {
		arguments = append(arguments, "--bind", h.gocache, homeInRoot+"/.cache/go-build")
	}
	if h.airGap {
		arguments = append(arguments, "--unshare-net") // bwrap brings the loopback device up
	}
	// Downloads need these files.
	readOnly := []string{"/etc/resolv.conf", "/etc/hosts", certificates}
	for _, variable := range m.variables {
		name, value, _ := strings.Cut(variable, "=")
		arguments = append(arguments, "--setenv", name, value)
		switch name {
		case "SSL_CERT_FILE":
			readOnly = append(readOnly, value)
		case "GOPROXY":
			for proxy := range strings.SplitSeq(strings.ReplaceAll(value, "|", ","), ",") {
				if folder, is := strings.CutPrefix(proxy, "file://"); is {
					readOnly = append(readOnly, folder)
				}
			}
		}
	}
	for _, name := range readOnly {
		arguments = append(arguments, "--ro-bind-try", name, name)
	}
	return append(arguments, "--remount-ro", "/")
}

// install creates a root of Debian packages.
func install(ctx context.Context, scope *process.Scope, root string) error {
	program, err := exec.LookPath("unshare")
	if err != nil {
		return err
	}
	messages, messagesWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	defer messages.Close()
	p, err := scope.Start(process.Spec{
		// Its mounts end with it, even if it is killed. An incomplete root is useless, so dpkg need not wait for the disk.
		Name: "mmdebstrap", Path: program, Args: []string{
			"--mount", "--", "mmdebstrap", "--variant=essential",
			"--dpkgopt=force-unsafe-io", "--include=" + packages, suite, root,
		},
		Env: append(os.Environ(), "TMPDIR="+scope.Dir, "LC_ALL=C.UTF-8"), Stdout: os.Stderr, Stderr: messagesWrite,
	})
	messagesWrite.Close()
	if err != nil {
		return err
	}
	bar := progress.Start(os.Stderr, "install Debian packages into an empty root")
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	var last []string
	steps := 0
	for lines := bufio.NewScanner(messages); lines.Scan(); {
		if last = append(last, lines.Text()); len(last) > 12 {
			last = last[1:]
		}
		if strings.HasPrefix(lines.Text(), "I: ") {
			steps++
			bar.Set("steps", steps, 0)
		}
	}
	<-p.Done()
	if p.Err() != nil {
		bar.Fail()
		return fmt.Errorf("mmdebstrap: %w\n%s", p.Err(), strings.Join(last, "\n"))
	}
	bar.Done()
	return nil
}

// withoutRoot returns this machine, as an ordinary user with an empty home. Installed programs are still found, and
// others use the folder for temporary files.
func withoutRoot(scope *process.Scope, h host, modules string, reason error) (*machine, error) {
	m := &machine{
		scope: scope, warm: h.warm, home: filepath.Join(scope.Dir, "home"),
		program: "/bin/sh", close: func() error { return nil },
	}
	m.what = fmt.Sprintf("this one, for a user who has an empty home, %s. "+
		"It is not a Debian root (%v), so a program that is missing "+
		"elsewhere may be found here", h.caches(), reason)
	more := append(h.more(), "GOMODCACHE="+modules)
	switch {
	case h.warm: // No other user may use these caches, so the user is the current one, root or not.
		more = append(more, "GOCACHE="+h.gocache)
	case os.Geteuid() == 0:
		// No other user can enter the folder of a run.
		folder, err := os.MkdirTemp("", "operator-labs-fresh-")
		if err != nil {
			return nil, fmt.Errorf("creating a home: %w", err)
		}
		m.home, m.close = filepath.Join(folder, "home"), func() error { return os.RemoveAll(folder) }
		if m.program, err = exec.LookPath("setpriv"); err != nil {
			return nil, errors.Join(errors.New("an ordinary user is needed: run it as one"), err, m.close())
		}
		user := strconv.Itoa(nobodyUID)
		m.arguments = []string{"--reuid", user, "--regid", user, "--clear-groups", "/bin/sh"}
		if err := os.Chmod(folder, 0o711); err != nil {
			return nil, errors.Join(err, m.close())
		}
	}
	if err := os.Mkdir(m.home, 0o755); err != nil {
		return nil, errors.Join(err, m.close())
	}
	m.variables = variablesOf(m.home, h.goroot, more...)
	m.environment = m.variables
	m.arguments = append(m.arguments, "-c", `cd "$HOME/`+clone+`" && eval "$0"`)
	return m, nil
}

// clone gives the user a clone of the committed files at root.
func (m *machine) clone(ctx context.Context, root, modules string) error {
	command := exec.CommandContext(ctx, "git", "-c", "safe.directory=*",
		"clone", "--quiet", "--depth", "1", "file://"+root, filepath.Join(m.home, clone))
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("cloning what is committed in %s: %w: %s", root, err, bytes.TrimSpace(out))
	}
	if m.root || m.warm || os.Geteuid() != 0 {
		return nil
	}
	for _, folder := range []string{m.home, modules} {
		err := filepath.WalkDir(folder, func(name string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(name, nobodyUID, nobodyUID))
		})
		if err != nil {
			return fmt.Errorf("giving the clone to its user: %w", err)
		}
	}
	return nil
}

// command returns the process that runs a script in the checkout.
func (m *machine) command(script string) process.Spec {
	return process.Spec{
		Name: "the fresh machine", Path: m.program, Args: append(slices.Clone(m.arguments), script),
		Env: m.environment, Dir: m.home,
	}
}
