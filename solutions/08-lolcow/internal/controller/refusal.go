// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lolcowv1alpha1 "lva.io/operators/solutions/08-lolcow/api/v1alpha1"
)

// refusal is an answer that will be the same until somebody changes something: a port that is taken, a quota that is exceeded. It
// belongs into the status, for people; other errors belong into the work queue, which tries again soon.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.reason + ": " + r.message }

// notRefused is the error, unless it is a refusal.
func notRefused(err error) error {
	if _, ok := errors.AsType[*refusal](err); ok {
		return nil
	}
	return err
}

// reasonNotOurs is the one refusal that is not the API server's: to find out whether it stands costs no request.
const reasonNotOurs = "NotOurs"

// notOurs refuses to touch a child that has another controller, or none.
func notOurs(kind, name string) *refusal {
	return &refusal{reasonNotOurs, fmt.Sprintf("There is a %s %s that does not belong to this Lolcow: delete or rename one of them", kind, name)}
}

// refusalOf makes a refusal of the API server's answer, or nil if it is none.
func refusalOf(lolcow *lolcowv1alpha1.Lolcow, kind string, err error) *refusal {
	//lab:begin refusal-of
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // The Lolcow is about to go as well.
	case apierrors.IsInvalid(err) && aboutNodePort(err):
		return &refusal{"PortUnavailable", fmt.Sprintf("Port %d is refused: %v", lolcow.Spec.Port, err)}
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		return &refusal{"Refused", fmt.Sprintf("The %s is refused: %v", kind, err)}
	}
	return nil
	//lab:else
	// // TODO(lab): 6. which answers are refusals? `kubectl apply` a second Lolcow with the port of the first, and read yours.
	// return nil
	//lab:end
}

// aboutNodePort reports whether the API server has refused a node port: one that is taken, or out of its range.
func aboutNodePort(err error) bool {
	//lab:begin about-node-port
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return ok && strings.HasSuffix(cause.Field, ".nodePort")
	//lab:else
	// // TODO(lab): 6. the answer's details name the field (apierrors.StatusCause).
	// return false
	//lab:end
}

// How long to wait before what was refused is tried again: at first shortly, since a Service that was deleted gives its port back a moment
// later; then twice as long each time.
const (
	firstWait   = 200 * time.Millisecond
	longestWait = 10 * time.Second
)

// refusals remembers what was refused, and until when not to try it again. A Lolcow is looked at whenever one of its Pods changes; its
// port is not worth a request each time. After a restart of the operator all is tried once more, which does no harm.
type refusals struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]map[string]standing
}

// standing is a refusal that stands until a time, for one generation of one Lolcow: another spec is tried at once.
type standing struct {
	refusal    *refusal
	uid        types.UID
	generation int64
	wait       time.Duration
	until      time.Time
}

// standing is the refusal of a child that still stands; nil: it may be tried.
func (r *refusals) standing(lolcow *lolcowv1alpha1.Lolcow, kind string, now time.Time) *refusal {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	s, ok := r.of[client.ObjectKeyFromObject(lolcow)][kind]
	if !ok || s.refusal.reason == reasonNotOurs || s.uid != lolcow.UID || s.generation != lolcow.Generation || !now.Before(s.until) {
		return nil
	}
	return s.refusal
}

// note remembers what came of a child: a refusal, or nothing that stands in its way any more.
func (r *refusals) note(lolcow *lolcowv1alpha1.Lolcow, kind string, err error, now time.Time) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	key := client.ObjectKeyFromObject(lolcow)
	before, ok := r.of[key][kind]
	refusal, refused := errors.AsType[*refusal](err)
	switch {
	case !refused:
		delete(r.of[key], kind)
		return
	case ok && before.refusal == refusal:
		return // It was not tried again.
	}
	wait := firstWait
	if ok && before.uid == lolcow.UID && before.generation == lolcow.Generation {
		wait = min(2*before.wait, longestWait)
	}
	if r.of == nil {
		r.of = map[types.NamespacedName]map[string]standing{}
	}
	if r.of[key] == nil {
		r.of[key] = map[string]standing{}
	}
	r.of[key][kind] = standing{refusal: refusal, uid: lolcow.UID, generation: lolcow.Generation, wait: wait, until: now.Add(wait)}
}

// forget forgets all of a Lolcow that is gone.
func (r *refusals) forget(lolcow types.NamespacedName) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.of, lolcow)
}

// next is when to try again what was refused of a Lolcow, from now; 0: nothing was.
func (r *refusals) next(lolcow types.NamespacedName, now time.Time) (after time.Duration) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, s := range r.of[lolcow] {
		if left := max(s.until.Sub(now), time.Millisecond); after == 0 || left < after {
			after = left
		}
	}
	return after
}
