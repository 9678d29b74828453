// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/fsnotify/fsnotify"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/faults"
	"lva.io/operators/scripts/limited"
)

func added() types.Feature {
	return features.New("a new key is in the file").
		Assess("one, and many at once", check.Assess(assess(func(v *visit) {
			v.add("ada")
			v.holds("an AuthorizedKey was created")
			for range 10 {
				v.add("grace")
			}
			v.holds("ten AuthorizedKeys were created at once")
		}))).Feature()
}

// others is what an administrator may have written.
const others = "# The keys of the night shift.\n\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJfPV1Da0pCbGwpyxq5QT4h6ZbWrtQZhxkJLVIbpaZ5C root@rescue \n" +
	"  from=\"192.0.2.0/24\",no-pty ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHpcLs6KEyjS1L0yzR4UsBSfvsFjMJ5Bv8YJJJkHqZ3h " + mark + " is no mark here\n" +
	"# " + mark + "nobody\n\t\nwhatever this is"

// scannerLimit is how long a line may be for a bufio.Scanner, in bytes. sshd takes longer ones.
const scannerLimit = 64 << 10

// drawOthers is a file of lines of others: one of each kind, in an order of this run, and no line break at the end.
func (v *visit) drawOthers() string {
	lines := append(strings.Split(others, "\n"),
		"# "+strings.Repeat("x", scannerLimit+v.random.IntN(scannerLimit)),
		strings.Repeat(" ", v.random.IntN(3))+"\t# "+mark+"nobody",
		" # ssh-ed25519 AAAA "+mark+v.drawName("nobody"),
		"# written on Windows\r",
		"# caf\xe9", // in Latin-1, which is not valid in UTF-8
	)
	v.random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	if last := len(lines) - 1; lines[last] == "" {
		lines[0], lines[last] = lines[last], lines[0]
	}
	return strings.Join(lines, "\n")
}

// ghosts are lines of the controller for which there is no AuthorizedKey, however they came to look like this: the mark begins their last word.
func (v *visit) ghosts() string {
	v.t.Helper()
	key := v.drawKey()
	return strings.Join([]string{
		lineOf("ghost", key), "command=\"id\" " + lineOf("ghost", key), key + " of " + mark + "somebody " + mark + "ghost",
		strings.ReplaceAll(lineOf("ghost", key), " ", "\t"), "  " + lineOf("ghost", key), lineOf("ghost", key) + " \t", mark + "ghost", mark,
	}, "\n")
}

// besides are files of others in the folder of the file, by name: what administrators and editors leave there. A controller may have a pattern
// for its temporary files, which none of these may match.
func (v *visit) besides() map[string]string {
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

// with is a file with one more line, somewhere before its last one.
func (v *visit) with(content, line string) string {
	lines := strings.Split(content, "\n")
	return strings.Join(slices.Insert(lines, v.random.IntN(len(lines)), line), "\n")
}

func foreignLines() types.Feature {
	return features.New("lines of others stay").
		Assess("byte for byte", check.Assess(assess(func(v *visit) {
			v.foreign = v.drawOthers()
			besides := v.besides()
			v.restart(never, func() {
				v.write(v.with(v.foreign, v.ghosts()))
				v.OK(v.t, "writing other files", v.node.within(func(folder *os.Root) error {
					err := folder.Mkdir("backup", 0o700)
					for name, content := range besides {
						err = errors.Join(err, folder.WriteFile(name, []byte(content), 0o600))
					}
					return err
				}))
			})
			ada := v.add("ada")
			v.holds("a file with lines of others, the last one without a line break")
			v.keys[ada] = v.drawKey()
			v.set(ada, v.keys[ada])
			v.holds("the key of " + ada + " has changed")
			for _, other := range []struct{ what, content string }{
				{"a single character", "#"}, {"two blank lines", "\n\n"}, {"a comment between blank lines", "\n\n# mine\n \n\n\n"},
			} {
				v.Settle(v.ctx, v.t) // what it writes now, it has read before
				v.foreign = other.content
				v.write(v.foreign)
				v.keys[ada] = v.drawKey()
				v.set(ada, v.keys[ada])
				v.holds("another program had replaced the file by one of " + other.what + ", and the key of " + ada + " has changed")
			}
			delete(v.keys, ada)
			v.set(ada, "hello")
			v.holds("the last AuthorizedKey is not valid any more, and the file of others ends with blank lines")
			v.keep(besides)
		}))).
		Assess("also if it can't be read", check.Assess(assess(func(v *visit) {
			const expected = "while the file can't be read, the controller leaves it as it is, since it does not know the lines of others in it"
			v.removeAll()
			v.foreign = others + "\n"
			v.write(v.foreign)
			ada := v.add("ada")
			v.holds("an AuthorizedKey was created")
			v.Idle(v.ctx, v.t) // what it writes now, it has read before
			// Not its mode: root reads any file. A link that leads to itself nobody can open.
			v.replaceBy("making a link that leads to itself", func(folder *os.Root, name string) error { return folder.Symlink(fileName, name) })
			v.keys[ada] = v.drawKey()
			v.set(ada, v.keys[ada])
			v.Settle(v.ctx, v.t) // the status tells more exactly when it has seen the change, and is for another check
			if info := v.stat(); info.Mode().Type() != fs.ModeSymlink {
				v.Fail(v.t, expected, "it was replaced while it was a link that leads to itself, so that each attempt to read it failed")
			}
			v.write(v.foreign)
			v.keys[ada] = v.drawKey()
			v.set(ada, v.keys[ada]) // that it tries again without an event is for another check to say
			v.holds("for a moment the file could not be read, and the key of " + ada + " has changed since")
		}))).Feature()
}

// keep fails the check unless the other files in the folder are what they were.
func (v *visit) keep(besides map[string]string) {
	v.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(besides)) {
		content, err := limited.ReadFile(v.node.folder, name, fileLimit)
		expected := "other files in the folder of the file stay as they are, such as " + name
		if errors.Is(err, fs.ErrNotExist) {
			v.Fail(v.t, expected, "it is gone: which files does the controller take for its own temporary files?")
		}
		v.OK(v.t, "reading "+name, err)
		if string(content) != besides[name] {
			v.Fail(v.t, expected, fmt.Sprintf("it has the content %q", shorten(string(content))))
		}
	}
}

func changed() types.Feature {
	return features.New("a key that changes").
		Assess("replaces the old one", check.Assess(assess(func(v *visit) {
			ada := v.add("ada")
			v.add("grace")
			v.holds("two AuthorizedKeys were created")
			v.keys[ada] = v.drawKey()
			v.set(ada, v.keys[ada])
			v.holds("the key of " + ada + " has changed")
		}))).
		Assess("also while other events come without a pause", check.Assess(assess(func(v *visit) {
			v.removeAll()
			ada, grace, busy := v.add("ada"), v.add("grace"), v.add("busy")
			v.holds("three AuthorizedKeys were created")
			defer v.keepLabelling(busy, grace)()
			const meanwhile = "while labels of AuthorizedKeys change all the time, "
			v.keys[grace] = v.drawKey()
			v.set(grace, v.keys[grace])
			v.holds(meanwhile + "the key of " + grace + " has changed")
			v.add("edsger")
			v.holds(meanwhile + "a fourth AuthorizedKey was created")
			v.remove(ada)
			v.holds(meanwhile + ada + " was deleted")
		}))).Feature()
}

// labelEach is the time between two changes of labels. A controller may wait for a moment without an event, as long as it does not wait for ever.
const labelEach = 100 * time.Millisecond

// keepLabelling changes the labels of AuthorizedKeys all the time, until stop is called.
func (v *visit) keepLabelling(names ...string) (stop func()) {
	ctx, cancel := context.WithCancel(v.ctx)
	var labelling sync.WaitGroup
	labelling.Go(func() {
		ticks := time.NewTicker(labelEach)
		defer ticks.Stop()
		for n := 0; ; n++ {
			for _, name := range names {
				patch := fmt.Appendf(nil, `{"metadata":{"labels":{"shift":"%d"}}}`, n)
				// One that fails is an event less.
				_, _ = v.node.keys.Patch(ctx, name, apitypes.MergePatchType, patch, metav1.PatchOptions{})
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); labelling.Wait() }
}

func deleted() types.Feature {
	return features.New("a key that is deleted").
		Assess("leaves the file", check.Assess(assess(func(v *visit) {
			ada, grace := v.add("ada"), v.add("grace")
			v.holds("two AuthorizedKeys were created")
			// With what the controller still has to do it would notice the deletion, too.
			v.Idle(v.ctx, v.t)
			v.remove(ada)
			v.holds(ada + " was deleted")
			v.remove(grace)
			v.holds("the last AuthorizedKey was deleted")
		}))).Feature()
}

// tombstone: the operator's watch is broken off, and before it lists again an object goes. It finds that it is not there any more, and nobody
// tells it how that came.
func tombstone() types.Feature {
	return features.New("a key that is deleted while the watch is away").
		Assess("leaves the file", check.Assess(assess(func(v *visit) {
			for range attempts {
				lost := v.add("lost")
				v.holds("an AuthorizedKey was created")
				v.Idle(v.ctx, v.t)
				v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
					{Kind: faults.Break, Class: faults.Write, Service: faults.API, At: 1},
				}}))
				// With the write of its status the watches break. It goes as well, so that no other event makes the operator look at the file.
				began, mark := time.Now(), v.Audit.Now()
				last := v.add("last")
				v.EventuallyWithin(v.ctx, v.t, "the operator writes the status of "+last, scenarioPatience, v.Audit.Changed, func() (string, bool) {
					return "it does not", v.broken(began)
				})
				v.remove(last)
				v.remove(lost)
				deletedAt := v.deletedAt(lost)
				v.holdsWithin(last+" and "+lost+" were deleted while the watch was away", scenarioPatience)
				v.OK(v.t, "disarming the faults", v.Faults.Disarm(v.ctx))
				listed := v.Audit.Since(mark, v.lists())
				if len(listed) > 0 && listed[0].Time.After(deletedAt) {
					return
				}
			}
		}))).Feature()
}

// broken reports whether the operator's watch was broken off.
func (v *visit) broken(since time.Time) bool {
	v.t.Helper()
	log, err := v.Faults.Log(v.ctx)
	v.OK(v.t, "reading the log of requests", err)
	met := false
	var watch *faults.Entry
	for i, e := range log {
		met = met || e.Fault == faults.Break && e.Time.After(since)
		if e.Verb == "watch" && e.Resource == keysResource.Resource && e.Code == http.StatusOK {
			watch = &log[i]
		}
	}
	return met && watch != nil && watch.Seconds > 0
}

func mode() types.Feature {
	return features.New("sshd reads the file, and only its owner writes it").
		Assess("whoever made it", check.Assess(assess(func(v *visit) {
			v.add("ada")
			v.holds("an AuthorizedKey was created")
			v.hasMode("the controller made the file", filePatience)
			v.OK(v.t, "changing the mode", v.node.within(func(folder *os.Root) error { return folder.Chmod(fileName, 0o600) }))
			grace := v.add("grace")
			v.holds("an AuthorizedKey was created")
			v.hasMode("somebody made the file with mode 0600, and the controller has written it since", filePatience)
			for n, i := range v.random.Perm(len(modeBits)) {
				wrong := fileMode ^ modeBits[i]
				v.OK(v.t, "changing the mode", v.node.within(func(folder *os.Root) error { return folder.Chmod(fileName, wrong) }))
				if v.stat().Mode() != wrong {
					continue // this user, or this file system, has no such mode
				}
				// A reason to look at the file, in which nothing but its mode is wrong.
				v.set(grace, fmt.Sprintf("%s grace@laptop-%d", v.keys[grace], n))
				v.hasMode(fmt.Sprintf("the mode of the file was changed to %s, and the comment of a key has changed since", wrong), filePatience)
			}
			v.holds("only the comment of a key has changed, and the mode of the file")
		}))).Feature()
}

// modeBits are those by which a mode may differ from the right one: each alone makes it wrong. The owner can always read
// the file.
var modeBits = []fs.FileMode{
	0o200, 0o100, 0o040, 0o020, 0o010, 0o004, 0o002, 0o001, fs.ModeSetuid, fs.ModeSetgid, fs.ModeSticky,
}

// fileMode is what sshd wants: it opens the file as the user who logs in, and refuses one that others than its owner
// may write.
const fileMode fs.FileMode = 0o644

// hasMode waits until the file has its mode. A controller may set it after the file has its name: only the lines have
// come by then.
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

// atomic looks at a change from three sides: through a descriptor of the file as it was, by what happens to its name, and at what is left over.
func atomic() types.Feature {
	const expected = "the file is replaced by a rename: whoever reads it sees it as it was, or as it is to be"
	return features.New("the file is replaced at once").
		Assess("by another one", check.Assess(assess(func(v *visit) {
			v.add("ada")
			v.holds("an AuthorizedKey was created")
			before := v.content()
			reader, err := limited.Open(v.node.folder, fileName, fileLimit)
			v.OK(v.t, "opening the file", v.node.explained(err))
			defer reader.Close()
			_, mark := v.node.since(0)
			v.add("grace")
			v.holds("an AuthorizedKey was created")
			still, err := io.ReadAll(reader)
			v.OK(v.t, "reading the file", v.node.explained(err))
			if string(still) != before {
				v.Fail(v.t, expected, "who had opened the file before it was changed reads something else now: it was written in place")
			}
			old, err := reader.Stat()
			v.OK(v.t, "looking at the file", err)
			if os.SameFile(old, v.stat()) {
				v.Fail(v.t, expected, "it is the same file as before (the same inode)")
			}
			deeds, _ := v.node.since(mark)
			for _, deed := range deeds {
				switch {
				case deed.Has(fsnotify.Write):
					v.Fail(v.t, expected, "after it had its name, it was written to")
				case deed.Has(fsnotify.Remove):
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
			// A large file takes a while to write. Meanwhile the folder is in the way, nearly always.
			large := strings.Repeat("# "+strings.Repeat("x", 1<<10)+"\n", fileLimit>>11)
			ada := v.add("ada")
			v.holds("an AuthorizedKey was created")
			for range attempts {
				// Until it is idle, it may still write what it has read before.
				v.Idle(v.ctx, v.t)
				v.foreign = large
				v.write(v.foreign)
				v.keys[ada] = v.drawKey()
				blocked := v.node.block()
				v.set(ada, v.keys[ada])
				var draft string
				select {
				case draft = <-blocked:
				case <-time.After(filePatience):
					v.node.unblock()
					v.holds("the key of " + ada + " has changed")
					return // it writes its temporary file in another folder
				}
				v.EventuallyWithin(v.ctx, v.t, alone, filePatience, v.node.Changed, func() (string, bool) {
					return "there is " + filepath.Base(draft), v.node.end(draft) != 0
				})
				failed := v.node.end(draft).Has(fsnotify.Remove)
				v.OK(v.t, "removing the folder", v.node.within(func(folder *os.Root) error { return folder.RemoveAll(fileName) }))
				v.Idle(v.ctx, v.t)
				v.foreign = ""
				v.write(v.foreign)
				v.keys[ada] = v.drawKey()
				v.set(ada, v.keys[ada])
				v.holdsWithin("the file is empty, and the key of "+ada+" has changed", scenarioPatience)
				if failed {
					v.removesOwn(ada, filepath.Base(draft))
					return
				}
			}
		}))).Feature()
}

// removesOwn fails the check unless the controller removes a temporary file that it left, since it was killed: at its next start, or with its
// next change of the file.
func (v *visit) removesOwn(ada, draft string) {
	v.t.Helper()
	v.restart(never, func() {
		v.OK(v.t, "writing a temporary file", v.node.within(func(folder *os.Root) error {
			return folder.WriteFile(draft, []byte("ssh-ed25519 AAAA"), 0o600)
		}))
	})
	v.keys[ada] = v.drawKey()
	v.set(ada, v.keys[ada])
	v.holds("the key of " + ada + " has changed")
	v.EventuallyWithin(v.ctx, v.t, "a temporary file of a controller that was killed is removed after the next start", filePatience, v.node.Changed, func() (string, bool) {
		left := v.left()
		return "there is " + english.WordSeries(left, "and"), len(left) == 0
	})
}

// alone is what is right when the file can't be replaced.
const alone = "nothing but the file is left in its folder, also if it can't be replaced, since there is a folder of that name"

// attempts is how often something is tried that has to happen at the right moment: on a very busy machine we may come too late.
const attempts = 5

// left are the names of what is in the folder besides the file.
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

func sameKey() types.Feature {
	return features.New("several objects with the same key").
		Assess("go one by one", check.Assess(assess(func(v *visit) {
			v.restart(never, func() {})
			ada, key := v.drawName("ada"), v.drawKey()
			grace := v.drawName("grace")
			v.create(ada, key)
			v.create(grace, key+" the same one")
			v.keys[ada], v.keys[grace] = key, key
			v.holds("two AuthorizedKeys have the same key")
			v.remove(ada)
			v.holds(ada + " was deleted, and " + grace + " has the same key")
		}))).
		Assess("and leave that of others", check.Assess(assess(func(v *visit) {
			v.removeAll()
			ada, key := v.drawName("ada"), v.drawKey()
			v.foreign = key + " written by hand\n"
			v.restart(never, func() { v.write(v.foreign) })
			v.create(ada, key)
			v.keys[ada] = key
			v.holds("an AuthorizedKey has a key that somebody had written into the file")
			v.remove(ada)
			v.holds(ada + " was deleted, and somebody had written the same key into the file")
		}))).Feature()
}

// scenario is a busy minute, in short.
func scenario(v *visit) {
	ada, grace := v.add("ada"), v.add("grace")
	v.holdsWithin("two AuthorizedKeys were created", scenarioPatience)
	v.add("edsger")
	v.remove(ada)
	v.keys[grace] = v.drawKey()
	v.set(grace, v.keys[grace])
	v.holdsWithin(fmt.Sprintf("%s was deleted, %s has another key, and there is a third one", ada, grace), scenarioPatience)
	wrong := v.drawName("mallory")
	v.create(wrong, `command="/bin/sh" `+v.drawKey())
	v.accepted(wrong, metav1.ConditionFalse, scenarioPatience)
	v.accepted(grace, metav1.ConditionTrue, scenarioPatience)
	v.holdsWithin("at the end", scenarioPatience)
	if strings.Contains(v.content(), "command=") {
		v.Fail(v.t, "no option of a key gets into the file", "it has one")
	}
}
