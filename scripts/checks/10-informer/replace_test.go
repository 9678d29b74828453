// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/fsnotify/fsnotify"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/limited"
)

func mode() types.Feature {
	return features.New("sshd reads the file, and only its owner writes it").
		Assess("whichever program wrote it", check.Assess(assess(func(v *visit) {
			v.addWritten("ada")
			v.hasMode("the controller made the file", filePatience)
			v.inFolder("changing the mode", func(folder *os.Root) error { return folder.Chmod(fileName, 0o600) })
			grace := v.addWritten("grace")
			v.hasMode("another program gave the file the mode 0600, and the controller has written it since", filePatience)
			for n, i := range v.random.Perm(len(modeBits)) {
				wrong := fileMode ^ modeBits[i]
				v.inFolder("changing the mode", func(folder *os.Root) error { return folder.Chmod(fileName, wrong) })
				if v.stat().Mode() != wrong {
					continue // this user can't set the mode, or this file system does not support it
				}
				// This change makes the operator check the file, in which only the mode is wrong.
				v.set(grace, fmt.Sprintf("%s grace@laptop-%d", v.keys[grace], n))
				v.hasMode(fmt.Sprintf("the mode of the file was changed to %s, "+
					"and the comment of a key has changed since", wrong), filePatience)
			}
			v.holds("only the comment of a key has changed, and the mode of the file")
			widen, restricted := v.node.restrictNewFiles()
			if !restricted {
				return // this system, or this file system, has no ACLs
			}
			defer func() { v.OK(v.t, "removing the default ACL of the folder", widen()) }()
			v.changeKey(grace)
			const umask = "a default ACL of the folder gives new files no rights for group and others, " +
				"as a umask of 077 does, and the key of "
			v.holds(umask + grace + " has changed")
			v.hasMode(umask+grace+" has changed", filePatience)
		}))).Feature()
}

// modeBits are bits by which a mode may differ from the correct one. Each bit alone makes it wrong. The owner can
// always read the file.
var modeBits = []fs.FileMode{
	0o200, 0o100, 0o040, 0o020, 0o010, 0o004, 0o002, 0o001, fs.ModeSetuid, fs.ModeSetgid, fs.ModeSticky,
}

// fileMode is the mode that sshd requires: it opens the file as the user who logs in, and rejects one that other users
// than its owner may write.
const fileMode fs.FileMode = 0o644

// hasMode waits until the file has its mode. A controller may set the mode after the rename. At that time only the
// lines are certain.
func (v *visit) hasMode(why string, patience time.Duration) {
	v.t.Helper()
	v.EventuallyWithin(v.ctx, v.t, why+": its mode is 0644 (-rw-r--r--)", patience, v.node.Changed, func() (string, bool) {
		info, err := os.Lstat(v.node.path())
		if err != nil {
			return err.Error(), false
		}
		return "it is " + info.Mode().String(), info.Mode() == fileMode
	})
}

// atomic checks a change in three forms: through a descriptor of the old file, by the events of its name, and by the
// remaining files.
func atomic() types.Feature {
	const expected = "the file is replaced by a rename, so a reader sees all of the old file or all of the new one"
	return features.New("the file is replaced at once").
		Assess("by another one", check.Assess(assess(func(v *visit) {
			v.addWritten("ada")
			before := v.content()
			reader, err := limited.Open(v.node.folder, fileName, fileLimit)
			v.OK(v.t, "opening the file", v.node.explained(err))
			defer reader.Close()
			_, mark := v.node.since(0)
			v.addWritten("grace")
			still, err := io.ReadAll(reader)
			v.OK(v.t, "reading the file", v.node.explained(err))
			if string(still) != before {
				v.Fail(v.t, expected,
					"who had opened the file before it was changed reads something else now: it was written in place")
			}
			old, err := reader.Stat()
			v.OK(v.t, "looking at the file", err)
			if os.SameFile(old, v.stat()) {
				v.Fail(v.t, expected, "it is the same file as before (the same inode)")
			}
			events, _ := v.node.since(mark)
			for _, event := range events {
				switch {
				case event.Has(fsnotify.Write):
					v.Fail(v.t, expected, "after it had its name, it was written to")
				case event.Has(fsnotify.Remove):
					v.Fail(v.t, expected, "for a moment there was no file")
				}
			}
			v.Idle(v.ctx, v.t)
			if left := v.left(); len(left) > 0 {
				v.Fail(v.t, "nothing but the file is left in its folder", "there is "+left[0])
			}
		}))).
		Assess("and nothing is left of an attempt that fails", check.Assess(assess(func(v *visit) {
			v.removeAll()
			began := v.node.draftsSoFar()
			// Writing a large file takes a while. In that time we can nearly always put the folder in its place.
			large := strings.Repeat("# "+strings.Repeat("x", 1<<10)+"\n", largeLines)
			ada := v.addWritten("ada")
			for range attempts {
				// Until it is idle, it may still write what it has read before.
				v.Idle(v.ctx, v.t)
				v.foreign = large
				v.write(v.foreign)
				mark := v.node.draftsSoFar()
				blocked, since := v.node.block(), time.Now()
				v.label(ada) // this is only one event: a new key would have a new status, which is another event
				var draft string
				select {
				case draft = <-blocked:
				case <-time.After(filePatience):
					v.node.unblock()
					v.changeKey(ada)
					v.holds("the key of " + ada + " has changed")
					return // it writes its temporary file in another folder
				}
				v.EventuallyWithin(v.ctx, v.t, alone, filePatience, v.node.Changed, func() (string, bool) {
					return "there is " + filepath.Base(draft), v.node.end(draft, mark) != 0
				})
				failed := v.node.end(draft, mark).Has(fsnotify.Remove)
				v.removeFile()
				if failed {
					v.triesAgain(ada, "the file could not be replaced, since there was a folder of that name", since)
					v.leavesNothingHalfWritten(ada, large)
					v.removesOwn(ada, v.node.draftNames(began))
					return
				}
				v.Idle(v.ctx, v.t)
				v.foreign = ""
				v.write(v.foreign)
				v.changeKey(ada)
				v.holdsWithin("the file is empty, and the key of "+ada+" has changed", scenarioPatience)
			}
		}))).Feature()
}

// triesAgain waits until the controller writes the line of an AuthorizedKey without another event. The controller has
// failed to write it since a certain time. Delays double, so the next attempt may be as far away as that time. The
// check retries reports a controller that does not retry.
func (v *visit) triesAgain(name, failure string, since time.Time) {
	v.t.Helper()
	began := time.Now()
	patience := max(scenarioPatience, 2*began.Sub(since))
	for last := false; v.node.givenUp == "" && !last; v.Pause(v.ctx, v.t, refuseLook) {
		last = time.Since(began) > patience
		content, err := v.node.read()
		if err == nil && slices.Equal(parse(content).ours, []string{lineOf(name, v.keys[name])}) {
			return
		}
	}
	v.node.givenUp = cmp.Or(v.node.givenUp, failure)
	v.label(name)
	v.Idle(v.ctx, v.t)
}

// label changes the label of an AuthorizedKey.
func (v *visit) label(name string) {
	v.t.Helper()
	v.patch(name, fmt.Sprintf(`{"metadata":{"labels":{"shift":%q}}}`, v.drawName("shift")))
}

// fullAt is the maximum size of a file while the disk seems full, in bytes, and largeLines is the number of lines of 1
// KiB in a large file.
const (
	fullAt     = 64 << 10
	largeLines = 512
)

// leavesNothingHalfWritten fails the check unless the file is unchanged while the controller can write only a part of
// it, as on a full disk, and no other file is left in its folder. It does nothing if we can't limit the size of a file.
func (v *visit) leavesNothingHalfWritten(name, large string) {
	v.t.Helper()
	const full = "while the controller can write only 64 KiB of a larger file, as on a full disk, "
	v.foreign = large
	v.writeAtRest(v.foreign)
	lift, possible := v.node.limitFiles(fullAt)
	if !possible {
		return
	}
	lifted := false
	unlimit := func() {
		if !lifted {
			lifted = true
			v.OK(v.t, "lifting the limit of the operator's files", lift())
		}
	}
	defer unlimit()
	began, since := v.node.draftsSoFar(), time.Now()
	v.label(name)
	v.EventuallyWithin(v.ctx, v.t, full+"nothing but the file is left in its folder", filePatience, v.node.Changed,
		func() (string, bool) {
			if len(v.node.draftNames(began)) == 0 {
				return "a label of " + name + " has changed, and the controller has not tried to write its missing line", false
			}
			left := v.left()
			return "there is " + english.WordSeries(left[:min(len(left), shownLines)], "and"), len(left) == 0
		})
	// Another check reports foreign lines that are lost for other reasons.
	if found := parse([]byte(v.content())); found.foreign != large && (found.foreign != "" || len(found.ours) == 0) {
		v.Fail(v.t, full+"the file stays as it is",
			fmt.Sprintf("it was cut: it has %s of the controller, and %d of the %d bytes of others",
				english.Plural(len(found.ours), "line", ""), len(found.foreign), len(large)))
	}
	unlimit()
	v.triesAgain(name, "the file could not be written, as on a full disk", since)
}

// removesOwn fails the check unless the controller removes the temporary files that it left when it was killed, at its
// next start or at its next change of the file.
func (v *visit) removesOwn(ada string, drafts []string) {
	v.t.Helper()
	v.foreign = ""
	v.restart(never, func() {
		v.write(v.foreign)
		v.inFolder("writing temporary files", func(folder *os.Root) (err error) {
			for _, draft := range drafts[max(0, len(drafts)-mostDrafts):] {
				err = errors.Join(err, folder.WriteFile(draft, []byte("ssh-ed25519 AAAA"), 0o600))
			}
			return err
		})
	})
	v.changeKey(ada)
	v.holds("the key of " + ada + " has changed")
	v.EventuallyWithin(v.ctx, v.t, "temporary files of a controller that was killed are removed after the next start",
		filePatience, v.node.Changed, func() (string, bool) {
			left := v.left()
			return "there is " + english.WordSeries(left, "and"), len(left) == 0
		})
}

// mostDrafts is the maximum number of temporary files that a killed controller has left.
const mostDrafts = 3

// alone is the expectation for a file that can't be replaced.
const alone = "nothing but the file is left in its folder, also if it can't be replaced, " +
	"since there is a folder of that name"

// attempts is how often a step is tried that has to happen at the right moment. On a very busy machine the check may be
// too late.
const attempts = 5

// left returns the names of everything in the folder besides the file.
func (v *visit) left() (names []string) {
	v.t.Helper()
	entries, err := os.ReadDir(v.node.folder)
	v.OK(v.t, "reading the folder", err)
	for _, entry := range entries {
		if entry.Name() != fileName {
			names = append(names, entry.Name())
		}
	}
	return names
}
