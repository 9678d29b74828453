// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	lolcowv1alpha1 "lva.io/operators/solutions/08-lolcow/api/v1alpha1"
)

// The other tests call Reconcile. In this one the manager calls it: when a child has been deleted, and when a Pod has a
// problem.
func TestTheManagerCallsReconcile(t *testing.T) {
	//lab:begin skip-manager-test
	//lab:else
	// t.Skip("TODO(lab): 4. remove this line when you begin to watch the children, and at 5. Pods; then: make test")
	//lab:end
	h := newHerd(t)
	ctx := h.startManager()
	eventually := func(what string, is func() bool) {
		t.Helper()
		condition := func(context.Context) (bool, error) { return is(), nil }
		if err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 5*time.Second, true, condition); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	there := func(child client.Object, but types.UID) func() bool {
		return func() bool {
			err := h.api.Get(ctx, h.key("nora"), child)
			h.ok(client.IgnoreNotFound(err))
			return err == nil && child.GetUID() != but
		}
	}
	h.create("nora", 30171, "Moo")
	// Twice: at the first time, a call of Reconcile for an earlier change may hide that the deletion led to none.
	for range 2 {
		for _, child := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
			eventually(fmt.Sprintf("there is a %T", child), there(child, ""))
			h.delete(child)
			eventually(fmt.Sprintf("a %T that was deleted is made again", child), there(child, child.GetUID()))
		}
	}

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "nora-1", Namespace: h.namespace, Labels: selectorLabels("nora")},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: containerName, Image: DefaultImage}}},
	}
	h.add(pod)
	for range 2 {
		for _, wrong := range []bool{true, false} {
			status := corev1.ContainerStatus{Name: containerName, Image: DefaultImage, Ready: true}
			if wrong {
				status.Ready, status.State = false, waiting("ErrImagePull")
			}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
			h.updateStatus(pod)
			eventually(fmt.Sprintf("Degraded becomes %t", wrong), func() bool {
				return meta.IsStatusConditionTrue(h.lolcow("nora").Status.Conditions, lolcowv1alpha1.Degraded) == wrong
			})
		}
	}
}

// The operator hears of its own status: the cache may be behind when an error is over, and then nothing is written. But
// of other words of an error it does not hear: each error that has some would call for the next one.
func TestWhatChangesOfALolcowCallReconcile(t *testing.T) {
	before := &lolcowv1alpha1.Lolcow{ObjectMeta: metav1.ObjectMeta{Name: "rosa", ResourceVersion: "7", Generation: 1}}
	meta.SetStatusCondition(&before.Status.Conditions, metav1.Condition{
		Type: lolcowv1alpha1.Degraded, Status: metav1.ConditionTrue, Reason: "InternalError", Message: "port 1",
	})
	meta.SetStatusCondition(&before.Status.Conditions, metav1.Condition{
		Type: lolcowv1alpha1.Available, Status: metav1.ConditionTrue, Reason: "Served", Message: "The page is served",
	})
	for _, test := range []struct {
		change string
		to     func(*lolcowv1alpha1.Lolcow)
		calls  bool
	}{
		{"the message of an error", func(cow *lolcowv1alpha1.Lolcow) { cow.Status.Conditions[0].Message = "port 2" }, false},
		{"another message", func(cow *lolcowv1alpha1.Lolcow) { cow.Status.Conditions[1].Message = "Edited" }, true},
		{"the status of a condition", func(cow *lolcowv1alpha1.Lolcow) { cow.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
		{"the reason of a condition", func(cow *lolcowv1alpha1.Lolcow) { cow.Status.Conditions[0].Reason = "Timeout" }, true},
		{"all conditions are removed", func(cow *lolcowv1alpha1.Lolcow) { cow.Status.Conditions = nil }, true},
		{"the spec", func(cow *lolcowv1alpha1.Lolcow) { cow.Generation, cow.Spec.Port = 2, 30192 }, true},
		{"a label", func(cow *lolcowv1alpha1.Lolcow) { cow.Labels = map[string]string{"herd": "south"} }, true},
	} {
		now := before.DeepCopy()
		now.ResourceVersion = "8"
		test.to(now)
		if calls := notOnlyWords.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: now}); calls != test.calls {
			t.Errorf("%s: that it calls Reconcile is %t", test.change, calls)
		}
	}
}

// An operator that hears of each error that it reports would try again at once, if the error has other words each time.
func TestAnErrorIsTriedAgainLaterAndLater(t *testing.T) {
	//lab:begin skip-later-test
	//lab:else
	// t.Skip("TODO(lab): 6. remove this line when you begin with refusals; then: make test")
	//lab:end
	h := newHerd(t)
	h.refuseServices("'not for ' + string(object.metadata.uid)") // each try is about another Service
	watch, err := h.api.Watch(t.Context(), &lolcowv1alpha1.LolcowList{}, client.InNamespace(h.namespace))
	h.ok(err)
	defer watch.Stop()
	h.startManager()
	h.create("quirina", 30191, "Moo")
	// The work queue waits for 5 ms, and twice as long each time: 2.5 s in all, or less if events of the Deployment
	// call in between.
	const errorsReported, atLeast = 10, 500 * time.Millisecond
	var first time.Time
	said := map[string]bool{}
	for len(said) < errorsReported {
		select {
		case event := <-watch.ResultChan():
			cow, ok := event.Object.(*lolcowv1alpha1.Lolcow)
			if !ok {
				t.Fatalf("the watch ends with %+v", event)
			}
			if is := meta.FindStatusCondition(cow.Status.Conditions, lolcowv1alpha1.Degraded); is != nil && !said[is.Message] {
				said[is.Message] = true
				if first.IsZero() {
					first = time.Now()
				}
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("of the errors it reported %d, and then nothing: %v", len(said), said)
		}
	}
	if took := time.Since(first); took < atLeast {
		t.Errorf("it tried %d times within %s", errorsReported, took)
	}
}

// After an outage an object must not wait for as long as the outage took.
func TestRetriesHaveALongestPause(t *testing.T) {
	pauses := options().RateLimiter
	var last time.Duration
	for range 30 {
		pause := pauses.When(ctrl.Request{})
		if pause < last || pause > lastRetry {
			t.Fatalf("after %s the next pause is %s", last, pause)
		}
		last = pause
	}
	if last != lastRetry {
		t.Errorf("the longest pause is %s, want %s", last, lastRetry)
	}
}
