// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/fsnotify/fsnotify"
	"golang.org/x/crypto/ssh"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/protocol"
	"lva.io/operators/scripts/limited"
)

const (
	// fileName is that of the file, and mark begins the last word of the controller's lines in it.
	fileName = "authorized_keys"
	mark     = "authorizedkey:"
	// never is a time between two resyncs that no run lasts.
	never = 10 * time.Hour
	// syncTimeout is for the first lists, which take some milliseconds.
	syncTimeout = 10 * time.Second
)

// node is the file, and all AuthorizedKeys: views that watches keep.
type node struct {
	keys      dynamic.ResourceInterface
	suite     *check.Suite
	folder    string
	informers []cache.SharedIndexInformer // of AuthorizedKeys, and of Events
	watcher   *fsnotify.Watcher
	names     int
	created   []string // names of AuthorizedKeys that were created since the last clean-up
	lag       check.Lag
	// unusable is why the operator can't be told where its file is.
	unusable error
	// withdrawn waits until a policy that was withdrawn has no effect any more; nil: there is none. Only who is in its way waits.
	withdrawn func(context.Context) error

	mutex   sync.Mutex
	changed chan struct{}
	deeds   []fsnotify.Event // of the file
	drafts  []fsnotify.Event // of other files in its folder
	// blocked gets the name of the next file that is made in the folder; see block.
	blocked chan string
}

type nodeKey struct{}

func nodeOf(ctx context.Context) *node { return ctx.Value(nodeKey{}).(*node) }

// openNode begins to watch, until the context ends, and starts the operator with a file of ours.
func openNode(ctx context.Context, suite *check.Suite) (*node, error) {
	n := &node{suite: suite, changed: make(chan struct{})}
	var err error
	if n.folder, err = os.MkdirTemp(suite.Exchange, "authorized-keys-"); err != nil { // it is removed with the run, whatever ends it
		return nil, fmt.Errorf("making the folder of the file: %w", err)
	}
	if n.watcher, err = fsnotify.NewWatcher(); err != nil {
		return nil, fmt.Errorf("watching the file: %w", err)
	}
	if err := n.watcher.Add(n.folder); err != nil {
		return nil, fmt.Errorf("watching the file: %w", err)
	}
	go n.follow(ctx)
	client, err := dynamic.NewForConfig(suite.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	n.keys = client.Resource(keysResource)
	syncing, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	for _, resource := range []struct {
		informer cache.SharedIndexInformer
		name     string
	}{
		{dynamicinformer.NewFilteredDynamicInformer(client, keysResource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(), keysResource.Resource},
		{dynamicinformer.NewFilteredDynamicInformer(client, eventsv1.SchemeGroupVersion.WithResource("events"), metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(), "events"},
	} {
		if _, err := resource.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { n.lag.Arrived(object.(*unstructured.Unstructured).GetName()); n.notify() }, UpdateFunc: func(any, any) { n.notify() }, DeleteFunc: func(any) { n.notify() },
		}); err != nil {
			return nil, fmt.Errorf("watching %s: %w", resource.name, err)
		}
		go resource.informer.RunWithContext(ctx)
		if !cache.WaitForCacheSync(syncing.Done(), resource.informer.HasSynced) {
			return nil, fmt.Errorf("watching %s: the API server has not listed them within %s: does it serve %s of %s?",
				resource.name, syncTimeout, keysResource.Resource, keysResource.GroupVersion())
		}
		n.informers = append(n.informers, resource.informer)
	}
	// Until now it kept a file in its own folder. How it ends is for a check: some take long.
	if err := suite.Operator.Kill(ctx); err != nil {
		return nil, err
	}
	if err := n.start(ctx, never); errors.Is(err, check.ErrNoSuchFlag) {
		n.unusable = err
		return n, suite.Operator.Start(ctx)
	} else if err != nil {
		return nil, err
	}
	return n, nil
}

// start starts the operator with our file, unless it runs.
func (n *node) start(ctx context.Context, resync time.Duration, flags ...string) error {
	return n.startWith(ctx, n.path(), resync, flags...)
}

// startWith is start with a file of another name, or without one.
func (n *node) startWith(ctx context.Context, file string, resync time.Duration, flags ...string) error {
	if n.unusable != nil {
		return nil //nolint:nilerr // it runs without our file, and each check says so
	}
	flags = append([]string{"--authorized-keys=" + file, "--resync=" + resync.String()}, flags...)
	return n.suite.Operator.StartAs(ctx, protocol.Start{Flags: flags})
}

func (n *node) path() string { return filepath.Join(n.folder, fileName) }

// follow notes what happens to the file.
func (n *node) follow(ctx context.Context) {
	defer n.watcher.Close()
	for {
		select {
		case deed := <-n.watcher.Events:
			n.mutex.Lock()
			switch deed.Name {
			case n.path():
				n.deeds = append(n.deeds, deed)
			case n.path() + ownDraft:
			default:
				n.drafts = append(n.drafts, deed)
				if n.blocked != nil && deed.Has(fsnotify.Create) {
					n.putInTheWay(deed.Name)
				}
			}
			n.mutex.Unlock()
			n.notify()
		case _, open := <-n.watcher.Errors: // what it has missed the checks see by looking at the file
			if !open {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// block has a folder take the place of the file as soon as another file is made beside it, whose name is sent then.
func (n *node) block() <-chan string {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.blocked = make(chan string, 1)
	return n.blocked
}

func (n *node) unblock() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.blocked = nil
}

// putInTheWay is quick, since the operator is about to rename the draft. If that was quicker, the folder is not made.
func (n *node) putInTheWay(draft string) {
	_ = n.within(func(folder *os.Root) error {
		return errors.Join(folder.Remove(fileName), folder.Mkdir(fileName, 0o700))
	})
	n.blocked <- draft
	n.blocked = nil
}

// draftsMade is how many files were made beside the file so far.
func (n *node) draftsMade() (made int) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, d := range n.drafts {
		if d.Has(fsnotify.Create) {
			made++
		}
	}
	return made
}

// end is what became of a draft: it was renamed or removed; 0: neither.
func (n *node) end(draft string) (deed fsnotify.Op) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, d := range n.drafts {
		if d.Name == draft {
			deed |= d.Op & (fsnotify.Rename | fsnotify.Remove)
		}
	}
	return deed
}

func (n *node) notify() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	close(n.changed)
	n.changed = make(chan struct{})
}

// Changed is closed when the file, an AuthorizedKey or an Event changes.
func (n *node) Changed() <-chan struct{} {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.changed
}

// since are the deeds after the first ones, and how many there are in all.
func (n *node) since(first int) (deeds []fsnotify.Event, all int) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return slices.Clone(n.deeds[first:]), len(n.deeds)
}

// get is an AuthorizedKey as the watch has told of it; nil: there is none.
func (n *node) get(name string) *unstructured.Unstructured {
	object, there, err := n.informers[0].GetStore().GetByKey(name)
	if err != nil || !there {
		return nil
	}
	return object.(*unstructured.Unstructured)
}

// warnings are the Warnings about an AuthorizedKey, by name. Their resourceVersion tells a repeated one from one that is known.
func (n *node) warnings(name string) map[string]string {
	found := map[string]string{}
	for _, object := range n.informers[1].GetStore().List() {
		object := object.(*unstructured.Unstructured)
		kind, _, _ := unstructured.NestedString(object.Object, "type")
		about, _, _ := unstructured.NestedString(object.Object, "regarding", "name")
		of, _, _ := unstructured.NestedString(object.Object, "regarding", "kind")
		if kind == "Warning" && about == name && of == keysKind.Kind {
			found[object.GetName()] = object.GetResourceVersion()
		}
	}
	return found
}

// awaitWithdrawn waits until a policy that was withdrawn has no effect any more.
func (n *node) awaitWithdrawn(ctx context.Context) error {
	if n.withdrawn == nil {
		return nil
	}
	defer func() { n.withdrawn = nil }()
	return n.withdrawn(ctx)
}

// cleanTimeout is for the objects to go, and lineTimeout for their lines: a right operator takes some milliseconds.
const (
	cleanTimeout = 10 * time.Second
	lineTimeout  = time.Second
)

// cleanUp removes all objects, waits for the operator to hear of it, and removes the file.
func (n *node) cleanUp(ctx context.Context) error {
	if err := errors.Join(n.suite.Faults.Disarm(ctx), n.start(ctx, never)); err != nil {
		return err
	}
	if _, err := os.Lstat(n.path()); errors.Is(err, fs.ErrNotExist) && len(n.informers[0].GetStore().List()) == 0 {
		return nil // nothing has happened
	}
	// By name: before it deletes a collection the API server makes sure that its own cache is not behind, which takes it up to 100 ms.
	for _, name := range n.created {
		err := n.keys.Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && n.withdrawn != nil {
			if err := n.awaitWithdrawn(ctx); err != nil {
				return err
			}
			err = n.keys.Delete(ctx, name, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the AuthorizedKey %s: %w", name, err)
		}
	}
	n.created = nil
	wait := func(timeout time.Duration, done func() bool) error {
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("AuthorizedKeys are still there after %s", timeout))
		defer cancel()
		for {
			changed := n.Changed()
			if done() {
				return nil
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	if err := wait(cleanTimeout, func() bool { return len(n.informers[0].GetStore().List()) == 0 }); err != nil {
		return err
	}
	done := wait(lineTimeout, func() bool {
		content, err := n.read()
		return err == nil && len(parse(content).ours) == 0
	})
	if done != nil { // it may still write what it has read, so that it must not run meanwhile
		if err := n.suite.Operator.Stop(ctx); err != nil {
			return err
		}
	}
	if err := n.empty(); err != nil {
		return err
	}
	return n.start(ctx, never)
}

// fileLimit is how large the file may be, in bytes: twice as large as any that a check asks for.
const fileLimit = 1 << 20

// read reads the file as an operator may have left it. A device would have no end, and a pipe no beginning. Links are
// followed inside of the folder only: the task asks for a file there that is replaced by a rename, so a right operator
// makes no link at all.
func (n *node) read() ([]byte, error) {
	content, err := limited.ReadFile(n.folder, fileName, fileLimit)
	return content, n.explained(err)
}

// explained says what is in the place of the file, if it can't be read for that.
func (n *node) explained(err error) error {
	wrong, is := errors.AsType[*limited.FileError](err)
	if !is {
		return err
	}
	what := wrong.What
	switch target, linkErr := os.Readlink(n.path()); {
	case linkErr == nil:
		what = "a link to " + shorten(target)
	case wrong.TooLarge():
		what = "larger"
	}
	return fmt.Errorf("%s is %s: it must be a regular file of at most %d MB", fileName, what, fileLimit>>20)
}

// within does something in the folder of the file. The operator may write there, and beside it: no link of its leads us elsewhere.
func (n *node) within(do func(folder *os.Root) error) error {
	exchange, err := os.OpenRoot(filepath.Dir(n.folder))
	if err != nil {
		return err
	}
	defer exchange.Close()
	folder, err := exchange.OpenRoot(filepath.Base(n.folder))
	if err != nil {
		return err
	}
	defer folder.Close()
	return do(folder)
}

// empty removes the file, and what attempts that failed have left beside it.
func (n *node) empty() error {
	err := n.within(func(folder *os.Root) error {
		entries, err := fs.ReadDir(folder.FS(), ".")
		for _, entry := range entries {
			err = errors.Join(err, folder.RemoveAll(entry.Name()))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("emptying the folder of the file: %w", err)
	}
	return nil
}

// lines is a file as the task has it.
type lines struct {
	ours    []string
	foreign string
}

func parse(content []byte) (found lines) {
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		if len(words) > 0 && !strings.HasPrefix(words[0], "#") && strings.HasPrefix(words[len(words)-1], mark) {
			found.ours = append(found.ours, strings.TrimSuffix(line, "\n"))
		} else {
			found.foreign += line
		}
	}
	return found
}

// wrong says how the file differs from what it should be; empty: it does not. If the last foreign line had no line break, it may have got one.
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

// shownLines is how many wrong lines are shown: an operator may write thousands.
const shownLines = 5

// differ says of the first line that differs what has become of it; empty: none does.
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

// lineOf is the line of an AuthorizedKey, without its line break.
func lineOf(name, key string) string { return key + " " + mark + name }

// visit is a check at the node: the words in which checks are written.
type visit struct {
	*check.Check
	ctx  context.Context
	t    *testing.T
	node *node
	// keys are those that there are, by name; type and base64. foreign is what others have written into the file.
	keys    map[string]string
	foreign string
	// random draws what differs from run to run.
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

// drawName is a name that was not there before.
func (v *visit) drawName(person string) string {
	v.node.names++
	return fmt.Sprintf("%s-%d", person, v.node.names)
}

// drawKey is a key that nobody has.
func (v *visit) drawKey() string {
	v.t.Helper()
	v.node.names++
	return v.drawKeyOf([]string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256}[v.node.names%2])
}

// ordinaryTypes are the types of keys that each ssh-keygen makes, and tokenTypes those of keys that a hardware token keeps.
var (
	ordinaryTypes = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA}
	tokenTypes    = []string{ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256}
)

// drawKeyOf is a key of a type that nobody has.
func (v *visit) drawKeyOf(algorithm string) string {
	v.t.Helper()
	key, err := newKey(algorithm)
	v.OK(v.t, "making a key", err)
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// newKey makes a public key. Nobody logs in with it, so no private one need belong to it.
func newKey(algorithm string) (ssh.PublicKey, error) {
	onCurve := func(curve elliptic.Curve) (*ecdsa.PublicKey, error) {
		private, err := ecdsa.GenerateKey(curve, cryptorand.Reader)
		if err != nil {
			return nil, err
		}
		return &private.PublicKey, nil
	}
	var public any
	var err error
	switch algorithm {
	case ssh.KeyAlgoED25519:
		public, _, err = ed25519.GenerateKey(cryptorand.Reader)
	case ssh.KeyAlgoECDSA256:
		public, err = onCurve(elliptic.P256())
	case ssh.KeyAlgoECDSA384:
		public, err = onCurve(elliptic.P384())
	case ssh.KeyAlgoECDSA521:
		public, err = onCurve(elliptic.P521())
	case ssh.KeyAlgoRSA:
		// Any odd number of 2048 bits looks like the product of two primes, which take a while to find.
		modulus := make([]byte, 256)
		_, err = cryptorand.Read(modulus)
		modulus[0], modulus[255] = modulus[0]|0x80, modulus[255]|1
		public = &rsa.PublicKey{N: new(big.Int).SetBytes(modulus), E: 65537}
	case ssh.KeyAlgoSKED25519: // OpenSSH, PROTOCOL.u2f
		var point ed25519.PublicKey
		if point, _, err = ed25519.GenerateKey(cryptorand.Reader); err == nil {
			return ssh.ParsePublicKey(ssh.Marshal(struct {
				Name        string
				Point       []byte
				Application string
			}{algorithm, point, "ssh:"}))
		}
	case ssh.KeyAlgoSKECDSA256:
		var point *ecdsa.PublicKey
		if point, err = onCurve(elliptic.P256()); err == nil {
			var encoded []byte
			if encoded, err = point.Bytes(); err == nil {
				return ssh.ParsePublicKey(ssh.Marshal(struct {
					Name, Curve string
					Point       []byte
					Application string
				}{algorithm, "nistp256", encoded, "ssh:"}))
			}
		}
	default:
		return nil, fmt.Errorf("there is no key of the type %q", algorithm)
	}
	if err != nil {
		return nil, err
	}
	return ssh.NewPublicKey(public)
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

// add creates an AuthorizedKey that is right, and returns its name.
func (v *visit) add(person string) string {
	v.t.Helper()
	name, key := v.drawName(person), v.drawKey()
	v.create(name, key+" "+person+"@laptop\n")
	v.keys[name] = key
	return name
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

// removeAll deletes what an earlier step has left.
func (v *visit) removeAll() {
	v.t.Helper()
	for _, o := range v.node.informers[0].GetStore().List() {
		v.remove(o.(*unstructured.Unstructured).GetName())
	}
}

// filePatience is how long an operator may be silent until its file is right.
const filePatience = 5 * time.Second

// holds waits until the file is right.
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

// wanted is what the file should be, in words.
func (v *visit) wanted() string {
	var names []string
	for name := range v.keys {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "the file has no line of an AuthorizedKey, and all lines of others"
	}
	return fmt.Sprintf("the file has one line each of %s (%q), and all lines of others", english.WordSeries(names, "and"), "TYPE BASE64 "+mark+"NAME")
}

// ownDraft is added to the name of the file for what write has written so far.
const ownDraft = ".draft"

// write replaces the file as a careful administrator does.
func (v *visit) write(content string) {
	v.t.Helper()
	v.replaceBy("writing the file", func(folder *os.Root, name string) error {
		return folder.WriteFile(name, []byte(content), fileMode)
	})
}

// replaceBy has the name of the file lead to something else, without a moment in which there is no file.
func (v *visit) replaceBy(doing string, create func(folder *os.Root, name string) error) {
	v.t.Helper()
	v.OK(v.t, doing, v.node.within(func(folder *os.Root) error {
		const draft = fileName + ownDraft
		if err := errors.Join(folder.RemoveAll(draft), create(folder, draft)); err != nil {
			return err
		}
		return folder.Rename(draft, fileName)
	}))
}

// content is what is in the file.
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

// restart stops the operator, lets something happen, and starts it.
func (v *visit) restart(resync time.Duration, meanwhile func()) {
	v.t.Helper()
	v.OK(v.t, "stopping the operator", v.Operator.Stop(v.ctx))
	meanwhile()
	v.OK(v.t, "starting the operator", v.node.start(v.ctx, resync))
}
