// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lva.io/operators/scripts/services/freezer"
)

// take returns a movement out of the freezer.
func take(id string) freezer.Movement {
	return freezer.Movement{
		ID: id, Owner: "sundae", Direction: freezer.Out,
		Ingredient: freezer.Ingredient{Kind: freezer.Topping, Ingredient: "cream"},
	}
}

// booked returns the IDs of the movements that the freezer has booked.
func (b *bench) booked(t *testing.T) []string {
	t.Helper()
	movements, err := b.inventory.Movements(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, movement := range movements {
		ids = append(ids, movement.ID)
	}
	return ids
}

func (b *bench) demandBooked(t *testing.T, want ...string) {
	t.Helper()
	if got := b.booked(t); !slices.Equal(got, want) {
		t.Errorf("the freezer has booked %q, want %q", got, want)
	}
}

// lines returns the entries of the log without their times.
func (b *bench) lines() []string {
	lines := []string{}
	for _, entry := range b.Log() {
		_, line, _ := strings.Cut(entry.String(), " ")
		lines = append(lines, line)
	}
	return lines
}

func TestRequestsToAServicePassAndAreLogged(t *testing.T) {
	t.Parallel()
	b := newFreezerBench(t, nil)
	ctx := t.Context()
	before := time.Now()
	if _, err := b.freezer.Book(ctx, take("one")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.freezer.Movements(ctx, "sundae"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.freezer.Out(ctx, "sundae"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.freezer.Book(ctx, freezer.Movement{ID: "one"}); err == nil {
		t.Fatal("the freezer's refusal was lost")
	}
	if err := send(ctx, lone(t), http.MethodPut, b.url+"/v1/movements/two"); err != nil { // without a body
		t.Fatal(err)
	}
	b.demandBooked(t, "one")
	want := []string{
		"put movements (topping cream out for sundae, id one) → 201 Created (write 1)",
		"get movements → 200 OK (read 1)",
		"get owners sundae → 200 OK (read 2)",
		`put movements one → 400 Bad Request (write 2, the owner "" is not one: ` +
			`take 1 to 200 of the characters A-Z a-z 0-9 . _ : -, as a uid has)`,
		"put movements two → 400 Bad Request (write 3, " +
			"the body is not a movement: EOF; send JSON with owner, direction, kind and ingredient)",
	}
	if diff := cmp.Diff(want, b.lines()); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
	for n, entry := range b.Log() {
		if entry.ID != n+1 || entry.Service != "freezer" || entry.Injected || entry.Time.Before(before.Add(-time.Second)) ||
			entry.Answered().Before(entry.Time) || entry.Answered().After(time.Now().Add(time.Second)) {
			t.Errorf("unexpected log entry: %+v", entry)
		}
	}
}

// A check reads the log in another process. The times of answers must survive that to the nanosecond.
func TestALogAsJSON(t *testing.T) {
	t.Parallel()
	b := newFreezerBench(t, nil)
	for n := range 50 {
		if _, err := b.freezer.Book(t.Context(), take(fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
	}
	log := b.Log()
	content, err := json.Marshal(log)
	if err != nil {
		t.Fatal(err)
	}
	var read []Entry
	if err := json.Unmarshal(content, &read); err != nil {
		t.Fatal(err)
	}
	for n := range log {
		if !read[n].Answered().Equal(log[n].Answered()) || !read[n].Time.Equal(log[n].Time) {
			t.Fatalf("%+v\nwas read as\n%+v", log[n], read[n])
		}
		if n > 0 && read[n].Time.Before(read[n-1].Answered()) {
			t.Errorf("%s arrived before %s was answered, but the client waited for the answer", read[n], read[n-1])
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for kind, code := range map[Kind]int{
		Conflict: 500, TooManyRequests: 429, ServerError: 500, Unavailable: 503, Forbidden: 403,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := newFreezerBench(t, nil)
			b.arm(t, Fault{Kind: kind, Class: Write, At: 2})
			if _, err := b.freezer.Book(t.Context(), take("one")); err != nil {
				t.Fatal(err)
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
				b.url+"/v1/movements/two", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := lone(t).Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			var problem freezer.Problem
			if err := json.NewDecoder(answer.Body).Decode(&problem); err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode != code || problem.Status != code || problem.Detail != "an injected fault: try again later" ||
				answer.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("got status %d with %+v", answer.StatusCode, problem)
			}
			if got := answer.Header.Get("Retry-After"); (got == "1") != (kind == TooManyRequests) {
				t.Errorf("got Retry-After %q", got)
			}
			if _, err := b.freezer.Book(t.Context(), take("two")); err != nil {
				t.Errorf("Book() error = %v at the third write", err)
			}
			b.demandBooked(t, "one", "two")
			if got := b.Log()[1]; got.Fault != kind || !got.Injected || got.Code != code || got.Number != 2 || !got.Write {
				t.Errorf("unexpected log entry: %+v", got)
			}
		})
	}
}

func TestLostAnswerTakesEffect(t *testing.T) {
	t.Parallel()
	b := newFreezerBench(t, nil)
	b.arm(t, Fault{Kind: LostAnswer, Class: Write, At: 1})
	_, err := b.freezer.Book(t.Context(), take("one"))
	if refused := (*freezer.Error)(nil); err == nil || errors.As(err, &refused) {
		t.Errorf("the client got an answer: %v", err)
	}
	b.demandBooked(t, "one")
	if got := b.Log()[0]; got.Code != http.StatusCreated || got.Fault != LostAnswer ||
		got.Injected || !got.Answered().IsZero() {
		t.Errorf("unexpected log entry: %+v", got)
	}
}

func TestHalfAnswerTakesEffectAndDoesNotEnd(t *testing.T) {
	t.Parallel()
	b := newFreezerBench(t, nil)
	b.arm(t, Fault{Kind: HalfAnswer, Class: Write, At: 1})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := b.freezer.Book(ctx, take("one"))
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("the client does not wait for the rest of the answer: %v", err)
	case <-time.After(200 * time.Millisecond): // in which it would have
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want that of the client that gave up", err)
	}
	b.demandBooked(t, "one")
	if got := b.Log()[0]; got.Fault != HalfAnswer || got.Injected || !got.Answered().IsZero() {
		t.Errorf("unexpected log entry: %+v", got)
	}
}

func TestResetHasNoEffect(t *testing.T) {
	t.Parallel()
	b := newFreezerBench(t, nil)
	b.arm(t, Fault{Kind: Reset, Class: Write, Service: freezer.Service, At: 1})
	if _, err := b.freezer.Book(t.Context(), take("one")); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Book() error = %v, want a reset connection", err)
	}
	b.demandBooked(t)
	if got := b.Log()[0]; got.Fault != Reset || !got.Injected || got.Code != 0 {
		t.Errorf("unexpected log entry: %+v", got)
	}
}

// A request is executed even if its client disconnects. Only Close ends it.
func TestLostAnswerTakesEffectWithoutTheClient(t *testing.T) {
	t.Parallel()
	injector := New(nil)
	t.Cleanup(func() { injector.Close() })
	arrived, ended, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	url, err := injector.Proxy("oven", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(ended)
		<-release
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := injector.Arm(Schedule{Faults: []Fault{{Kind: LostAnswer, Class: Write, At: 1}}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { gone <- send(ctx, lone(t), http.MethodPut, url) }()
	<-arrived
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want that of the client that gave up", err)
	}
	select {
	case <-ended:
		t.Error("the request ended with its client")
	case <-time.After(200 * time.Millisecond): // in which it would have
	}
	closed := make(chan error, 1)
	go func() { closed <- injector.Close() }()
	<-ended
	select {
	case err := <-closed:
		close(release)
		t.Fatalf("Close() returned before the request ended: error = %v", err)
	case <-time.After(200 * time.Millisecond): // in which it would have ended
	}
	close(release)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestSlowAnswerTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	b := newFreezerBench(t, nil)
	b.arm(t, Fault{Kind: Slow, Class: Write, At: 1, For: lasting(200 * time.Millisecond)},
		Fault{Kind: Slow, Class: Write, At: 2, For: lasting(long)})
	began := time.Now()
	if _, err := b.freezer.Book(t.Context(), take("one")); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("the answer took %s, want at least 200ms", took)
	}
	if got := b.Log()[0]; got.Seconds < 0.2 || got.Code != http.StatusCreated {
		t.Errorf("unexpected log entry: %+v", got)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := b.freezer.Book(t.Context(), take("two"))
		answered <- err
	}()
	eventually(t, "the movement is booked", func() bool { return len(b.booked(t)) == 2 })
	select {
	case err := <-answered:
		t.Fatalf("the second request was answered before Disarm: error = %v", err)
	default:
	}
	b.Disarm()
	if err := <-answered; err != nil {
		t.Errorf("Book() error = %v at the end of the schedule", err)
	}

	// A client that gives up gets no answer, but its write is done.
	b.arm(t, Fault{Kind: Slow, Class: Write, At: 1, For: lasting(long)})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := b.freezer.Book(ctx, take("three")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Book() error = %v, want an exceeded deadline", err)
	}
	eventually(t, "the injector notices", func() bool { return b.Log()[2].Seconds > 0 })
	if got := b.Log()[2]; got.Code != 0 || got.Injected || !got.Answered().IsZero() {
		t.Errorf("unexpected log entry: %+v", got)
	}
	b.demandBooked(t, "one", "two", "three")
}

func TestNoAnswerUntilTheClientGivesUp(t *testing.T) {
	t.Parallel()
	b := newFreezerBench(t, nil)
	b.arm(t, Fault{Kind: NoAnswer, Class: Write})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := b.freezer.Book(ctx, take("one")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Book() error = %v, want an exceeded deadline", err)
	}
	eventually(t, "the injector notices", func() bool { return b.Log()[0].Seconds > 0 })
	if got := b.Log()[0]; got.Code != 0 || got.Fault != NoAnswer || !got.Injected || got.Seconds > patience.Seconds() {
		t.Errorf("unexpected log entry: %+v", got)
	}

	// A second request has no timeout. It ends with the schedule.
	ended := make(chan error, 1)
	go func() {
		_, err := b.freezer.Book(t.Context(), take("two"))
		ended <- err
	}()
	eventually(t, "it is there", func() bool { return len(b.Log()) == 2 })
	b.Disarm()
	if err := <-ended; err == nil {
		t.Error("the request was answered")
	}

	// The connection of a third request is cut after the fault's duration.
	b.arm(t, Fault{Kind: NoAnswer, Class: Write, For: lasting(50 * time.Millisecond)})
	if _, err := b.freezer.Book(t.Context(), take("three")); err == nil {
		t.Error("the request was answered")
	}
	b.demandBooked(t)
}

func TestOnlyScheduledRequestsGetFaults(t *testing.T) {
	t.Parallel()
	b := newFreezerBench(t, nil)
	other, err := b.Proxy("oven", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.RequestURI())
	}))
	if err != nil {
		t.Fatal(err)
	}
	client := lone(t)
	ask := func(method, url string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	oven := func(method string) int { t.Helper(); return ask(method, other+"/v1/bake/cake?degrees=180") }
	stock := func() int { t.Helper(); return ask(http.MethodGet, b.url+"/v1/stock") }

	b.arm(t,
		Fault{Kind: ServerError, Class: Read},                                // each other read
		Fault{Kind: Unavailable, Class: Read, At: 2},                         // of all
		Fault{Kind: TooManyRequests, Class: Read, Service: "oven", At: 2},    // which is the third
		Fault{Kind: Unavailable, Class: Write, Service: "freezer", At: 1},    // a request that is not sent
		Fault{Kind: TooManyRequests, Class: Read, Service: "freezer", At: 3}, // comes too late
	)
	got := []int{
		oven(http.MethodGet), stock(), oven(http.MethodGet), oven(http.MethodPost), oven(http.MethodDelete), stock(),
	}
	if want := []int{500, 503, 429, 200, 200, 500}; !slices.Equal(got, want) {
		t.Errorf("got codes %v, want %v", got, want)
	}
	want := []string{
		"get bake cake → 500 Internal Server Error (read 1, server-error)",
		"get stock → 503 Service Unavailable (read 2, unavailable)",
		"get bake cake → 429 Too Many Requests (read 3, too-many-requests)",
		"post bake cake → 200 OK (write 1)",
		"delete bake cake → 200 OK (write 2)",
		"get stock → 500 Internal Server Error (read 4, server-error)",
	}
	if diff := cmp.Diff(want, b.lines()); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}

	// Disarm ends the schedule. The next schedule counts from 1 again.
	b.Disarm()
	if got := stock(); got != http.StatusOK || b.Log()[6].Number != 5 {
		t.Errorf("read after Disarm: got %d, %+v", got, b.Log()[6])
	}
	b.arm(t, Fault{Kind: Unavailable, Class: Read, At: 1})
	if got := stock(); got != http.StatusServiceUnavailable || b.Log()[7].Number != 1 {
		t.Errorf("first read of the new schedule: got %d, %+v", got, b.Log()[7])
	}
	b.arm(t)
	if got := stock(); got != http.StatusOK || b.Log()[8].Number != 1 {
		t.Errorf("first read of a schedule without faults: got %d, %+v", got, b.Log()[8])
	}
}

func TestReservedServiceNamesAreRejected(t *testing.T) {
	t.Parallel()
	injector := New(nil)
	defer injector.Close()
	for _, name := range []string{"", API, Operator} {
		if _, err := injector.Proxy(name, freezer.New()); err == nil ||
			!strings.Contains(err.Error(), "choose another name") {
			t.Errorf("Proxy() with the reserved name %q: error = %v", name, err)
		}
	}
}

func TestTheLogIsBoundedAndInOrder(t *testing.T) {
	t.Parallel()
	injector := New(nil)
	first := injector.record.add(Entry{Verb: "first"})
	for range LogLimit - 1 {
		injector.Note("started")
	}
	if log := injector.Log(); len(log) != LogLimit || log[0].Verb != "first" {
		t.Fatalf("a full log has %d entries and begins with %+v", len(log), log[0])
	}
	for n := range 3*LogLimit + 7 {
		injector.Note("killed")
		if n%5000 != 0 {
			continue
		}
		log := injector.Log()
		if len(log) != LogLimit || log[0].ID != n+2 || log[LogLimit-1].ID != LogLimit+n+1 {
			t.Fatalf("after %d entries the log has %d, from %d to %d", LogLimit+n+1, len(log), log[0].ID, log[len(log)-1].ID)
		}
		if kept := len(injector.record.entries); kept > 2*LogLimit {
			t.Fatalf("%d entries are kept", kept)
		}
	}
	// The request of a dropped entry may still be in progress.
	injector.record.update(first, func(e *Entry) { e.Code = 200 })
	log := injector.Log()
	for n := range log[1:] {
		if log[n+1].Time.Before(log[n].Time) || log[n+1].ID != log[n].ID+1 {
			t.Fatalf("%+v comes before %+v", log[n], log[n+1])
		}
	}
	if want := "the operator was killed"; log[0].Summary() != want || !strings.HasSuffix(log[0].String(), " "+want) {
		t.Errorf("a note reads %q", log[0])
	}
}

// A submission that replaces a service may answer without end. The injector reads no more than problemLimit for the
// detail, and hands on the whole answer.
func TestDetailOfALongRefusalIsOmitted(t *testing.T) {
	t.Parallel()
	long := `{"detail":"` + strings.Repeat("x", 2*problemLimit) + `"}`
	answer := &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{"Content-Type": {problemType}}}
	answer.Body = io.NopCloser(strings.NewReader(long))
	if detail := detailOf(answer); detail != "" {
		t.Errorf("a detail of %d bytes was kept", len(detail))
	}
	if whole, err := io.ReadAll(answer.Body); err != nil || string(whole) != long {
		t.Errorf("%d of %d bytes are handed on (%v)", len(whole), len(long), err)
	}
}
