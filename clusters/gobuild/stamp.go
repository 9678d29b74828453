// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gobuild

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// stamp is a file beside a program that records the sources and the build of the program.
type stamp struct {
	// Go is the go command that built the program, and Recipe is how it was called.
	Go, Recipe string
	// Packages are the packages of this project that are part of the program. The go command found them, so there is no
	// list to maintain.
	Packages []sourcePackage
	// Sources is the digest of their files.
	Sources string
	// Program is the digest of the program, and File is the state of its file when the digest was computed.
	Program string
	File    fileState
}

// sourcePackage is a package whose sources are in this project.
type sourcePackage struct {
	// Folder is the package's folder, and Module is that of its module, both relative to the target's module.
	Folder, Module string
	// Embeds are the patterns of the files that it embeds.
	Embeds []string
	// Tests reports that the program includes the package's tests, too.
	Tests bool
}

// fileState holds properties that change whenever the file changes. A program can set the time of a file's last status
// change only to the current time.
type fileState struct{ Size, Modified, Changed, Inode int64 }

func stateOf(name string) (fileState, error) {
	var stat unix.Stat_t
	if err := unix.Stat(name, &stat); err != nil {
		return fileState{}, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return fileState{Size: stat.Size, Modified: stat.Mtim.Nano(), Changed: stat.Ctim.Nano(), Inode: int64(stat.Ino)}, nil
}

// recipe describes how the program is built, except for its sources.
func (t Target) recipe() string {
	return fmt.Sprintln(t.Package, t.LinkFlags, t.Test, t.Tags, t.C, t.Arch, Flags)
}

// goProgram identifies the go command. It is empty if there is none.
func goProgram() string {
	program, err := exec.LookPath("go")
	if err != nil {
		return ""
	}
	info, err := os.Stat(program)
	if err != nil {
		return ""
	}
	return fmt.Sprintln(program, info.Size(), info.ModTime().UnixNano())
}

// Fresh reports whether the program exists, is up to date with its sources, and is unchanged since it was built from
// them. Without a go command, which could not build it anyway, it may have been built with any other.
func (t Target) Fresh() bool {
	content, err := os.ReadFile(t.Output + ".stamp")
	if err != nil {
		return false
	}
	var have stamp
	if json.Unmarshal(content, &have) != nil || have.Recipe != t.recipe() {
		return false
	}
	if program := goProgram(); program != "" && program != have.Go {
		return false
	}
	sources, err := t.digest(have.Packages)
	return err == nil && sources == have.Sources && t.intact(have)
}

// intact reports whether the program is the one that was built. Its digest is computed only if the file was touched
// since: a large program takes a tenth of a second.
func (t Target) intact(have stamp) bool {
	state, err := stateOf(t.Output)
	if err != nil || state.Size != have.File.Size {
		return false
	}
	if state == have.File {
		return true
	}
	digest, err := Digest(t.Output)
	if err != nil || digest != have.Program {
		return false
	}
	have.File = state
	_ = t.write(have) // if it can't be written, the next call computes the digest again
	return true
}

// writeStamp writes the stamp of a newly built program.
func (t Target) writeStamp(s stamp) error {
	var err error
	if s.Program, err = Digest(t.Output); err != nil {
		return fmt.Errorf("reading the built program: %w", err)
	}
	if s.File, err = stateOf(t.Output); err != nil {
		return fmt.Errorf("looking at the built program: %w", err)
	}
	return t.write(s)
}

func (t Target) write(s stamp) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the stamp of %s: %w", filepath.Base(t.Output), err)
	}
	temporary := fmt.Sprintf("%s.stamp.%d", t.Output, os.Getpid())
	defer os.Remove(temporary)
	if err := os.WriteFile(temporary, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the stamp of %s: %w", filepath.Base(t.Output), err)
	}
	return os.Rename(temporary, t.Output+".stamp")
}

// Digest returns the SHA-256 of a file's content, in hexadecimal.
func Digest(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// digest returns the digest of all files of this project that the program is built from.
func (t Target) digest(packages []sourcePackage) (string, error) {
	var files []string
	for _, p := range packages {
		folder := filepath.Join(t.Module, p.Folder)
		for _, name := range []string{"go.mod", "go.sum"} {
			files = append(files, filepath.Join(t.Module, p.Module, name))
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			return "", err
		}
		for _, entry := range entries {
			if !entry.IsDir() && isSource(entry.Name(), p.Tests) {
				files = append(files, filepath.Join(folder, entry.Name()))
			}
		}
		for _, pattern := range p.Embeds {
			embedded, err := matching(folder, pattern)
			if err != nil {
				return "", err
			}
			files = append(files, embedded...)
		}
	}
	slices.Sort(files)
	digest := sha256.New()
	for _, name := range slices.Compact(files) {
		content, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		relative, err := filepath.Rel(t.Module, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(digest, relative, len(content))
		digest.Write(content)
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// isSource reports whether the go command may compile a file of a package's folder.
func isSource(name string, tests bool) bool {
	switch filepath.Ext(name) {
	case ".go":
		return tests || !strings.HasSuffix(name, "_test.go")
	case ".s", ".S", ".c", ".h", ".syso":
		return true
	}
	return false
}

// matching lists the files that a package embeds by a pattern, and those of folders that it names. (package embed) The
// folder's own path is not part of the pattern: it may contain brackets.
func matching(folder, pattern string) (files []string, err error) {
	tree := os.DirFS(folder)
	matches, err := fs.Glob(tree, strings.TrimPrefix(pattern, "all:"))
	if err != nil {
		return nil, err
	}
	for _, match := range matches {
		err := fs.WalkDir(tree, match, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				files = append(files, filepath.Join(folder, name))
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}
