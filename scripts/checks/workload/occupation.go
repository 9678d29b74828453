// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/audit"
)

const (
	// occupied is the minimum time for which a port stays taken. In this time an operator with the work queue's backoff
	// tries ten times.
	occupied = 3 * time.Second
	// mostTries is how often the same request may be refused within occupied. One more is allowed for each second after
	// that. An operator that retries at once does so hundreds of times.
	mostTries = 15
	// longPause is a pause that shows that an operator backs off. On a busy machine a loop is slow, and its first tries
	// are as few as those of an operator that waits. So the port stays taken until there was such a pause, or too many
	// tries, but no longer than occupiedLimit.
	longPause     = time.Second
	occupiedLimit = 15 * time.Second
	// occupiedPoll is the interval at which the end of the occupation is checked.
	occupiedPoll = 100 * time.Millisecond
	// lookLimit is how long the port stays taken for a look that waits, after the operator has reported that it is taken.
	// After an error, an event recorder writes its Event up to 10 s later (k8s.io/client-go/tools/events, sleepDuration).
	lookLimit = 15 * time.Second
)

// Occupation is an owner whose node port another Service holds for a while, with the record of the operator's requests
// in that time. It takes some seconds, in which other checks run. The port is released when the operator has reported
// the conflict, three seconds have passed, and the operator's attempts show how it retries.
type Occupation struct {
	// Owner is the created object, and Port its node port.
	Owner *unstructured.Unstructured
	Port  int32
	// Squatter is the name of the Service that holds the port.
	Squatter types.NamespacedName
	// Since is a mark that was set before the owner was created.
	Since audit.Mark

	// These fields are set after the end of the occupation. Tries are the writes that were refused, Took is the duration,
	// and Freed is a mark that was set before the port was released.
	Tries []audit.Event
	Took  time.Duration
	Freed audit.Mark

	owners     *Owners
	suite      *check.Suite
	reported   []Wanted
	look       Look
	began      time.Time
	seen, done chan struct{}
	err        error
	cancel     context.CancelFunc
}

// Look examines what else the operator reports while the port is taken, and returns whether all of it has arrived. The
// operator may write it later than the conditions. Look must not call methods that end a check.
type Look func(context.Context, *Occupation) (all bool, err error)

// Occupy creates an owner whose node port is taken. reported are the conditions with which its operator reports that.
// look may be nil. The port is released after a look that has seen everything, or lookLimit after the operator has
// reported.
func (o *Owners) Occupy(
	ctx context.Context, suite *check.Suite, owner *unstructured.Unstructured, port int32, reported []Wanted, look Look,
) (*Occupation, error) {
	x := &Occupation{
		Port: port, Squatter: types.NamespacedName{Namespace: owner.GetNamespace(), Name: "squatter-" + owner.GetName()},
		owners: o, suite: suite, reported: reported, look: look, seen: make(chan struct{}), done: make(chan struct{}),
	}
	squatter := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:      x.Squatter.Name,
			Namespace: x.Squatter.Namespace,
			Labels:    map[string]string{existing.Label: "true"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "squatter"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80), NodePort: port}},
		},
	}
	if _, err := o.Client.CoreV1().Services(squatter.Namespace).Create(ctx, squatter, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("taking a node port: %w", err)
	}
	x.Since = suite.Audit.Now()
	var err error
	if x.Owner, err = o.Create(ctx, owner); err != nil {
		return nil, err
	}
	x.began = time.Now()
	ctx, x.cancel = context.WithCancel(ctx)
	go func() {
		defer close(x.done)
		x.err = x.last(ctx)
	}()
	return x, nil
}

// last waits until the occupation is over, and releases the port.
func (x *Occupation) last(ctx context.Context) error {
	for seen := (time.Time{}); ; {
		changed := x.owners.Changed()
		if seen.IsZero() && x.unlike() == "" {
			seen = time.Now()
			close(x.seen)
		}
		left := time.Until(x.began.Add(occupied))
		if !seen.IsZero() && left <= 0 && x.decided() {
			all, err := x.looked(ctx)
			if err != nil {
				return err
			}
			if all || time.Since(seen) >= lookLimit {
				break
			}
		}
		select {
		case <-changed:
		case <-time.After(max(left, occupiedPoll)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	x.Freed = x.suite.Audit.Now()
	err := x.owners.Client.CoreV1().Services(x.Squatter.Namespace).Delete(ctx, x.Squatter.Name, metav1.DeleteOptions{})
	if IgnoreGone(err) != nil {
		return fmt.Errorf("giving the node port back: %w", err)
	}
	return nil
}

// looked examines what else the operator reports, and returns whether all of it has arrived.
func (x *Occupation) looked(ctx context.Context) (all bool, err error) {
	if x.look == nil {
		return true, nil
	}
	return x.look(ctx, x)
}

// decided reports whether the tries so far show how the operator retries.
func (x *Occupation) decided() bool {
	name := x.Owner.GetName()
	x.Tries = x.suite.Audit.Since(x.Since, x.suite.ByOperator().And(audit.On("", "services"), audit.Writes,
		func(e audit.Event) bool {
			mine := e.Name == "" || e.Name == name || strings.HasPrefix(e.Name, name+"-")
			return mine && e.Namespace == x.Owner.GetNamespace() && e.Code == http.StatusUnprocessableEntity
		}))
	now := time.Now()
	x.Took = now.Sub(x.began)
	return x.Took > occupiedLimit || show(x.Tries, x.Took, now)
}

// show reports whether tries show how an operator retries: there are too many of them, or there was a long pause. The
// pause after the last try must be twice as long, because the audit log contains a try only after its answer.
func show(tries []audit.Event, took time.Duration, now time.Time) bool {
	if len(tries) == 0 || len(tries) > mostTriesIn(took) {
		return true
	}
	var pauses []time.Duration
	for i := 1; i < len(tries); i++ {
		pauses = append(pauses, tries[i].Time.Sub(tries[i-1].Time))
	}
	long := longPause
	if len(pauses) > 0 {
		slices.Sort(pauses)
		long = max(long, 3*pauses[len(pauses)/4]) // three times as long as the short pauses, which are those of a slow loop
		if pauses[len(pauses)-1] >= long {
			return true
		}
	}
	return now.Sub(tries[len(tries)-1].Time) >= 2*long
}

// mostTriesIn returns how often an operator that backs off is refused at most.
func mostTriesIn(took time.Duration) int { return mostTries + int(max(0, took-occupied)/time.Second) }

func (x *Occupation) unlike() string {
	return x.owners.Unlike(nameOf(x.Owner), x.Owner.GetGeneration(), x.reported)
}

// Expected describes the conditions that Reported looks for.
func (x *Occupation) Expected() string {
	var phrases []string
	for _, w := range x.reported {
		phrases = append(phrases, w.String())
	}
	return fmt.Sprintf("node port %d is another Service's: of %s %s",
		x.Port, x.Owner.GetName(), strings.Join(phrases, ", and "))
}

// Reported is a look at whether the operator reports that the port is taken, or has reported it before the port was
// released.
func (x *Occupation) Reported() (observed string, ok bool) {
	select {
	case <-x.seen:
		return "", true
	default:
		unlike := x.unlike()
		return unlike, unlike == ""
	}
}

// Wait waits until the port is released. If the operator does not report the conflict, the port is never released.
func (x *Occupation) Wait(ctx context.Context) error {
	select {
	case <-x.done:
		return x.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Loop describes that the operator retried without backoff, in the words of a failed check. If it did not, observed is
// empty.
func (x *Occupation) Loop() (expected, observed string) {
	most := mostTriesIn(x.Took)
	expected = fmt.Sprintf("while port %d is taken the operator tries again later and later: "+
		"at most %d times in %s", x.Port, most, x.Took.Round(time.Second))
	if len(x.Tries) > most {
		observed = fmt.Sprintf("it tried %d times: a loop", len(x.Tries))
	}
	return expected, observed
}

// End ends a running occupation, and leaves the port taken.
func (x *Occupation) End() { x.cancel() }
