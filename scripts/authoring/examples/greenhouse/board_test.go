// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package greenhouse

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	playv1 "lva.io/operators/scripts/authoring/examples/greenhouse/api/v1"
)

// connection is a transport that can be interrupted in such a way that a client misses events: watches end, none can be
// resumed, and lists wait for the repair.
type connection struct {
	http.RoundTripper

	mu       sync.Mutex
	ends     []context.CancelFunc // of the watches
	stale    bool                 // Watches can't begin before the next list.
	repaired chan struct{}
}

func (c *connection) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stale, c.repaired = true, make(chan struct{})
	for _, end := range c.ends {
		end()
	}
	c.ends = nil
}

func (c *connection) repair() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.repaired)
}

func (c *connection) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	c.mu.Lock()
	stale, repaired := c.stale, c.repaired
	if query.Get("watch") != "" {
		ctx, end := context.WithCancel(request.Context())
		c.ends = append(c.ends, end)
		request = request.WithContext(ctx)
	}
	c.mu.Unlock()
	lists := query.Get("watch") == "" || query.Get("sendInitialEvents") != ""
	switch {
	case stale && !lists:
		return &http.Response{
			StatusCode: http.StatusGone, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
			Body: io.NopCloser(strings.NewReader(
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}`)),
		}, nil
	case stale:
		select {
		case <-repaired:
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
		c.mu.Lock()
		c.stale = false
		c.mu.Unlock()
	}
	return c.RoundTripper.RoundTrip(request)
}

// display is a part of TestOnARealAPIServer.
func display(t *testing.T, config *rest.Config, api client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	wire := &connection{}
	greenhouses := informer(t, config, wire)
	first := "show default/vines 8 to 20 °C"
	shown := &entrance{calls: make(chan string, 100), fail: map[string]error{first: errors.New("no power")}}
	controller, err := NewBoardController(greenhouses, shown)
	if err != nil {
		t.Fatal(err)
	}
	deleted := make(chan any, 100)
	_, err = greenhouses.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(o any) { deleted <- o }})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { greenhouses.RunWithContext(ctx) })
	running.Go(func() { controller.Run(ctx) })
	defer running.Wait()
	defer cancel()
	// wait reads the calls until this one. Those of greenhouses of other tests come between.
	wait := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-shown.calls:
				if got == want {
					return
				}
			case <-ctx.Done():
				t.Fatalf("waiting for %q: %v", want, ctx.Err())
			}
		}
	}

	vines := newGreenhouse("vines", 8, 20)
	if err := api.Create(ctx, vines); err != nil {
		t.Fatal(err)
	}
	wait(first) // It fails,
	wait(first) // and is tried again.
	vines.Spec.MaxCelsius = 22
	if err := api.Update(ctx, vines); err != nil {
		t.Fatal(err)
	}
	wait("show default/vines 8 to 22 °C")
	if failures := controller.queue.NumRequeues("default/vines"); failures != 0 {
		t.Errorf("the queue counts %d failures after a success, want 0", failures)
	}

	wire.interrupt()
	if err := api.Delete(ctx, vines); err != nil {
		t.Fatal(err)
	}
	wire.repair()
	wait("clear default/vines")
	for {
		select {
		case object := <-deleted:
			switch o := object.(type) {
			case cache.DeletedFinalStateUnknown:
				if o.Key == "default/vines" {
					return
				}
			case *playv1.Greenhouse:
				if o.Name == vines.Name {
					t.Fatal("the deletion came as an object, want a tombstone: nothing was interrupted")
				}
			}
		case <-ctx.Done():
			t.Fatal("no tombstone was received")
		}
	}
}

// informer is an informer of greenhouses, whose requests use a connection.
func informer(t *testing.T, config *rest.Config, over *connection) cache.SharedIndexInformer {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := playv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/apis", &playv1.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		over.RoundTripper = next
		return over
	})
	requests, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	all := cache.NewListWatchFromClient(requests, "greenhouses", metav1.NamespaceAll, fields.Everything())
	return cache.NewSharedIndexInformer(all, &playv1.Greenhouse{}, 0, cache.Indexers{})
}

// entrance notes the calls to a board. A call for which it has an error fails once.
type entrance struct {
	calls chan string
	fail  map[string]error
}

func (e *entrance) note(call string) error {
	e.calls <- call
	err := e.fail[call]
	delete(e.fail, call)
	return err
}

func (e *entrance) Show(greenhouse, text string) error {
	return e.note("show " + greenhouse + " " + text)
}

func (e *entrance) Clear(greenhouse string) error { return e.note("clear " + greenhouse) }
