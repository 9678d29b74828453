// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/limited"
)

// others is a possible text of an administrator.
const others = "# The keys of the night shift.\n\n" +
	"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJfPV1Da0pCbGwpyxq5QT4h6ZbWrtQZhxkJLVIbpaZ5C root@rescue \n" +
	"  from=\"192.0.2.0/24\",no-pty ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHpcLs6KEyjS1L0yzR4UsBSfvsFjMJ5Bv8YJJJkHqZ3h " +
	mark + " is no mark here\n" +
	"# " + mark + "nobody\n\t\nwhatever this is"

// scannerLimit is the maximum length of a line for a bufio.Scanner, in bytes. sshd accepts longer ones.
const scannerLimit = 64 << 10

// Many long comments make a file of more than 4 MiB. A controller that reads at most 4 MiB of it loses its end.
const (
	longComments      = 44
	longCommentLength = 100 << 10
)

// drawOthers returns a file with foreign lines: one of each kind, in the order of this run, without a line break at the
// end.
func (v *visit) drawOthers() string {
	v.t.Helper()
	lines := append(strings.Split(others, "\n"),
		"# "+strings.Repeat("x", scannerLimit+v.random.IntN(scannerLimit)),
		strings.Repeat(" ", v.random.IntN(3))+"\t# "+mark+"nobody",
		" # ssh-ed25519 AAAA "+mark+v.drawName("nobody"),
		"#ssh-ed25519 AAAA "+mark+"nobody",
		"# written on Windows\r",
		"# caf\xe9", // in Latin-1, which is not valid in UTF-8
		"\ufeff# with a byte order mark", "# a\x00b", "# of an old\rMac", "\r", "\f",
		v.drawKey()+" AuthorizedKey:nobody", v.drawKey()+" my-"+mark+"nobody",
		v.drawKey()+" authorizedkeys:nobody", v.drawKey()+" "+mark+" nobody",
	)
	for range longComments {
		lines = append(lines, "# "+strings.Repeat("y", longCommentLength))
	}
	v.random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	if last := len(lines) - 1; lines[last] == "" {
		lines[0], lines[last] = lines[last], lines[0]
	}
	return strings.Join(lines, "\n")
}

// ghosts returns lines of the controller for which there is no AuthorizedKey, whatever their origin is: the mark is the
// beginning of their last word.
func (v *visit) ghosts() string {
	v.t.Helper()
	key := v.drawKey()
	return strings.Join([]string{
		lineOf("ghost", key), "command=\"id\" " + lineOf("ghost", key), key + " of " + mark + "somebody " + mark + "ghost",
		strings.ReplaceAll(lineOf("ghost", key), " ", "\t"), "  " + lineOf("ghost", key), lineOf("ghost", key) + " \t",
		lineOf("ghost", key) + "\r", key + " # " + mark + "ghost", mark + "ghost", mark,
	}, "\n")
}

// otherFiles returns foreign files in the folder of the file, by name, such as administrators and editors leave there.
// A controller may have a pattern for its temporary files, which none of these may match.
func (v *visit) otherFiles() map[string]string {
	drawn := fmt.Sprint(100000 + v.random.IntN(900000))
	files := map[string]string{}
	for _, name := range []string{
		fileName + "2", fileName + ".bak", fileName + "~", fileName + "-" + drawn, fileName + "." + drawn,
		"." + fileName + "-2026", "." + fileName + "." + drawn, "." + fileName + ".swp", "backup/" + fileName, "README",
	} {
		files[name] = "# of " + name + "\n"
	}
	return files
}

// with returns a file with one more line, somewhere before its last one.
func (v *visit) with(content, line string) string {
	lines := strings.Split(content, "\n")
	return strings.Join(slices.Insert(lines, v.random.IntN(len(lines)), line), "\n")
}

func foreignLines() types.Feature {
	return features.New("lines of others stay").
		Assess("byte for byte", check.Assess(assess(func(v *visit) {
			v.foreign = v.drawOthers()
			otherFiles := v.otherFiles()
			v.restart(never, func() {
				v.write(v.with(v.foreign, v.ghosts()))
				v.inFolder("writing other files", func(folder *os.Root) error {
					err := folder.Mkdir("backup", 0o700)
					for name, content := range otherFiles {
						err = errors.Join(err, folder.WriteFile(name, []byte(content), 0o600))
					}
					return err
				})
			})
			ada := v.add("ada")
			v.holds("a file of more than 4 MiB with lines of others, the last one without a line break")
			v.changeKey(ada)
			v.holds("the key of " + ada + " has changed")
			for _, other := range []struct{ what, content string }{
				{"a single character", "#"}, {"two blank lines", "\n\n"}, {"a comment between blank lines", "\n\n# mine\n \n\n\n"},
			} {
				v.foreign = other.content
				v.writeAtRest(v.foreign)
				v.changeKey(ada)
				v.holds("another program had replaced the file by one of " +
					other.what + ", and the key of " + ada + " has changed")
			}
			delete(v.keys, ada)
			v.set(ada, "hello")
			v.holds("the last AuthorizedKey is not valid any more, and the file of others ends with blank lines")
			v.otherFilesKept(otherFiles)
		}))).
		Assess("also if it can't be read", check.Assess(assess(func(v *visit) {
			const expected = "while the file can't be read, the controller leaves it as it is, " +
				"since it does not know the lines of others in it"
			v.removeAll()
			v.foreign = others + "\n"
			v.write(v.foreign)
			ada := v.addWritten("ada")
			v.Idle(v.ctx, v.t) // its later writes are based on a newer read
			// Changing its mode is not enough, because root reads any file. A link to itself can't be opened, even by root.
			v.replaceBy("making a link that leads to itself", func(folder *os.Root, name string) error {
				return folder.Symlink(fileName, name)
			})
			v.changeKey(ada)
			// The status would show more exactly when it has seen the change, but another check tests the status.
			v.Settle(v.ctx, v.t)
			if info := v.stat(); info.Mode().Type() != fs.ModeSymlink {
				v.Fail(v.t, expected,
					"it was replaced while it was a link that leads to itself, so that each attempt to read it failed")
			}
			v.write(v.foreign)
			v.changeKey(ada) // another check tests that it retries without an event
			v.holds("for a moment the file could not be read, and the key of " + ada + " has changed since")
		}))).Feature()
}

// otherFilesKept fails the check unless the other files in the folder are unchanged.
func (v *visit) otherFilesKept(files map[string]string) {
	v.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, err := limited.ReadFile(v.node.folder, name, fileLimit)
		expected := "other files in the folder of the file stay as they are, such as " + name
		if errors.Is(err, fs.ErrNotExist) {
			v.Fail(v.t, expected, "it is gone: which files does the controller take for its own temporary files?")
		}
		v.OK(v.t, "reading "+name, err)
		if string(content) != files[name] {
			v.Fail(v.t, expected, fmt.Sprintf("it has the content %q", shorten(string(content))))
		}
	}
}
