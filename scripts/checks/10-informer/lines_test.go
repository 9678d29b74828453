// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"lva.io/operators/scripts/grading/limited"
)

// fileLimit is the maximum size of the file, in bytes. It is nearly twice the size of the largest one that a check
// writes.
const fileLimit = 8 << 20

// read reads the file in the state in which the operator has left it. A device would have no end, and a pipe no
// beginning. It follows links only inside of the folder: the task requires a file there that is replaced by a rename,
// so a correct operator creates no link at all.
func (n *node) read() ([]byte, error) {
	content, err := limited.ReadFile(n.folder, fileName, fileLimit)
	return content, n.explained(err)
}

// explained describes what exists in place of the file, if the file can't be read for that reason.
func (n *node) explained(err error) error {
	wrong, is := errors.AsType[*limited.FileError](err)
	if !is {
		return err
	}
	what := wrong.What
	switch target, linkErr := os.Readlink(n.path()); {
	case linkErr == nil:
		what = "a link to " + shorten(target)
	case wrong.TooLarge:
		what = "larger"
	}
	return fmt.Errorf("%s is %s: it must be a regular file of at most %d MB", fileName, what, fileLimit>>20)
}

// lines holds a file as the task describes it.
type lines struct {
	ours    []string
	foreign string
}

func parse(content []byte) (found lines) {
	var foreign strings.Builder // of some megabytes
	for line := range strings.Lines(string(content)) {
		if isOurs(line) {
			found.ours = append(found.ours, strings.TrimSuffix(line, "\n"))
		} else {
			foreign.WriteString(line)
		}
	}
	found.foreign = foreign.String()
	return found
}

// isOurs recognizes a line of the controller by its last word. A comment is never one.
func isOurs(line string) bool {
	if strings.HasPrefix(strings.TrimSpace(line), "#") {
		return false
	}
	words := strings.Fields(line)
	return len(words) > 0 && strings.HasPrefix(words[len(words)-1], mark)
}

// wrong returns how the file differs from the expected one. Empty: it does not. If the last foreign line had no line
// break, it may have got one.
func (n *node) wrong(keys map[string]string, foreign string) string {
	content, err := n.read()
	if err != nil && (!errors.Is(err, fs.ErrNotExist) || len(keys) > 0 || foreign != "") {
		if errors.Is(err, fs.ErrNotExist) {
			return "there is no such file"
		}
		return err.Error()
	}
	found := parse(content)
	var missing []string
	spare := slices.Clone(found.ours)
	for name, key := range keys {
		if i := slices.Index(spare, lineOf(name, key)); i >= 0 {
			spare = slices.Delete(spare, i, i+1)
		} else {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	var all []string
	if len(missing) > 0 {
		all = append(all, "it lacks the line of "+english.WordSeries(missing, "and"))
	}
	for i, line := range spare {
		if i == shownLines {
			all = append(all, fmt.Sprintf("it has %s more", english.Plural(len(spare)-i, "line", "")))
			break
		}
		all = append(all, fmt.Sprintf("it has the line %q", shorten(line)))
	}
	if foreign != "" && !strings.HasSuffix(foreign, "\n") {
		found.foreign = strings.TrimSuffix(found.foreign, "\n")
	}
	if differ := differ(found.foreign, foreign); differ != "" {
		all = append(all, "the lines of others are not what they were: "+differ)
	}
	return strings.Join(all, "; ")
}

// shownLines is the maximum number of wrong lines that are shown, because an operator may write thousands.
const shownLines = 5

// differ describes the first line that differs. Empty: none does.
func differ(found, wanted string) string {
	if found == wanted {
		return ""
	}
	have, want := strings.Split(found, "\n"), strings.Split(wanted, "\n")
	if found == "" {
		return fmt.Sprintf("none of %d is left", len(want))
	}
	for i, line := range want {
		switch {
		case i == len(have):
			return fmt.Sprintf("%d of %d are left, and line %d is missing, %q", len(have), len(want), i+1, shorten(line))
		case have[i] != line:
			return fmt.Sprintf("line %d is %q instead of %q", i+1, shorten(have[i]), shorten(line))
		}
	}
	return fmt.Sprintf("there is one more, %q", shorten(have[len(want)]))
}

func shorten(text string) string {
	const most = 150
	if len(text) > most {
		return fmt.Sprintf("%s… (%d bytes)", text[:most], len(text))
	}
	return text
}

// lineOf returns the line of an AuthorizedKey, without its line break.
func lineOf(name, key string) string { return key + " " + mark + name }
