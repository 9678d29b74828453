// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"

	"lva.io/operators/clusters/debian"
	"lva.io/operators/clusters/process"
)

// volatilePaths are paths of a Debian root that are recreated where it runs, or that reveal when and where it was made.
var volatilePaths = []string{
	"dev/*", "proc/*", "sys/*", "run/*", "tmp/*", "var/tmp/*", "var/log/*", "var/cache/*/*", "var/lib/apt/lists/*",
	"var/lib/systemd/*/*", "etc/machine-id", "etc/hostname", "etc/resolv.conf", "etc/.pwd.lock", "root/.cache",
	"var/lib/dpkg/*-old", "etc/*-", "var/lib/dbus/machine-id",
	"etc/iscsi/initiatorname.iscsi", "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
}

// writeDebian writes a root of Debian packages as a layer.
func (s *Store) writeDebian(ctx context.Context, name string, root Debian, w io.Writer, progress Progress) error {
	needed := map[string]string{"mmdebstrap": "mmdebstrap"}
	if os.Geteuid() != 0 {
		needed["uidmap"] = "newuidmap"
	}
	if err := debian.Need(ctx, needed); err != nil {
		return err
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer scope.Close()
	command := debianCommand(root)
	program, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	layer, layerWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	defer layer.Close()
	messages, messagesWrite, err := os.Pipe()
	if err != nil {
		layerWrite.Close()
		return err
	}
	environment := append(os.Environ(),
		"TMPDIR="+scope.Dir, fmt.Sprintf("SOURCE_DATE_EPOCH=%d", Epoch.Unix()), "LC_ALL=C.UTF-8")
	p, err := scope.Start(process.Spec{
		Path: program, Args: command[1:], Env: environment, Stdout: layerWrite, Stderr: messagesWrite,
	})
	layerWrite.Close()
	messagesWrite.Close()
	if err != nil {
		messages.Close()
		return err
	}
	var last []string
	var reading sync.WaitGroup
	reading.Go(func() {
		defer messages.Close()
		steps := int64(0)
		for lines := bufio.NewScanner(messages); lines.Scan(); {
			if last = append(last, lines.Text()); len(last) > 12 {
				last = last[1:]
			}
			if strings.HasPrefix(lines.Text(), "I: ") {
				steps++
				progress.report("Debian packages for "+name, steps, 0)
			}
		}
	})
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	problem := normalise(layer, w, root.Remove)
	if problem != nil {
		p.Kill()
	}
	_, _ = io.Copy(io.Discard, layer)
	<-p.Done()
	reading.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p.Err() != nil && problem == nil {
		problem = p.Err()
	}
	if problem != nil {
		return fmt.Errorf("installing Debian packages for %s (it needs Debian's mirror, and root or user namespaces): %w\n%s",
			name, problem, strings.Join(last, "\n"))
	}
	return nil
}

// debianCommand returns the command that installs the packages of a root, and writes it as an archive.
func debianCommand(root Debian) []string {
	// The mounts that it creates in the root, such as /proc, are removed with it, also when it is killed.
	command := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		// The command's own mode without root maps this user to one of many, which may not even enter our folders.
		command = append(command, "--user", "--map-root-user", "--map-auto")
	}
	// dpkg waits for the disk after each file, unless an option turns that off. A half-made root is worthless anyway.
	return append(command, "--",
		"mmdebstrap", "--mode=root", "--variant=minbase", "--format=tar", "--dpkgopt=force-unsafe-io",
		"--include="+strings.Join(root.Packages, ","), root.Suite, "-")
}

// normalise copies a root without the files that should not be in an image, and without any trace of when it was built.
func normalise(from io.Reader, to io.Writer, remove []string) error {
	source, target := tar.NewReader(from), tar.NewWriter(to)
	removed := map[string]bool{}
	for {
		header, err := source.Next()
		if errors.Is(err, io.EOF) {
			return target.Close()
		}
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
		if name == "" {
			continue
		}
		if matches(volatilePaths, name) || matches(remove, "/"+name) || removed[path.Dir(name)] {
			if header.Typeflag == tar.TypeDir {
				removed[name] = true
			}
			continue
		}
		clean := &tar.Header{
			Typeflag: header.Typeflag, Name: name, Linkname: header.Linkname, Size: header.Size, Mode: header.Mode,
			Uid: header.Uid, Gid: header.Gid, Devmajor: header.Devmajor, Devminor: header.Devminor, ModTime: Epoch,
		}
		for record, value := range header.PAXRecords {
			if strings.HasPrefix(record, "SCHILY.xattr.") {
				if clean.PAXRecords == nil {
					clean.PAXRecords = map[string]string{}
				}
				clean.PAXRecords[record] = value
			}
		}
		switch header.Typeflag {
		case tar.TypeDir:
			clean.Name += "/"
		case tar.TypeLink:
			clean.Linkname = strings.TrimPrefix(path.Clean("/"+header.Linkname), "/")
		}
		if err := target.WriteHeader(clean); err != nil {
			return fmt.Errorf("packing /%s: %w", name, err)
		}
		if _, err := io.Copy(target, source); err != nil {
			return fmt.Errorf("packing /%s: %w", name, err)
		}
	}
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return err == nil && matched
	})
}

// fromLayer reads one file of a layer.
func (s *Store) fromLayer(layer blob, name string) ([]byte, error) {
	file, err := os.Open(s.blob(layer.Digest))
	if err != nil {
		return nil, fmt.Errorf("reading from the image store: %w", err)
	}
	defer file.Close()
	for archive := tar.NewReader(file); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, &fs.PathError{Op: "finding", Path: name, Err: fs.ErrNotExist}
		}
		if err != nil {
			return nil, err
		}
		if "/"+header.Name == name {
			if header.Typeflag != tar.TypeReg {
				return nil, fmt.Errorf("%s is not a plain file", name)
			}
			return io.ReadAll(archive)
		}
	}
}
