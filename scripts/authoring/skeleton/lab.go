// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package skeleton

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lva.io/operators/clusters/removal"
	"lva.io/operators/scripts/checkout/command"
)

// Change is a file of a lab that differs from the file that its solution generates.
type Change struct {
	// File is relative to the repository's root, with slashes.
	File string
	// Have is the current file, and Want is the generated file. Nil: the file does not exist.
	Have, Want []byte

	mode fs.FileMode
}

// Compare generates a lab into a temporary folder and lists the files of labs/ that differ, are missing or are extra.
func (g Generator) Compare(ctx context.Context, lab string) ([]Change, error) {
	runner, err := command.NewRunner()
	if err != nil {
		return nil, err
	}
	defer runner.Close()
	return g.compare(ctx, runner, lab)
}

func (g Generator) compare(ctx context.Context, runner *command.Runner, lab string) ([]Change, error) {
	dir, err := os.MkdirTemp(runner.Dir(), lab+"-")
	if err != nil {
		return nil, err
	}
	if err := g.generate(ctx, runner, lab, dir, tidyMustWork); err != nil {
		return nil, err
	}
	want, err := readFolder(dir)
	if err != nil {
		return nil, err
	}
	have, err := readFolder(filepath.Join(g.Root, "labs", lab))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	visible, err := g.visible(ctx, runner, lab)
	if err != nil {
		return nil, err
	}
	changes := map[string]Change{}
	for _, f := range have {
		// Files that git ignores are not extra files. They must not be deleted like committed ones.
		if visible[path.Join("labs", lab, f.name)] {
			changes[f.name] = Change{Have: append([]byte{}, f.content...)}
		}
	}
	for _, f := range want {
		change := changes[f.name]
		if change.Have != nil && bytes.Equal(change.Have, f.content) {
			delete(changes, f.name)
			continue
		}
		change.Want, change.mode = append([]byte{}, f.content...), f.mode
		changes[f.name] = change
	}
	var sorted []Change
	for name, change := range changes {
		change.File = path.Join("labs", lab, name)
		sorted = append(sorted, change)
	}
	slices.SortFunc(sorted, func(a, b Change) int { return strings.Compare(a.File, b.File) })
	return sorted, nil
}

// visible returns the files of a lab that git tracks, or would track after the next `git add`.
func (g Generator) visible(ctx context.Context, runner *command.Runner, lab string) (map[string]bool, error) {
	list, err := runner.Run(ctx, g.Root, nil,
		"git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "labs/"+lab)
	if err != nil {
		return nil, fmt.Errorf("asking git for the files of the lab: %w", err)
	}
	visible := map[string]bool{}
	for name := range strings.SplitSeq(list, "\x00") {
		visible[name] = true
	}
	return visible, nil
}

// Update brings labs/ up to date with a solution and returns the files that changed. It refuses to overwrite a file
// with changes that were neither committed nor made by Update, because they may be a student's work.
func (g Generator) Update(ctx context.Context, lab string) ([]string, error) {
	runner, err := command.NewRunner()
	if err != nil {
		return nil, err
	}
	defer runner.Close()
	changes, err := g.compare(ctx, runner, lab)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	written, err := g.readRecord(lab)
	if err != nil {
		return nil, err
	}
	status, err := runner.Run(ctx, g.Root, nil,
		"git", "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", "labs/"+lab)
	if err != nil {
		return nil, fmt.Errorf("asking git for uncommitted changes: %w", err)
	}
	uncommitted := map[string]bool{}
	for entry := range strings.SplitSeq(status, "\x00") {
		if len(entry) > 3 {
			uncommitted[entry[3:]] = true
		}
	}
	var precious []string
	for _, change := range changes {
		if change.Have != nil && uncommitted[change.File] && written[change.File] != digest(change.Have) {
			precious = append(precious, change.File)
		}
	}
	if len(precious) > 0 {
		number, _, _ := strings.Cut(lab, "-")
		return nil, fmt.Errorf("labs/%s has changes that are not committed and would be lost: "+
			"commit them, or run `make reset-%s`, which keeps a copy:\n  %s",
			lab, strings.TrimLeft(number, "0"), strings.Join(precious, "\n  "))
	}
	var changed []string
	for _, change := range changes {
		if err := g.apply(change); err != nil {
			return changed, err
		}
		changed = append(changed, change.File)
		delete(written, change.File)
		if change.Want != nil {
			written[change.File] = digest(change.Want)
		}
	}
	return changed, g.writeRecord(lab, written)
}

func (g Generator) apply(change Change) error {
	target := filepath.Join(g.Root, filepath.FromSlash(change.File))
	if change.Want == nil {
		return os.Remove(target)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(target, change.Want, change.mode)
}

// record returns the file that records what Update last wrote into a lab. A person did not write those files, committed
// or not.
func (g Generator) record(lab string) string {
	return filepath.Join(g.Root, "out", "skeletons", lab+".sha256")
}

func (g Generator) readRecord(lab string) (map[string]string, error) {
	content, err := os.ReadFile(g.record(lab))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	written := map[string]string{}
	for line := range strings.Lines(string(content)) {
		if sum, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			written[name] = sum
		}
	}
	return written, nil
}

func (g Generator) writeRecord(lab string, written map[string]string) error {
	var lines []string
	for name, sum := range written {
		lines = append(lines, sum+"  "+name)
	}
	slices.Sort(lines)
	if err := os.MkdirAll(filepath.Dir(g.record(lab)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(g.record(lab), joinLines(lines), 0o644)
}

func digest(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

// Reset gives a student a fresh skeleton. It moves the content of the lab's folder to a new folder below out/kept and
// returns that folder's path. The path is empty if the lab was unchanged, so that there was no work to keep.
func (g Generator) Reset(ctx context.Context, lab string) (kept string, err error) {
	runner, err := command.NewRunner()
	if err != nil {
		return "", err
	}
	defer runner.Close()
	// Everything that can fail for the new skeleton comes before a change to the old work. The new one is created below
	// out/, from where it can be moved to labs/ at once.
	out := filepath.Join(g.Root, "out", "kept")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", fmt.Errorf("creating the folder for the work to keep: %w", err)
	}
	const prefix = ".fresh-"
	removal.Abandoned(out, prefix)
	fresh, err := os.MkdirTemp(out, removal.Temporary(prefix))
	if err != nil {
		return "", fmt.Errorf("creating a folder for the new skeleton: %w", err)
	}
	defer os.RemoveAll(fresh)
	if err := g.generate(ctx, runner, lab, fresh, tidyMayFail); err != nil {
		return "", err
	}
	dir := filepath.Join(g.Root, "labs", lab)
	same, err := sameFolder(dir, fresh)
	if err != nil || same {
		return "", err
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		kept, err = keptFolder(out, lab)
		if err != nil {
			return "", err
		}
		if err := moveEntries(dir, kept); err != nil {
			return "", fmt.Errorf("keeping the old work (it is still in %s): %w", dir, err)
		}
	}
	if err := moveEntries(fresh, dir); err != nil {
		return kept, fmt.Errorf("moving the new skeleton into place (the old work is in %s): %w", kept, err)
	}
	return kept, nil
}

// sameFolder reports whether a lab has exactly the files of a fresh skeleton.
func sameFolder(dir, fresh string) (bool, error) {
	have, err := readFolder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return false, err
	}
	want, err := readFolder(fresh)
	if err != nil {
		return false, err
	}
	return slices.EqualFunc(have, want, func(a, b file) bool {
		return a.name == b.name && bytes.Equal(a.content, b.content)
	}), nil
}

// keptFolder creates a folder that did not exist before.
func keptFolder(out, lab string) (string, error) {
	name := filepath.Join(out, lab+"-"+time.Now().Format("20060102-150405"))
	for i := 1; ; i++ {
		candidate := name
		if i > 1 {
			candidate = fmt.Sprintf("%s-%d", name, i)
		}
		err := os.Mkdir(candidate, 0o755)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return candidate, err
		}
	}
}

// moveEntries moves the content of a folder to another one. The folder itself stays, since a shell or an editor may be
// in it. If an entry can't be moved, moveEntries moves the others back.
func moveEntries(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for i, entry := range entries {
		if err := os.Rename(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())); err != nil {
			for _, moved := range entries[:i] {
				err = errors.Join(err, os.Rename(filepath.Join(to, moved.Name()), filepath.Join(from, moved.Name())))
			}
			return err
		}
	}
	return nil
}
