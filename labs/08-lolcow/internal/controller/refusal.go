// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	lolcowv1alpha1 "lva.io/operators/labs/08-lolcow/api/v1alpha1"
)

// refusal is an answer that will be the same until an object changes: a port that is taken, a quota that is
// exceeded. It belongs into the status, for people, and is tried again later and later; other errors belong into the
// work queue as well, which tries again soon.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.reason + ": " + r.message }

// notRefused is the error, unless it is a refusal.
func notRefused(err error) error {
	if _, ok := errors.AsType[*refusal](err); ok {
		return nil
	}
	return err
}

// isStale reports whether a write failed because the cache is behind the API server. The next call will see the current
// state. IsConflict would also match a webhook that refuses with the code 409 and no reason, perhaps for ever.
func isStale(err error) bool {
	reason := apierrors.ReasonForError(err)
	return reason == metav1.StatusReasonConflict || reason == metav1.StatusReasonAlreadyExists
}

// isReason matches what can be the reason of a condition. The reason of an error is a whole sentence if a webhook says
// so.
var isReason = regexp.MustCompile(`^[A-Za-z]\w{0,99}$`)

// failure returns reason and message for an error that is no refusal, or nil if there is none. The reason is the API
// server's, if it gave one.
func failure(err error) *refusal {
	// TODO(lab): 6. users read the status and not the log: which error is it (apierrors.ReasonForError), and what does
	// it say?
	return nil
}

// reasonNotOurs is the only refusal that is not the API server's. Finding out whether it is over costs no request.
const reasonNotOurs = "NotOurs"

// notOurs refuses to touch a child that has another controller, or none.
func notOurs(kind, name string) *refusal {
	return &refusal{
		reasonNotOurs,
		fmt.Sprintf("There is a %s %s that does not belong to this Lolcow: delete or rename one of them", kind, name),
	}
}

// refusalOf makes a refusal of the API server's answer, or nil if it is none.
func refusalOf(lolcow *lolcowv1alpha1.Lolcow, kind string, err error) *refusal {
	// TODO(lab): 6. which answers are refusals? `kubectl apply` a second Lolcow with the port of the first, and read
	// yours.
	return nil
}

// aboutNodePort reports whether the API server has refused a node port: one that is taken, or out of its range.
func aboutNodePort(err error) bool {
	// TODO(lab): 6. the answer's details name the field (apierrors.StatusCause).
	return false
}

// How long to wait before a refused write is retried. The first wait is short, since the port of a deleted Service is
// released a moment later. Each wait is twice as long as the one before. A call in between, for a Pod that has changed,
// takes the Lolcow off the work queue together with its timer, and starts the timer again. So a retry is late by a wait
// at most: ten seconds after the one before it.
const (
	firstWait   = 200 * time.Millisecond
	longestWait = 5 * time.Second
)

// NewBackOff counts those waits. It counts in memory: after a restart of the operator all is tried once more, which
// does no harm.
func NewBackOff() *flowcontrol.Backoff { return flowcontrol.NewBackOff(firstWait, longestWait) }

// reported returns the refusal of a child from the status while it is too early to try again, and otherwise nil.
// Reconcile is called whenever a Pod of the Lolcow changes, and each of these calls would ask for the port once more.
// If both children are refused, the status has the refusal of the first one.
func (r *LolcowReconciler) reported(lolcow *lolcowv1alpha1.Lolcow, kind string) *refusal {
	is := meta.FindStatusCondition(lolcow.Status.Conditions, lolcowv1alpha1.Degraded)
	if is == nil || is.Status != metav1.ConditionTrue || is.Reason == reasonNotOurs ||
		is.ObservedGeneration != lolcow.Generation ||
		!r.BackOff.IsInBackOffSinceUpdate(attempt(lolcow, kind), time.Now()) {
		return nil
	}
	return &refusal{is.Reason, is.Message}
}

// tryAgainAfter is how long to wait before a child that was refused is tried again; 0: it was not.
func (r *LolcowReconciler) tryAgainAfter(lolcow *lolcowv1alpha1.Lolcow, kind string, err error) time.Duration {
	id, now := attempt(lolcow, kind), time.Now()
	if _, refused := errors.AsType[*refusal](err); !refused {
		r.BackOff.DeleteEntry(id)
		return 0
	}
	if !r.BackOff.IsInBackOffSinceUpdate(id, now) {
		r.BackOff.GC() // of Lolcows that are gone, and of specs that are not asked for any more
		r.BackOff.Next(id, now)
	}
	return r.BackOff.Get(id)
}

// attempt identifies a write: a child of one generation of one Lolcow. A new spec is applied at once.
func attempt(lolcow *lolcowv1alpha1.Lolcow, kind string) string {
	return fmt.Sprintf("%s/%s/%d", kind, lolcow.UID, lolcow.Generation)
}
