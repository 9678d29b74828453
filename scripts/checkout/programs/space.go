// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"lva.io/operators/scripts/checkout/programs/reference"
)

// Disk space that the first build takes, in bytes, as measured (README.md, docs/reference/machines.md). The part named
// work is in the checkout, and is freed when Kubernetes is compiled. The rest is mostly in Go's caches, which may be on
// another disk, or already full.
const (
	firstBuild = 8e9
	work       = 3e9
)

// FirstBuild describes how much space the first build needs on the disk of a checkout.
type FirstBuild struct {
	// Free is the number of bytes that this disk has left.
	Free float64
}

// PlanFirstBuild checks the disk of the checkout at root. needed is false if everything is already built or is
// installed from an archive.
func PlanFirstBuild(root string) (f FirstBuild, needed bool, err error) {
	if _, err := os.Stat(filepath.Join(root, ".cache", "controlplane", "controlplane")); err == nil {
		return f, false, nil
	}
	if _, arrives, err := reference.Locked(root, runtime.GOOS+"/"+runtime.GOARCH); err == nil && arrives {
		return f, false, nil
	}
	f.Free, err = Free(root)
	return f, true, err
}

// Free returns how many bytes the disk of a folder has left for this user.
func Free(dir string) (float64, error) {
	var system syscall.Statfs_t
	if err := syscall.Statfs(dir, &system); err != nil {
		return 0, fmt.Errorf("reading the free space of the disk of %s: %w", dir, err)
	}
	return float64(system.Bavail) * float64(system.Bsize), nil
}

// Tight reports whether the space suffices only if Go's caches are on another disk, or have most of the packages
// already.
func (f FirstBuild) Tight() bool { return f.Free < firstBuild }

// Impossible reports whether the space does not suffice in any case: Kubernetes can't be compiled there.
func (f FirstBuild) Impossible() bool { return f.Free < work }

// String describes in one sentence, without a full stop, how much is needed.
func (f FirstBuild) String() string {
	return fmt.Sprintf("the first build takes up to %.0f GB of disk with Go's caches, of which it gives %.0f GB back, "+
		"and this folder's disk has %.1f GB free", firstBuild/1e9, work/1e9, f.Free/1e9)
}
