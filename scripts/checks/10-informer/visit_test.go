// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/crypto/ssh"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

// visit is a check at the node. Its methods are the vocabulary of this lab's checks.
type visit struct {
	*check.Check
	ctx  context.Context
	t    *testing.T
	node *node
	// keys are the existing keys, by name: type and base64. foreign is what others have written into the file.
	keys    map[string]string
	foreign string
	// random draws values that differ between runs.
	random *rand.Rand
}

// assess makes a step of a feature.
func assess(step func(*visit)) func(context.Context, *testing.T, *check.Check) {
	return func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		v := &visit{Check: c, ctx: ctx, t: t, node: nodeOf(ctx), keys: map[string]string{}}
		v.random = rand.New(rand.NewPCG(uint64(v.Seed), 10)) //nolint:gosec // a seed must draw the same each time
		if v.node.unusable != nil {
			v.Fail(t, "the program has the flags --authorized-keys=FILE and --resync=DURATION", v.node.unusable.Error())
		}
		v.OK(t, "withdrawing the policy", v.node.awaitWithdrawn(ctx))
		step(v)
	}
}

// drawName draws a name that was not used before.
func (v *visit) drawName(person string) string {
	v.node.names++
	return fmt.Sprintf("%s-%d", person, v.node.names)
}

// drawKey returns a new key.
func (v *visit) drawKey() string {
	v.t.Helper()
	v.node.names++
	return v.drawKeyOf([]string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256}[v.node.names%2])
}

// drawKeyOf returns a new key of a type.
func (v *visit) drawKeyOf(algorithm string) string {
	v.t.Helper()
	key, err := newKey(algorithm)
	v.OK(v.t, "making a key", err)
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func object(name, text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"key": text}}}
	o.SetGroupVersionKind(keysKind)
	o.SetName(name)
	return o
}

// create creates an AuthorizedKey with a text that need not be a key.
func (v *visit) create(name, text string) {
	v.t.Helper()
	v.node.created = append(v.node.created, name)
	v.node.lag.Sent(name)
	_, err := v.node.keys.Create(v.ctx, object(name, text), metav1.CreateOptions{})
	v.OK(v.t, "creating an AuthorizedKey", err)
}

// add creates a valid AuthorizedKey, and returns its name.
func (v *visit) add(person string) string {
	v.t.Helper()
	name, key := v.drawName(person), v.drawKey()
	v.create(name, key+" "+person+"@laptop\n")
	v.keys[name] = key
	return name
}

// addWritten is add, and waits until the line of the AuthorizedKey is in the file.
func (v *visit) addWritten(person string) string {
	v.t.Helper()
	name := v.add(person)
	v.holds("an AuthorizedKey was created")
	return name
}

// changeKey gives an AuthorizedKey another key.
func (v *visit) changeKey(name string) {
	v.t.Helper()
	v.keys[name] = v.drawKey()
	v.set(name, v.keys[name])
}

// set changes the text of an AuthorizedKey.
func (v *visit) set(name, text string) {
	v.t.Helper()
	v.patch(name, fmt.Sprintf(`{"data":{"key":%q}}`, text))
}

func (v *visit) patch(name, patch string) {
	v.t.Helper()
	_, err := v.node.keys.Patch(v.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	v.OK(v.t, "changing an AuthorizedKey", err)
}

func (v *visit) remove(name string) {
	v.t.Helper()
	if err := v.node.keys.Delete(v.ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		v.OK(v.t, "deleting an AuthorizedKey", err)
	}
	delete(v.keys, name)
}

// removeAll deletes the objects that an earlier step has left.
func (v *visit) removeAll() {
	v.t.Helper()
	for _, o := range v.node.informers[0].GetStore().List() {
		v.remove(o.(*unstructured.Unstructured).GetName())
	}
}

// filePatience is how long an operator may be silent until its file is correct.
const filePatience = 5 * time.Second

// holds waits until the file is correct.
func (v *visit) holds(why string) {
	v.t.Helper()
	v.holdsWithin(why, filePatience)
}

func (v *visit) holdsWithin(why string, patience time.Duration) {
	v.t.Helper()
	v.EventuallyWithin(v.ctx, v.t, why+": "+v.wanted(), patience, v.node.Changed, func() (string, bool) {
		wrong := v.node.wrong(v.keys, v.foreign)
		return wrong, wrong == ""
	})
}

// wanted describes the expected file in words.
func (v *visit) wanted() string {
	var names []string
	for name := range v.keys {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "the file has no line of an AuthorizedKey, and all lines of others"
	}
	return fmt.Sprintf("the file has one line each of %s (%q), and all lines of others",
		english.WordSeries(names, "and"), "TYPE BASE64 "+mark+"NAME")
}

// ownDraft is the suffix of the file that write is still writing.
const ownDraft = ".draft"

// write replaces the file as a careful administrator does.
func (v *visit) write(content string) {
	v.t.Helper()
	v.replaceBy("writing the file", func(folder *os.Root, name string) error {
		return folder.WriteFile(name, []byte(content), fileMode)
	})
}

// writeAtRest is write after the operator has settled: everything that it writes later is based on a newer read.
func (v *visit) writeAtRest(content string) {
	v.t.Helper()
	v.Settle(v.ctx, v.t)
	v.write(content)
}

// inFolder runs a function in the folder of the file, and fails the check on an error.
func (v *visit) inFolder(doing string, do func(folder *os.Root) error) {
	v.t.Helper()
	v.OK(v.t, doing, v.node.within(do))
}

// obstruct replaces the file by a folder. The folder is not empty, so not even root can replace it by a rename.
func (v *visit) obstruct() {
	v.t.Helper()
	v.inFolder("putting a folder in the place of the file", func(folder *os.Root) error {
		return errors.Join(folder.RemoveAll(fileName), folder.MkdirAll(filepath.Join(fileName, "in-the-way"), 0o700))
	})
}

// removeFile removes the file, or whatever exists in its place.
func (v *visit) removeFile() {
	v.t.Helper()
	v.inFolder("removing what is in the place of the file", func(folder *os.Root) error {
		return folder.RemoveAll(fileName)
	})
}

// replaceBy replaces the file by something else, without a moment in which there is no file.
func (v *visit) replaceBy(doing string, create func(folder *os.Root, name string) error) {
	v.t.Helper()
	v.inFolder(doing, func(folder *os.Root) error {
		const draft = fileName + ownDraft
		if err := errors.Join(folder.RemoveAll(draft), create(folder, draft)); err != nil {
			return err
		}
		return folder.Rename(draft, fileName)
	})
}

// content returns the content of the file.
func (v *visit) content() string {
	v.t.Helper()
	content, err := v.node.read()
	v.OK(v.t, "reading the file", err)
	return string(content)
}

func (v *visit) stat() fs.FileInfo {
	v.t.Helper()
	info, err := os.Lstat(v.node.path())
	v.OK(v.t, "looking at the file", err)
	return info
}

// restart stops the operator, calls change, and starts the operator.
func (v *visit) restart(resync time.Duration, change func()) {
	v.t.Helper()
	v.OK(v.t, "stopping the operator", v.Operator.Stop(v.ctx))
	change()
	v.OK(v.t, "starting the operator", v.node.start(v.ctx, resync))
}
