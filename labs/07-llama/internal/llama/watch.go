// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"

	"lva.io/operators/labs/07-llama/api/v1alpha"
	"lva.io/operators/labs/07-llama/internal/serve"
	"lva.io/operators/labs/07-llama/internal/store"
)

// bookmarkInterval is how often a watch sends its current resourceVersion, even if no selected llama changes. So the
// client can resume from there after an interruption, and its version does not become too old.
const bookmarkInterval = 10 * time.Second

// watcher follows the store for one client.
type watcher struct {
	store     *store.Store
	namespace string
	selector  serve.Selector
	options   metav1.ListOptions
	version   uint64 // up to which the client knows everything
	yield     func(watch.Event) bool
}

// Watch sends every change since the version that the client names. Without one it begins with the existing llamas.
func (l *Llamas) Watch(
	ctx context.Context, namespace string, options metav1.ListOptions,
) (iter.Seq[watch.Event], error) {
	selector, err := serve.SelectorOf(options)
	if err != nil {
		return nil, err
	}
	if err := validateWatch(options); err != nil {
		return nil, err
	}
	version, err := parseVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &watcher{store: l.store, namespace: namespace, selector: selector, options: options, version: version}
	fromNow := options.ResourceVersion == "" || options.ResourceVersion == "0"
	initial := options.SendInitialEvents != nil && *options.SendInitialEvents ||
		options.SendInitialEvents == nil && fromNow
	var first []*v1alpha.Llama
	if initial || fromNow {
		first, w.version = l.store.List(namespace)
		if version > w.version {
			return nil, tooLarge()
		}
		if !initial {
			first = nil
		}
	}
	// A version that is too old is reported before the watch begins, so that the client sees it in the answer's code.
	if _, _, err := l.store.Since(w.version); err != nil {
		return nil, explain(err, "")
	}
	timeout := time.Hour
	if options.TimeoutSeconds != nil {
		timeout = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	return func(yield func(watch.Event) bool) {
		w.yield = yield
		w.run(ctx, first, timeout)
	}, nil
}

// validateWatch refuses what could not be answered rightly.
func validateWatch(options metav1.ListOptions) error {
	var wrong field.ErrorList
	asked, match := options.SendInitialEvents != nil, options.ResourceVersionMatch
	if asked && match != metav1.ResourceVersionMatchNotOlderThan {
		wrong = append(wrong, field.Forbidden(field.NewPath("resourceVersionMatch"),
			"sendInitialEvents requires resourceVersionMatch=NotOlderThan"))
	}
	if !asked && match != "" {
		wrong = append(wrong, field.Forbidden(field.NewPath("resourceVersionMatch"),
			"resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
	}
	if asked && *options.SendInitialEvents && !options.AllowWatchBookmarks {
		wrong = append(wrong, field.Forbidden(field.NewPath("sendInitialEvents"),
			"the end of the initial events is a bookmark: set allowWatchBookmarks"))
	}
	if len(wrong) > 0 {
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", wrong)
	}
	return nil
}

func (w *watcher) run(ctx context.Context, first []*v1alpha.Llama, timeout time.Duration) {
	end := time.NewTimer(timeout)
	defer end.Stop()
	bookmarks := time.NewTicker(bookmarkInterval)
	defer bookmarks.Stop()

	for _, llama := range first {
		if w.selector.Matches(llama) && !w.send(ctx, watch.Added, llama) {
			return
		}
	}
	if w.options.SendInitialEvents != nil && *w.options.SendInitialEvents && !w.bookmark(ctx, true) {
		return
	}
	// TODO(lab): b8. Send the changes since w.version. Then wait for the next one, for the time to send a bookmark, for
	// the end of the timeout, or for the client to disconnect. What if the version has become too old in the meantime?
	<-ctx.Done()
}

// tell sends a change as a client with this selector sees it: a llama that no longer matches is DELETED.
func (w *watcher) tell(ctx context.Context, change store.Change) bool {
	if w.namespace != "" && change.Llama.Namespace != w.namespace {
		return true
	}
	// TODO(lab): b8. Was it selected before, and is it now? That makes it an ADDED, MODIFIED or DELETED, or nothing at
	// all.
	return true
}

func (w *watcher) send(ctx context.Context, kind watch.EventType, llama *v1alpha.Llama) bool {
	return ctx.Err() == nil && w.yield(watch.Event{Type: kind, Object: present(llama)})
}

// bookmark sends the current resourceVersion, if the client has asked for bookmarks.
func (w *watcher) bookmark(ctx context.Context, initialEventsEnd bool) bool {
	if !w.options.AllowWatchBookmarks {
		return true
	}
	mark := &v1alpha.Llama{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(w.version, 10)}}
	if initialEventsEnd {
		mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return w.send(ctx, watch.Bookmark, mark)
}

// fail ends a watch that has begun: its answer has a code already, so the error is an event.
func (w *watcher) fail(err error) {
	var known apierrors.APIStatus
	if !errors.As(explain(err, ""), &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	w.yield(watch.Event{Type: watch.Error, Object: &status})
}
