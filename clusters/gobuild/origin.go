// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gobuild

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"lva.io/operators/clusters/filelock"
)

// Origin identifies what a program was built from, in terms that are valid on every machine. A stamp also has terms
// that are valid only on one.
type Origin struct {
	// Go is the version of the go command that built the program, such as go1.26.8. System is the system that the program
	// runs on, such as linux/amd64.
	Go     string `json:"go"`
	System string `json:"system"`
	// Recipe, Packages and Sources are as in a stamp.
	Recipe   string          `json:"recipe"`
	Packages []sourcePackage `json:"packages"`
	Sources  string          `json:"sources"`
	// Program is the SHA-256 of the program, in hexadecimal.
	Program string `json:"program"`
}

// Installation is the go command on PATH.
type Installation struct {
	// Version is its version, such as go1.26.8.
	Version string `json:"GOVERSION"`
	// Root is the folder of the installation.
	Root string `json:"GOROOT"`
	// ModuleCache and BuildCache are the folders of its caches.
	ModuleCache string `json:"GOMODCACHE"`
	BuildCache  string `json:"GOCACHE"`
	// Proxy is the source of modules.
	Proxy string `json:"GOPROXY"`
}

// Installed asks the go command for its installation, in the environment in which this project builds Go code. It takes
// a few milliseconds.
func Installed(ctx context.Context) (i Installation, err error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return i, ErrNoGo
	}
	command := exec.CommandContext(ctx, path, "env", "-json", "GOVERSION", "GOROOT", "GOMODCACHE", "GOCACHE", "GOPROXY")
	command.Env = Environment()
	output, err := command.Output()
	if err == nil {
		err = json.Unmarshal(output, &i)
	}
	if err != nil {
		return i, fmt.Errorf("asking the go command about itself: %w", err)
	}
	return i, nil
}

// System returns the system that the program runs on, such as linux/amd64.
func (t Target) System() string { return runtime.GOOS + "/" + cmp.Or(t.Arch, runtime.GOARCH) }

// Origin returns what the program was built from. The program must be fresh. version is that of the go command.
func (t Target) Origin(version string) (Origin, error) {
	if !t.Fresh() {
		return Origin{}, fmt.Errorf("%s is not there, or older than its sources", filepath.Base(t.Output))
	}
	content, err := os.ReadFile(t.Output + ".stamp")
	if err != nil {
		return Origin{}, err
	}
	var have stamp
	if err := json.Unmarshal(content, &have); err != nil {
		return Origin{}, fmt.Errorf("reading the stamp of %s: %w", filepath.Base(t.Output), err)
	}
	return Origin{
		Go: version, System: t.System(), Recipe: have.Recipe,
		Packages: have.Packages, Sources: have.Sources, Program: have.Program,
	}, nil
}

// Fits reports whether a build of the program here, with this version of the go command, would use what the origin
// names.
func (t Target) Fits(o Origin, version string) bool {
	if o.Go != version || o.System != t.System() || o.Recipe != t.recipe() {
		return false
	}
	sources, err := t.digest(o.Packages)
	return err == nil && sources == o.Sources
}

// ErrOther reports that a program is not the one that its origin names.
var ErrOther = errors.New("it is not the program that its origin names")

// Adopt installs a file as the program. The origin must fit. The file must be on the same file system, and is moved
// away. The error is ErrOther if the file has other contents than its origin records.
func (t Target) Adopt(ctx context.Context, o Origin, file string) (err error) {
	name := filepath.Base(t.Output)
	digest, err := Digest(file)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if digest != o.Program {
		return fmt.Errorf("installing %s: %w", name, ErrOther)
	}
	if err := os.MkdirAll(filepath.Dir(t.Output), 0o755); err != nil {
		return fmt.Errorf("creating the folder for %s: %w", name, err)
	}
	unlock, err := filelock.Wait(ctx, t.Output+".lock")
	if err != nil {
		return fmt.Errorf("waiting for another build of %s: %w", name, err)
	}
	defer unlock()
	if err := errors.Join(os.Chmod(file, 0o755), os.Rename(file, t.Output)); err != nil { //nolint:gosec // a program
		return fmt.Errorf("installing %s: %w", name, err)
	}
	return t.writeStamp(stamp{Go: goProgram(), Recipe: o.Recipe, Packages: o.Packages, Sources: o.Sources})
}
