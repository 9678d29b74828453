// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// mode lets all users read the file, and only its owner write it. sshd opens it as the user who logs in, and the file
// is root's, so with 0600 only root could log in. sshd refuses a file that other users can write (StrictModes). The
// file has no secrets: public keys are public.
const mode fs.FileMode = 0o644

// mark begins the last word of each of our lines, before the object's name. By it a controller that has just started,
// and remembers nothing, finds the lines of deleted objects. All other lines belong to other programs or people.
const mark = "authorizedkey:"

// temporaryFiles is the pattern of their names. It ends with a name of ours, so that it never matches a file that an
// administrator keeps in the folder, such as .authorized_keys-2026.
const temporaryFiles = ".authorized_keys-*.authorizedkey-controller"

// File is an authorized_keys file.
type File struct {
	Path string
}

// Sync makes the lines of ours those of keys (name of the object → type and key in base64), and leaves all others as
// they are. It writes only if something has to change, and reports whether it did.
func (f File) Sync(keys map[string]string) (changed bool, err error) {
	// TODO(lab): 2. Read the file (none is as good as an empty one), and merge. If nothing changes, and the file
	// isStrict, write nothing.
	return false, nil
}

// merge replaces our lines in the content of a file. All other lines stay as they are, byte for byte, and first.
func merge(content []byte, keys map[string]string) []byte {
	// TODO(lab): 3. Lines that are not ours stay, byte for byte and in their order. Ours are "TYPE BASE64
	// authorizedkey:NAME", one for each object. The same keys must come out as the same bytes each time.
	return content
}

// ours recognizes one of our lines by its last word. A comment has none. Words end at spaces and tabs, as for sshd: to
// it a no-break space is a letter.
func ours(line []byte) bool {
	words := strings.FieldsFunc(string(line), func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) })
	return len(words) > 0 && !strings.HasPrefix(words[0], "#") && strings.HasPrefix(words[len(words)-1], mark)
}

// isStrict reports whether sshd reads the file. Its owner must be root, or the user who logs in. It is the user that
// the controller runs as: on a node that is root.
func (f File) isStrict() bool {
	info, err := os.Lstat(f.Path)
	if err != nil || info.Mode() != mode {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid()
}

// RemoveLeftovers removes the temporary files of a controller that was killed between creating one and renaming it.
// Call it before Sync, whose temporary file it would remove, too.
func (f File) RemoveLeftovers() error {
	folder := filepath.Dir(f.Path)
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for temporary files of an earlier start: %w", err)
	}
	for _, entry := range entries {
		if ours, err := filepath.Match(temporaryFiles, entry.Name()); err != nil || !ours || !entry.Type().IsRegular() {
			continue
		}
		if err := os.Remove(filepath.Join(folder, entry.Name())); err != nil {
			return fmt.Errorf("remove a temporary file of an earlier start: %w", err)
		}
	}
	return nil
}

// replace lets sshd see the file as it was or as it is to be, and nothing in between, also when the power fails.
func (f File) replace(content []byte) (err error) {
	// TODO(lab): 4. Write a temporary file in the same folder, with its mode, and rename it.
	return nil
}
