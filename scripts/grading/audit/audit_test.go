// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/grading/limited"
)

const student = "system:serviceaccount:operator-system:controller-manager"

// growing is an audit log to which a test writes.
type growing struct {
	t    *testing.T
	file *os.File
}

func newLog(t *testing.T) (*growing, *Log) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	log, err := Open(t.Context(), file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return &growing{t, file}, log
}

func (g *growing) write(text string) {
	g.t.Helper()
	if _, err := g.file.WriteString(text); err != nil {
		g.t.Fatal(err)
	}
}

// line returns a request as the API server logs it.
func line(at time.Time, user, verb, name string) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete",`+
		`"requestURI":"/apis/demo.lva.io/v1/icecreams/%s","verb":%q,"user":{"username":%q},`+
		`"objectRef":{"resource":"icecreams","name":%q,"apiGroup":"demo.lva.io","apiVersion":"v1"},`+
		`"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":%q}`+"\n",
		name, verb, user, name, at.UTC().Format("2006-01-02T15:04:05.000000Z"))
}

func names(events []Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, e.Name)
	}
	return all
}

func everything(Event) bool { return true }

// An endless log must not fill the memory, and a reader that waits for it to grow must learn of the limit.
func TestLogSizeIsLimited(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	one := line(time.Now(), student, "get", "cone")
	log, err := open(t.Context(), file.Name(), int64(2*len(one)))
	if err != nil {
		t.Fatal(err)
	}
	g := &growing{t, file}
	g.write(one + one)
	if got := log.Now(); got != 2 || log.Err() != nil {
		t.Fatalf("up to the limit, got %d events, %v", got, log.Err())
	}
	changed := log.Changed()
	g.write(one)
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Fatal("no change was reported for a log that is too long")
	}
	if _, long := errors.AsType[*limited.LongError](log.Err()); !long || log.Now() != 2 {
		t.Errorf("Err() = %v, with %d events", log.Err(), log.Now())
	}
}

// A few large requests may fill a log, too. What was logged up to the limit shows whose they are.
func TestFullLogShowsWhoFilledIt(t *testing.T) {
	t.Parallel()
	request := func(user string, size int) string { return line(time.Now(), user, "update", strings.Repeat("x", size)) }
	for _, test := range []struct {
		name, content string
		want          bool
	}{
		{"the student", request(student, 5000) + strings.Repeat(request("other", 1), 3), true},
		{"another user", request("other", 5000) + strings.Repeat(request(student, 1), 3), false},
	} {
		path := filepath.Join(t.TempDir(), "audit.log")
		if err := os.WriteFile(path, []byte(test.content+request(student, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		log, err := open(t.Context(), path, int64(len(test.content)))
		if err != nil {
			t.Fatal(err)
		}
		log.Now()
		if _, long := errors.AsType[*limited.LongError](log.Err()); !long {
			t.Errorf("%s: Err() = %v", test.name, log.Err())
		}
		if got := log.MostlyBy("nobody", student); got != test.want {
			t.Errorf("%s: MostlyBy() = %t", test.name, got)
		}
	}
}

func TestPartialLineIsBuffered(t *testing.T) {
	t.Parallel()
	file, log := newLog(t)
	whole := line(time.Now(), student, "get", "sundae")
	file.write(line(time.Now(), student, "get", "cone") + whole[:40])
	if got := names(log.Since(0, everything)); !slices.Equal(got, []string{"cone"}) {
		t.Fatalf("with half a line written, got %v", got)
	}
	file.write(whole[40:90])
	if got := log.Now(); got != 1 {
		t.Fatalf("with more of the line written, got %d events", got)
	}
	file.write(whole[90:] + line(time.Now(), student, "get", "cup"))
	if got := names(log.Since(0, everything)); !slices.Equal(got, []string{"cone", "sundae", "cup"}) {
		t.Fatalf("with the line complete, got %v", got)
	}
	if log.Err() != nil {
		t.Fatal(log.Err())
	}
}

func TestSinceBeginsAtTheMark(t *testing.T) {
	t.Parallel()
	file, log := newLog(t)
	file.write(line(time.Now(), student, "get", "before"))
	mark := log.Now()
	if got := log.Since(mark, everything); len(got) != 0 {
		t.Fatalf("Since() = %v, want no events after the mark", got)
	}
	file.write(line(time.Now(), student, "get", "after") + line(time.Now(), "other", "get", "not-ours"))
	if got := names(log.Since(mark, log.By(student))); !slices.Equal(got, []string{"after"}) {
		t.Fatalf("since the mark, the student requested %v", got)
	}
	if got := names(log.Since(mark+100, everything)); len(got) != 0 {
		t.Fatalf("after the end, got %v", got)
	}
}

func TestLastReturnsNewestMatch(t *testing.T) {
	t.Parallel()
	file, log := newLog(t)
	if got := log.Last(everything); !got.IsZero() {
		t.Fatalf("Last() of an empty log = %s", got)
	}
	first := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	file.write(line(first, student, "update", "a") + line(first.Add(time.Second), student, "watch", "b"))
	if got := log.Last(log.By(student).And(Writes)); !got.Equal(first) {
		t.Fatalf("the last write was at %s, but Last() = %s", first, got)
	}
	if got := log.Last(Watching); !got.Equal(first.Add(time.Second)) {
		t.Fatalf("Last() = %s for the watch", got)
	}
}

func TestChangedIsClosedWhenTheLogGrows(t *testing.T) {
	t.Parallel()
	file, log := newLog(t)
	changed := log.Changed()
	select {
	case <-changed:
		t.Fatal("a change was reported although nothing was written")
	default:
	}
	file.write(line(time.Now(), student, "get", "sundae"))
	wait(t, changed)
}

// wait waits for a change, which must be reported at the next read.
func wait(t *testing.T, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Fatal("no change was reported within ten seconds of a write")
	}
}

func TestMalformedLineIsError(t *testing.T) {
	t.Parallel()
	file, log := newLog(t)
	changed := log.Changed()
	file.write(line(time.Now(), student, "get", "fine") + "{\"kind\":\n")
	wait(t, changed) // a reader that waits for the log to grow must learn of it
	log.Now()
	if err := log.Err(); err == nil || !strings.Contains(err.Error(), "not an audit event") {
		t.Fatalf("Err() = %v, want an error about the broken line", err)
	}
	if err := log.Quiet(t.Context(), time.Millisecond, everything); err == nil {
		t.Fatal("a log that can't be read counts as quiet")
	}
	if got := names(log.Since(0, everything)); !slices.Equal(got, []string{"fine"}) {
		t.Fatalf("before the broken line, got %v", got)
	}
}

func TestOpenMissingLog(t *testing.T) {
	t.Parallel()
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "audit.log")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("Open() error = %v, want ErrNotExist", err)
	}
}

func TestQuietWaitsForAWholeWindow(t *testing.T) {
	t.Parallel()
	const window = 200 * time.Millisecond
	file, log := newLog(t)
	// A request of another user does not matter. A request of the operator in the middle of the window begins a new one.
	began := time.Now()
	asked := began.Add(window / 2)
	file.write(line(began.Add(window), "other", "update", "a") + line(asked, student, "update", "a"))
	if err := log.Quiet(t.Context(), window, log.By(student)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(asked); took < window {
		t.Fatalf("Quiet() returned after %s, but the window is %s", took, window)
	}
}

// An account that a user creates, or requests a token for, counts as that user.
func TestByIncludesAccountsOfUser(t *testing.T) {
	t.Parallel()
	file, log := newLog(t)
	created := func(user, account, subresource string, code int) string {
		return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"1","stage":"ResponseComplete",`+
			`"verb":"create","user":{"username":%q},`+
			`"objectRef":{"resource":"serviceaccounts","namespace":"shop","name":%q,"subresource":%q,"apiVersion":"v1"},`+
			`"responseStatus":{"code":%d}}`+"\n",
			user, account, subresource, code)
	}
	const helper, second, refused, others = "system:serviceaccount:shop:helper", "system:serviceaccount:shop:second",
		"system:serviceaccount:shop:refused", "system:serviceaccount:shop:others"
	file.write(created(student, "helper", "", 201) + created(helper, "second", "token", 201) +
		created(student, "refused", "token", 403) +
		created("other", "others", "", 201) + created(second, "second", "token", 201))
	for _, user := range []string{student, helper, second, refused, others, "other"} {
		file.write(line(time.Now(), user, "get", user))
	}
	got := names(log.Since(0, log.By(student).And(On("demo.lva.io", "icecreams"))))
	if want := []string{student, helper, second}; !slices.Equal(got, want) {
		t.Errorf("accounts of the student are %q, want %q", got, want)
	}
	file.write(created(helper, "second", "token", 201) + line(time.Now(), student, "get", "last"))
	log.Since(0, func(Event) bool { return true })
	if got := log.accounts.creators[second]; len(got) > 2 {
		t.Errorf("after another token for the same account, its creators are %q", got)
	}
}

func TestQuietEndsWithTheContext(t *testing.T) {
	t.Parallel()
	_, log := newLog(t)
	cause := errors.New("the check is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := log.Quiet(ctx, time.Hour, everything); !errors.Is(err, cause) {
		t.Fatalf("the context ended because %v, but Quiet() error = %v", cause, err)
	}
}
