// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// seen is an event of a watch, and the time of its arrival.
type seen struct {
	event string // "ADDED x=1"
	at    time.Time
}

// follow watches the ConfigMaps that a test creates, until the test or the watch ends.
func follow(t *testing.T, client *kubernetes.Clientset, namespace string) <-chan seen {
	t.Helper()
	watching, err := client.CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermNotEqualSelector("metadata.name", "kube-root-ca.crt").String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watching.Stop)
	events := make(chan seen, 1000)
	go func() {
		defer close(events)
		for event := range watching.ResultChan() {
			got := seen{event: string(event.Type), at: time.Now()}
			if configMap, ok := event.Object.(*corev1.ConfigMap); ok {
				got.event += " " + configMap.Name + "=" + configMap.Data["value"]
			}
			events <- got
		}
	}()
	return events
}

// next waits for the next event, which must be the given one.
func next(t *testing.T, events <-chan seen, want string) time.Time {
	t.Helper()
	select {
	case got, ok := <-events:
		if !ok {
			t.Fatalf("the watch has ended, want event %q", want)
		}
		if got.event != want {
			t.Fatalf("the event is %q, want %q", got.event, want)
		}
		return got.at
	case <-time.After(patience):
		t.Fatalf("no event %q", want)
	}
	return time.Time{}
}

func TestWatchesPassInTheirEncoding(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for _, mediaType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		config := rest.CopyConfig(b.operator)
		config.ContentType, config.AcceptContentTypes = mediaType, mediaType
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		events := follow(t, client, b.namespace)
		b.create(t, "a")
		next(t, events, string(apiwatch.Added)+" a=")
		if err := set(t.Context(), b.direct, b.namespace, "a", "1"); err != nil {
			t.Fatal(err)
		}
		next(t, events, string(apiwatch.Modified)+" a=1")
		if err := b.direct.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		next(t, events, string(apiwatch.Deleted)+" a=1")
	}
	for _, entry := range b.Log() {
		if entry.Verb != "watch" || entry.Resource != "configmaps" || entry.Code != 200 || entry.Number != 0 || entry.Write {
			t.Errorf("unexpected log entry: %+v", entry)
		}
	}
}

func TestAnInformerFollowsThroughCuts(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	client := b.client(t)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(b.namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	stop := make(chan struct{})
	factory.Start(stop)
	t.Cleanup(func() { close(stop); factory.Shutdown() })
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer does not sync")
	}
	b.create(t, "x")
	names := func() []string { return informer.GetStore().ListKeys() }
	eventually(t, "the informer knows x", func() bool { return slices.Contains(names(), b.namespace+"/x") })

	b.arm(t, Fault{Kind: Cut, Class: Write, At: 1})
	if err := set(t.Context(), client, b.namespace, "x", "1"); err != nil {
		t.Fatalf("set() error = %v at the request that cuts the watches", err)
	}
	watches := func() (all []Entry) {
		for _, entry := range b.Log() {
			// The first, for a streamed list, is refused by this cluster.
			if entry.Verb == "watch" && entry.Code == http.StatusOK {
				all = append(all, entry)
			}
		}
		return all
	}
	eventually(t, "the informer watches again", func() bool { return len(watches()) > 1 })
	b.create(t, "y")
	eventually(t, "the informer knows y", func() bool { return slices.Contains(names(), b.namespace+"/y") })
	if first := watches()[0]; first.Seconds <= 0 {
		t.Errorf("unexpected entry of the watch that was cut: %+v", first)
	}
	// The informer did not treat the cut as a failure of the server, after which it would wait longer and longer.
	for _, entry := range b.Log() {
		if entry.Verb == "list" && entry.Time.After(watches()[0].Time) {
			t.Errorf("the informer lists again: %s", entry)
		}
	}
}

func TestAnInformerListsAgainAfterABreak(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	client := b.client(t)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(b.namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	gone := make(chan any, 10)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(object any) { gone <- object },
	}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	factory.Start(stop)
	t.Cleanup(func() { close(stop); factory.Shutdown() })
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer does not sync")
	}
	b.create(t, "x")
	b.create(t, "y")
	eventually(t, "the informer knows x and y", func() bool {
		keys := informer.GetStore().ListKeys()
		return slices.Contains(keys, b.namespace+"/x") && slices.Contains(keys, b.namespace+"/y")
	})
	// y is deleted after the watch has ended, and before the next list.
	b.arm(t, Fault{Kind: Break, Class: Write, At: 1})
	if err := set(t.Context(), client, b.namespace, "x", "1"); err != nil {
		t.Fatalf("set() error = %v at the request that breaks the watches", err)
	}
	eventually(t, "the watch ends", func() bool {
		return slices.ContainsFunc(b.Log(), func(e Entry) bool {
			return e.Verb == "watch" && e.Code == http.StatusOK && e.Seconds > 0
		})
	})
	if err := b.direct.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), "y", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case object := <-gone:
		if _, unknown := object.(cache.DeletedFinalStateUnknown); !unknown {
			t.Errorf("the deletion of y was delivered as %T", object)
		}
	case <-time.After(patience):
		t.Error("no deletion of y")
	}
}

func TestCutEndsAllOpenWatches(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	client := b.client(t)
	b.create(t, "x")
	first, second := follow(t, client, b.namespace), follow(t, client, b.namespace)
	for _, events := range []<-chan seen{first, second} {
		next(t, events, "ADDED x=")
	}
	b.arm(t, Fault{Kind: Cut, Class: Write, At: 1})
	if err := set(t.Context(), client, b.namespace, "x", "1"); err != nil {
		t.Fatal(err)
	}
	for _, events := range []<-chan seen{first, second} {
		var last string
		for got := range events { // until it ends
			last = got.event
		}
		if last != "" && last != "MODIFIED x=1" {
			t.Errorf("the last event is %q", last)
		}
	}
	// A new watch works. It may start before the write, because the API server's cache follows its storage.
	third := follow(t, client, b.namespace)
	select {
	case got := <-third:
		if got.event == "ADDED x=" {
			next(t, third, "MODIFIED x=1")
		} else if got.event != "ADDED x=1" {
			t.Errorf("a new watch begins with %q", got.event)
		}
	case <-time.After(patience):
		t.Error("a new watch has no events")
	}
}

func TestStaleEventsAreLateAndInOrder(t *testing.T) {
	t.Parallel()
	const lag = 400 * time.Millisecond
	b := newBench(t, nil)
	client := b.client(t)
	b.create(t, "x")
	direct, late := follow(t, b.direct, b.namespace), follow(t, client, b.namespace)
	next(t, direct, "ADDED x=")
	next(t, late, "ADDED x=")

	b.arm(t, Fault{Kind: Stale, Class: Write, At: 2, For: lasting(lag)})
	write := func(value string) {
		t.Helper()
		if err := set(t.Context(), client, b.namespace, "x", value); err != nil {
			t.Fatal(err)
		}
	}
	write("1") // the fault comes later
	next(t, late, "MODIFIED x=1")
	next(t, direct, "MODIFIED x=1")
	began := time.Now()
	for _, value := range []string{"2", "3", "4"} {
		write(value)
	}
	if got := b.value(t, "x"); got != "4" {
		t.Errorf("got value %q, want that of the last write", got)
	}
	var last time.Time
	for n, value := range []string{"2", "3", "4"} {
		sent := next(t, direct, "MODIFIED x="+value)
		received := next(t, late, "MODIFIED x="+value)
		// The event left the API server after the write began. Either of the two connections may be faster.
		if received.Sub(began) < lag {
			t.Errorf("%s is late by %s, want %s", value, received.Sub(sent), lag)
		}
		if received.Before(last) {
			t.Errorf("event %s arrived before the previous one", value)
		}
		last = received
		if n == 2 && received.Sub(sent) > patience/2 {
			t.Errorf("the last event came %s late, want each held back by itself", received.Sub(sent))
		}
	}
}

func TestHeldEventsArriveWhenTheScheduleEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	client := b.client(t)
	b.create(t, "x")
	direct, late := follow(t, b.direct, b.namespace), follow(t, client, b.namespace)
	next(t, direct, "ADDED x=")
	next(t, late, "ADDED x=")
	b.arm(t, Fault{Kind: Stale, Class: Write, At: 1, For: lasting(long)})
	for _, value := range []string{"1", "2"} {
		if err := set(t.Context(), client, b.namespace, "x", value); err != nil {
			t.Fatal(err)
		}
		next(t, direct, "MODIFIED x="+value)
	}
	// A watch that begins now gets existing objects late, too.
	second := follow(t, client, b.namespace)
	if _, err := client.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	released := time.Now()
	b.Disarm()
	for _, value := range []string{"1", "2"} {
		if at := next(t, late, "MODIFIED x="+value); at.Before(released) {
			t.Errorf("the event of %s was not held back", value)
		}
	}
	if at := next(t, second, "ADDED x=2"); at.Before(released) {
		t.Error("the first event of a new watch was not held back")
	}
	if err := set(t.Context(), client, b.namespace, "x", "3"); err != nil {
		t.Fatal(err)
	}
	next(t, late, "MODIFIED x=3")
}

// Only the list with which a cache begins may be old. A request for the current state gets the current state.
func TestCacheStartsWithAnOldList(t *testing.T) {
	t.Parallel()
	const lag = 400 * time.Millisecond
	b := newBench(t, nil)
	client := b.client(t)
	b.create(t, "x")
	before, err := b.direct.CoreV1().ConfigMaps(b.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := set(t.Context(), client, b.namespace, "x", "1"); err != nil {
		t.Fatal(err)
	}
	b.arm(t, Fault{Kind: Behind, Class: Read, Service: API, Version: before.ResourceVersion, For: lasting(lag)})

	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(b.namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	values := make(chan string, 10)
	record := func(object any) {
		if configMap := object.(*corev1.ConfigMap); configMap.Name == "x" {
			values <- configMap.Data["value"]
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: record, UpdateFunc: func(_, now any) { record(now) },
	}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	factory.Start(stop)
	t.Cleanup(func() { close(stop); factory.Shutdown() })
	var began time.Time
	for _, want := range []string{"", "1"} {
		select {
		case got := <-values:
			if got != want {
				t.Fatalf("the cache has the value %q, want %q", got, want)
			}
			if want == "" {
				began = time.Now()
			} else if took := time.Since(began); took < lag/2 {
				t.Errorf("the cache caught up within %s, want changes to be %s late", took, lag)
			}
		case <-time.After(patience):
			t.Fatalf("the cache never has the value %q", want)
		}
	}
	configMaps := client.CoreV1().ConfigMaps(b.namespace)
	got, err := configMaps.Get(t.Context(), "x", metav1.GetOptions{})
	if err != nil || got.Data["value"] != "1" {
		t.Errorf("Get() = %v, error = %v", got, err)
	}
	all, err := configMaps.List(t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", "x").String(),
	})
	if err != nil || len(all.Items) != 1 || all.Items[0].Data["value"] != "1" {
		t.Errorf("List() = %v, error = %v", all, err)
	}
}
