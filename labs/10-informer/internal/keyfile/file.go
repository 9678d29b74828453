// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keyfile

import (
	"io/fs"
	"os"
	"strings"
)

// mode is for the owner alone. sshd refuses a file that others may write (StrictModes).
const mode fs.FileMode = 0o600

// mark begins the last word of each line of ours; the object's name follows. By it a controller that was just started, and remembers
// nothing, finds the lines of objects that have gone. All other lines are somebody else's.
const mark = "authorizedkey:"

// File is an authorized_keys file.
type File struct {
	Path string
}

// Sync makes the lines of ours those of keys (name of the object → type and key in base64), and leaves all others as they are. It writes
// only if something has to change, and reports whether it did.
func (f File) Sync(keys map[string]string) (changed bool, err error) {
	// TODO(lab): 2. Read the file (none is as good as an empty one), and merge. If nothing changes, and the file has its mode, write nothing.
	return false, nil
}

// merge replaces the lines of ours in the content of a file. What others wrote stays as it is, byte for byte, and first.
func merge(content []byte, keys map[string]string) []byte {
	// TODO(lab): 3. Lines that are not ours stay, byte for byte and in their order. Ours are "TYPE BASE64 authorizedkey:NAME", one for each
	// object. The same keys must come out as the same bytes each time.
	return content
}

// ours tells a line of ours by its last word. A comment has none.
func ours(line []byte) bool {
	words := strings.Fields(string(line))
	return len(words) > 0 && !strings.HasPrefix(words[0], "#") && strings.HasPrefix(words[len(words)-1], mark)
}

func (f File) hasMode() bool {
	info, err := os.Lstat(f.Path)
	return err == nil && info.Mode() == mode
}

// replace lets sshd see the file as it was or as it is to be, and nothing in between, also when the power fails.
func (f File) replace(content []byte) (err error) {
	// TODO(lab): 4. Write a temporary file in the same folder, with its mode, and rename it.
	return nil
}
