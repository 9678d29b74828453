// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package debian installs Debian packages on this machine, where that is allowed. It does not build images from
// packages (clusters/images does).
package debian

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Need installs Debian packages whose program or file is missing here. The map gives the program's name or the file's
// path by package. If the user may not install packages, the error lists them.
func Need(ctx context.Context, needed map[string]string) error {
	var missing []string
	for pkg, proof := range needed {
		_, err := exec.LookPath(proof)
		if path.IsAbs(proof) {
			_, err = os.Stat(proof)
		}
		if err != nil {
			missing = append(missing, pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return Install(ctx, missing...)
}

// installing is held while apt runs, because only one apt can run at a time.
var installing sync.Mutex

// Install installs Debian packages on this machine. Without root, or on another system than Debian, the error explains
// what to do instead.
func Install(ctx context.Context, packages ...string) error {
	installing.Lock()
	defer installing.Unlock()
	list := strings.Join(packages, " ")
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("%s: these Debian packages are needed, and this machine has no apt: "+
			"install them another way, or do this on Debian as root "+
			"(for images, `cluster bundle` carries the result here)", list)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s: these Debian packages are needed: "+
			"run `sudo apt-get install --no-install-recommends %s`", list, list)
	}
	// Another apt may be running: the machine's own updates, or one that outlives a killed command of ours.
	install := append([]string{"install", "-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"},
		packages...)
	for attempt := range 2 {
		var out []byte
		command := exec.CommandContext(ctx, apt, install...)
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		// An interrupted apt ends a download at once, but lets dpkg finish what it has begun. A package that is half
		// installed would affect the whole machine, and not only us.
		command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
		command.WaitDelay = time.Minute
		if out, err = command.CombinedOutput(); err == nil {
			return nil
		}
		if attempt == 0 {
			update := exec.CommandContext(ctx, apt, "update", "-qq")
			update.WaitDelay = 10 * time.Second
			if out, err := update.CombinedOutput(); err != nil {
				return fmt.Errorf("asking Debian's mirror for its packages: %w\n%s", err, tail(out))
			}
			continue
		}
		err = fmt.Errorf("installing the Debian packages %s: %w\n%s", list, err, tail(out))
	}
	return err
}

func tail(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
