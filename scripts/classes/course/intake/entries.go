// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"lva.io/operators/scripts/grading/limited"
)

type entry struct {
	name   string
	folder bool
}

type link struct{ name, target string }

// Limits for names.
const (
	maxPath    = 1000 // bytes
	maxElement = 255  // bytes
	maxFolders = 40
)

// enter checks the name of an entry. It skips entries that are not the student's work.
func (u *unpacker) enter(raw string, size int64) (clean string, skip bool, err error) {
	if err := u.ctx.Err(); err != nil {
		return "", false, err
	}
	if u.entries++; u.entries > u.limits.Entries {
		return "", false, u.tooMany()
	}
	name, err := cleanName(raw)
	if err != nil || name == "." {
		return "", true, err
	}
	elements := strings.Split(name, "/")
	if slices.ContainsFunc(elements, isJunk) {
		return "", true, nil
	}
	// A large file below a folder named bin is a tool of the project's Makefile. A package named bin has no large files.
	const large = 1 << 20
	if size > large && path.Ext(name) != ".go" && slices.Contains(elements[:len(elements)-1], "bin") {
		return "", true, nil
	}
	return name, false, nil
}

func (u *unpacker) tooMany() error {
	return problemf("there are too many files in the archive: at most %d are kept, of at most %d. "+
		"Hand in the folder of the lab, and nothing else", u.limits.Files, u.limits.Entries)
}

// cleanName refuses names that mean different files on different systems, or files elsewhere.
func cleanName(raw string) (string, error) {
	elements := strings.Split(raw, "/")
	switch shown := printable(raw); {
	case !utf8.ValidString(raw):
		return "", problemf("a name in the archive is not UTF-8 (%s): rename the file", shown)
	case strings.ContainsFunc(raw, unicode.IsControl):
		return "", problemf("a name in the archive has a control character (%s): rename the file", shown)
	case strings.Contains(raw, `\`):
		return "", problemf("a name in the archive has a backslash (%s): "+
			"create the archive with a program that separates folders with slashes", shown)
	case strings.HasPrefix(raw, "/"), slices.Contains(elements, ".."):
		return "", problemf("a name in the archive points outside it (%s): hand in an archive of the folder itself", shown)
	case len(raw) > maxPath, len(elements) > maxFolders,
		slices.ContainsFunc(elements, func(e string) bool { return len(e) > maxElement }):
		return "", problemf("a name in the archive is too long (%.80s…): shorten it", shown)
	case raw == "":
		return "", problemf("a name in the archive is empty: create the archive again")
	}
	return path.Clean(raw), nil
}

// note records a file or a folder, and its parent folders. No name may occur twice, even in different case.
func (u *unpacker) note(name string, folder bool) error {
	for i, r := range name {
		if r == '/' {
			if err := u.noteOne(name[:i], true); err != nil {
				return err
			}
		}
	}
	return u.noteOne(name, folder)
}

func (u *unpacker) noteOne(name string, folder bool) error {
	key := norm.NFC.String(strings.ToLower(norm.NFC.String(name)))
	before, exists := u.seen[key]
	switch {
	case exists && before.name != name:
		return problemf("the archive has %s and %s, which are the same on some systems: rename one of them",
			printable(before.name), printable(name))
	case exists && (!before.folder || !folder):
		return problemf("the archive has %s twice: create it again", printable(name))
	case exists:
		return nil
	}
	if u.files++; u.files > u.limits.Files {
		return u.tooMany()
	}
	u.seen[key] = entry{name, folder}
	return nil
}

func (u *unpacker) folder(name string) error {
	if err := u.note(name, true); err != nil {
		return err
	}
	if err := u.root.MkdirAll(filepath.FromSlash(name), 0o755); err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	return nil
}

// write writes a file. It does not trust the sizes that an archive states.
func (u *unpacker) write(name string, content io.Reader, executable bool) (err error) {
	if err := u.note(name, false); err != nil {
		return err
	}
	if folder := path.Dir(name); folder != "." {
		if err := u.root.MkdirAll(filepath.FromSlash(folder), 0o755); err != nil {
			return fmt.Errorf("unpacking %s: %w", name, err)
		}
	}
	mode := fs.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	file, err := u.root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	limit := min(u.left, u.limits.File)
	n, err := io.Copy(file, limited.Reader(&stoppable{u.ctx, content}, limit))
	u.left -= n
	if _, long := errors.AsType[*limited.LongError](err); long {
		if limit < u.limits.File {
			return problemf(
				"more than %d MB are in the archive: hand in the folder of the lab, and nothing else", u.limits.Bytes>>20,
			)
		}
		return problemf("%s in the archive has more than %d MB: leave it out", printable(name), u.limits.File>>20)
	}
	return err
}

// stoppable is a reader that fails when its context ends.
type stoppable struct {
	ctx context.Context // it lives as long as one call
	io.Reader
}

func (s *stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.Reader.Read(p)
}

// readLink reads the target of a link in a zip, which is the content of its file.
func (u *unpacker) readLink(name string, content io.Reader) error {
	const longest = 4096
	target, err := limited.ReadAll(content, longest)
	if _, long := errors.AsType[*limited.LongError](err); long {
		return problemf("%s in the archive is a link to a name that is too long: replace it with the file", printable(name))
	}
	if err != nil {
		return err
	}
	return u.link(name, string(target))
}

func (u *unpacker) link(name, target string) error {
	if err := u.note(name, false); err != nil {
		return err
	}
	inside := path.Join(path.Dir(name), target)
	if path.IsAbs(target) || inside == ".." || strings.HasPrefix(inside, "../") {
		return problemf("%s in the archive is a link that points outside it (%s): replace it with the file",
			printable(name), printable(target))
	}
	if target == "" || !utf8.ValidString(target) || strings.ContainsFunc(target, unicode.IsControl) ||
		strings.Contains(target, `\`) {
		return problemf(
			"%s in the archive is a link to a name that can't be followed: replace it with the file", printable(name),
		)
	}
	u.links = append(u.links, link{name, target})
	return nil
}

// hardLink copies the file of the archive that a hard link of a tar points to.
func (u *unpacker) hardLink(name, target string) error {
	clean, err := cleanName(target)
	if err != nil {
		return problemf("%s in the archive is a link that points outside it (%s): replace it with the file",
			printable(name), printable(target))
	}
	from, err := limited.Open(u.root.Name(), clean, u.limits.File)
	if err != nil {
		return problemf("%s in the archive is a link to %s, which does not come before it: create the archive again",
			printable(name), printable(clean))
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	return u.write(name, from, info.Mode()&0o111 != 0)
}

// makeLinks creates the links. It leaves out dangling links, and refuses a link that points outside the submission
// through other links.
func (u *unpacker) makeLinks() error {
	for _, l := range u.links {
		if folder := path.Dir(l.name); folder != "." {
			if err := u.root.MkdirAll(filepath.FromSlash(folder), 0o755); err != nil {
				return fmt.Errorf("unpacking %s: %w", l.name, err)
			}
		}
		if err := u.root.Symlink(filepath.FromSlash(l.target), filepath.FromSlash(l.name)); err != nil {
			return fmt.Errorf("unpacking %s: %w", l.name, err)
		}
	}
	for _, l := range u.links {
		_, err := u.root.Stat(filepath.FromSlash(l.name))
		if errors.Is(err, fs.ErrNotExist) {
			if err := u.root.Remove(filepath.FromSlash(l.name)); err != nil {
				return fmt.Errorf("leaving out the link %s: %w", l.name, err)
			}
			continue
		}
		if err := checkLink(u.root, l.name, printable(l.name)); err != nil {
			return err
		}
	}
	return nil
}
