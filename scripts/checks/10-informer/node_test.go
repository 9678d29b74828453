// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/protocol"
)

const (
	// fileName is the name of the file, and mark is the beginning of the last word of the controller's lines in it.
	fileName = "authorized_keys"
	mark     = "authorizedkey:"
	// fileFlag is the beginning of the argument that names the file.
	fileFlag = "--authorized-keys="
	// never is a resync period that is longer than any run.
	never = 10 * time.Hour
	// syncTimeout limits the first lists, which take some milliseconds.
	syncTimeout = 10 * time.Second
)

// node gives access to the file, and to all AuthorizedKeys, which watches keep up to date.
type node struct {
	keys      dynamic.ResourceInterface
	suite     *check.Suite
	folder    string
	informers []cache.SharedIndexInformer // of AuthorizedKeys, and of Events
	watcher   *fsnotify.Watcher
	names     int
	created   []string // names of AuthorizedKeys that were created since the last clean-up
	lag       check.Lag
	// unusable is why the checks can't set the path of the operator's file.
	unusable error
	// sameKeys means that the check same-key has passed, so that other checks may give several AuthorizedKeys the same
	// key.
	sameKeys bool
	// givenUp is the failed write of the file that the controller did not retry. Empty: it retried all.
	givenUp string
	// withdrawn waits until a withdrawn policy no longer has an effect. Nil: there is none. Only a check that the policy
	// could disturb waits.
	withdrawn func(context.Context) error

	mutex   sync.Mutex
	changed chan struct{}
	events  []fsnotify.Event // of the file
	drafts  []fsnotify.Event // of other files in its folder
	// blocked receives the name of the next file that is created in the folder: see block.
	blocked chan string
}

type nodeKey struct{}

func nodeOf(ctx context.Context) *node { return ctx.Value(nodeKey{}).(*node) }

// openNode begins to watch, until the context ends, and starts the operator with our file.
func openNode(ctx context.Context, suite *check.Suite) (*node, error) {
	n := &node{suite: suite, changed: make(chan struct{})}
	var err error
	// The folder is removed with the run, whatever ends it.
	if n.folder, err = os.MkdirTemp(suite.Exchange, "authorized-keys-"); err != nil {
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
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	n.keys = client.Resource(keysResource)
	syncing, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	for _, resource := range []struct {
		informer cache.SharedIndexInformer
		name     string
	}{
		{
			dynamicinformer.NewFilteredDynamicInformer(client, keysResource,
				metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(), keysResource.Resource,
		},
		{
			dynamicinformer.NewFilteredDynamicInformer(client, eventsv1.SchemeGroupVersion.WithResource("events"),
				metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(), "events",
		},
	} {
		if _, err := resource.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { n.lag.Arrived(object.(*unstructured.Unstructured).GetName()); n.notify() },
			UpdateFunc: func(any, any) { n.notify() },
			DeleteFunc: func(any) { n.notify() },
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
	// Until now the operator kept a file in its own folder. A check tests how it ends, and some operators take long.
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
	flags = append([]string{fileFlag + file, "--resync=" + resync.String()}, flags...)
	return n.suite.Operator.StartAs(ctx, protocol.Start{Flags: flags})
}

func (n *node) path() string { return filepath.Join(n.folder, fileName) }

// follow records the events of the file.
func (n *node) follow(ctx context.Context) {
	defer n.watcher.Close()
	for {
		select {
		case event := <-n.watcher.Events:
			n.mutex.Lock()
			switch event.Name {
			case n.path():
				n.events = append(n.events, event)
			case n.path() + ownDraft:
			default:
				n.drafts = append(n.drafts, event)
				if n.blocked != nil && event.Has(fsnotify.Create) {
					n.replaceByFolder(event.Name)
				}
			}
			n.mutex.Unlock()
			n.notify()
		case _, open := <-n.watcher.Errors: // the checks detect missed events by reading the file
			if !open {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// block replaces the file by a folder as soon as another file is created next to it. It then sends the name of that
// file.
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

// replaceByFolder is quick, because the operator is about to rename the draft. If the rename was quicker, it creates no
// folder.
func (n *node) replaceByFolder(draft string) {
	_ = n.within(func(folder *os.Root) error {
		return errors.Join(folder.Remove(fileName), folder.Mkdir(fileName, 0o700))
	})
	n.blocked <- draft
	n.blocked = nil
}

// draftsMade returns how many files were created next to the file so far.
func (n *node) draftsMade() (count int) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, d := range n.drafts {
		if d.Has(fsnotify.Create) {
			count++
		}
	}
	return count
}

// draftsSoFar returns a mark for draftNames and end.
func (n *node) draftsSoFar() int {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return len(n.drafts)
}

// draftNames returns the names of the files that were created next to the file since a mark, without duplicates, in the
// order of their first creation.
func (n *node) draftNames(since int) (names []string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, d := range n.drafts[since:] {
		if name := filepath.Base(d.Name); d.Has(fsnotify.Create) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// end returns whether a draft was renamed or removed since a mark. 0: neither. Before the mark, another draft may have
// had its name.
func (n *node) end(draft string, since int) (event fsnotify.Op) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, d := range n.drafts[since:] {
		if d.Name == draft {
			event |= d.Op & (fsnotify.Rename | fsnotify.Remove)
		}
	}
	return event
}

func (n *node) notify() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	close(n.changed)
	n.changed = make(chan struct{})
}

// Changed returns a channel that is closed when the file, an AuthorizedKey or an Event changes.
func (n *node) Changed() <-chan struct{} {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.changed
}

// since returns the events after the first ones, and the total number of events.
func (n *node) since(first int) (events []fsnotify.Event, all int) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return slices.Clone(n.events[first:]), len(n.events)
}

// replaced returns how often the file was replaced after the first events.
func (n *node) replaced(first int) (times int) {
	events, _ := n.since(first)
	for _, event := range events {
		if event.Has(fsnotify.Create) {
			times++
		}
	}
	return times
}

// get returns an AuthorizedKey as the watch has reported it. Nil: there is none.
func (n *node) get(name string) *unstructured.Unstructured {
	object, exists, err := n.informers[0].GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil
	}
	return object.(*unstructured.Unstructured)
}

// warnings returns the Warnings about an AuthorizedKey, by name. Their resourceVersion distinguishes a repeated one
// from a known one.
func (n *node) warnings(name string) map[string]string {
	found := map[string]string{}
	for _, object := range n.informers[1].GetStore().List() {
		object := object.(*unstructured.Unstructured)
		kind, _, _ := unstructured.NestedString(object.Object, "type")
		about, _, _ := unstructured.NestedString(object.Object, "regarding", "name")
		regarding, _, _ := unstructured.NestedString(object.Object, "regarding", "kind")
		if kind == "Warning" && about == name && regarding == keysKind.Kind {
			found[object.GetName()] = object.GetResourceVersion()
		}
	}
	return found
}

// awaitWithdrawn waits until a withdrawn policy no longer has an effect.
func (n *node) awaitWithdrawn(ctx context.Context) error {
	if n.withdrawn == nil {
		return nil
	}
	defer func() { n.withdrawn = nil }()
	return n.withdrawn(ctx)
}

// cleanTimeout is how long the objects may take to disappear, and lineTimeout is how long their lines may take. A
// correct operator takes some milliseconds.
const (
	cleanTimeout = 10 * time.Second
	lineTimeout  = time.Second
)

// cleanUp deletes all objects, waits until the operator has seen that, and removes the file.
func (n *node) cleanUp(ctx context.Context) error {
	if err := errors.Join(n.suite.Faults.Disarm(ctx), n.start(ctx, never)); err != nil {
		return err
	}
	if _, err := os.Lstat(n.path()); errors.Is(err, fs.ErrNotExist) && len(n.informers[0].GetStore().List()) == 0 {
		return nil // nothing has happened
	}
	// It deletes by name: before the API server deletes a collection, it makes sure that its own cache is up to date,
	// which takes up to 100 ms.
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
	large := false
	done := wait(lineTimeout, func() bool {
		content, err := n.read()
		large = len(content) > fullAt
		return err == nil && len(parse(content).ours) == 0
	})
	// The operator may still write what it has read, so it must not run during the removal. Writing a large file takes a
	// while, even if no line of it is the operator's.
	if done != nil || large {
		if err := n.suite.Operator.Stop(ctx); err != nil {
			return err
		}
	}
	if err := n.empty(); err != nil {
		return err
	}
	return n.start(ctx, never)
}

// within runs a function in the folder of the file. The operator may write to this folder and to its neighbours, so
// links of the operator must not point outside the folder.
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

// empty removes the file, and temporary files that failed attempts have left next to it.
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
