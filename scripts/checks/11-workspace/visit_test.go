// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/e2e-framework/pkg/features"
	e2etypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/services/cloud"
)

// visit is a check in the region. Its methods are the vocabulary of this lab's checks.
type visit struct {
	*check.Check
	*region
	ctx context.Context
	t   *testing.T
	// began is when the check began. Its evidence is what happened after that.
	began time.Time
}

// assess makes a step of a feature.
func assess(step func(visit)) func(context.Context, *testing.T, *check.Check) {
	return func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		step(visit{Check: c, region: regionOf(ctx), ctx: ctx, t: t, began: time.Now()})
	}
}

// feature returns a feature with one step, after which all faults end and the operator runs.
func feature(name, step string, visits func(visit)) e2etypes.Feature {
	return features.New(name).Assess(step, check.Assess(assess(visits))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			return errors.Join(c.Faults.Disarm(ctx), c.Operator.Start(ctx))
		})).Feature()
}

// until waits until the state is as expected. It fails when the operator has been silent for as long as patience, or
// does not stop.
func (v visit) until(expected string, patience time.Duration, look check.Look) {
	v.t.Helper()
	v.Poll(v.ctx, pollInterval, v.NewWait(patience, max(usualDeadline, 2*patience)), v.nextChange, look,
		func(observed string) {
			v.t.Helper()
			v.fail(expected, observed)
		})
}

// log returns all requests of the operator since the check began.
func (v visit) log() []faults.Entry {
	v.t.Helper()
	log, err := v.Faults.Log(v.ctx)
	v.OK(v.t, "reading the log of requests", err)
	return slices.DeleteFunc(log, func(e faults.Entry) bool { return e.Time.Before(v.began) })
}

// fail ends the check. Its evidence is the operator's writes, and its requests to the cloud.
func (v visit) fail(expected, observed string) {
	v.t.Helper()
	log, err := v.Faults.Log(v.ctx)
	if err != nil {
		v.Fail(v.t, expected, observed, err.Error())
	}
	log = slices.DeleteFunc(log, func(e faults.Entry) bool {
		return e.Time.Before(v.began) || e.Service == faults.API && !e.Write && e.Resource != workspaces.Resource ||
			e.Resource == "leases" || e.Resource == "events"
	})
	if len(log) == 0 {
		v.Fail(v.t, expected, observed, "the operator has written nothing and has not asked the cloud since this check began")
	}
	v.Fail(v.t, expected, observed, v.Evidence(v.Lines(log), expected, observed)...)
}

// create creates a CloudInstance with this spec.
func (v visit) create(name string, spec map[string]any) order {
	v.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(kind)
	object.SetName(name)
	v.lag.Sent(name)
	v.created = append(v.created, name)
	created, err := v.objects.Create(v.ctx, object, metav1.CreateOptions{})
	v.OK(v.t, "creating the CloudInstance "+name, err)
	image, _ := spec["image"].(string)
	o := order{name: name, image: image, uid: string(created.GetUID())}
	v.seen(o)
	return o
}

// seen waits until our watch has reported an object. From then on, an object that find does not return is gone.
func (v visit) seen(o order) {
	v.t.Helper()
	ctx, cancel := context.WithTimeoutCause(v.ctx, syncTimeout, errors.New("the watch does not tell of it"))
	defer cancel()
	for {
		changed := v.nextChange()
		if _, exists := v.find(o); exists {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			v.OK(v.t, "watching the CloudInstance "+o.name, context.Cause(ctx))
		}
	}
}

// wanted returns the spec of an instance to launch: small, with an image that no other object has.
func (v visit) wanted(name string) map[string]any {
	return map[string]any{"type": "small", "image": fmt.Sprintf("%s-%d", name, time.Now().UnixNano())}
}

// createWanted creates a CloudInstance for which an instance is launched.
func (v visit) createWanted(name string) order {
	v.t.Helper()
	return v.create(name, v.wanted(name))
}

// runs creates a CloudInstance, and waits until its instance runs and the status shows that.
func (v visit) runs(name string) order {
	v.t.Helper()
	o := v.createWanted(name)
	v.hasOne(fmt.Sprintf("%s gets one instance", name), patience, o, 1)
	v.ready(fmt.Sprintf("the instance of %s runs", name), patience, o, metav1.ConditionTrue)
	return o
}

// change changes a CloudInstance, and waits until our watch has reported the change, so that find returns no older
// state.
func (v visit) change(o order, patch string, subresources ...string) {
	v.t.Helper()
	changed, err := v.objects.Patch(v.ctx, o.name,
		types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	v.OK(v.t, "changing the CloudInstance "+o.name, err)
	ctx, cancel := context.WithTimeoutCause(v.ctx, syncTimeout, errors.New("the watch does not tell of it"))
	defer cancel()
	for {
		soon := v.nextChange()
		now, exists := v.find(o)
		if !exists {
			return
		}
		order, err := resourceversion.CompareResourceVersion(now.GetResourceVersion(), changed.GetResourceVersion())
		v.OK(v.t, "comparing resource versions", err)
		if order >= 0 {
			return
		}
		select {
		case <-soon:
		case <-ctx.Done():
			v.OK(v.t, "watching the CloudInstance "+o.name, context.Cause(ctx))
		}
	}
}

func (v visit) delete(o order) {
	v.t.Helper()
	v.OK(v.t, "deleting the CloudInstance "+o.name, v.objects.Delete(v.ctx, o.name, metav1.DeleteOptions{}))
}

// instances returns all instances that were ever launched for an object, regardless of their tags.
func (v visit) instances(o order) (all []cloud.Instance) {
	v.t.Helper()
	everything, err := v.cloud.List(v.ctx, "", "")
	v.OK(v.t, "listing the instances", err)
	for _, i := range everything {
		if i.Image == o.image {
			all = append(all, i)
		}
	}
	return all
}

// running returns the instances that cost money.
func (v visit) running(o order) []cloud.Instance {
	v.t.Helper()
	return slices.DeleteFunc(v.instances(o), func(i cloud.Instance) bool { return i.State == cloud.Terminated })
}

// launchedInstances lists the instances that were launched for an object, as the observation of a check.
func (v visit) launchedInstances(o order) string {
	v.t.Helper()
	all := v.instances(o)
	switch len(all) {
	case 0:
		return "no instance was launched for " + o.name
	case 1:
		if all[0].State != cloud.Terminated {
			return fmt.Sprintf("one instance was launched for %s: %s, which is %s, at %d cents an hour",
				o.name, all[0].ID, all[0].State, cloud.Prices[all[0].Type])
		}
		return fmt.Sprintf("one instance was launched for %s: %s, which is %s", o.name, all[0].ID, all[0].State)
	}
	text, cents := "", 0
	for _, i := range all {
		text += fmt.Sprintf(", %s (%s)", i.ID, i.State)
		cents += cloud.Prices[i.Type]
	}
	return fmt.Sprintf("%d instances were launched for %s: %s: the bill of the first hour is %d cents instead of %d",
		len(all), o.name, text[2:], cents, cloud.Prices[all[0].Type])
}

// atMost fails if more instances than the given number were launched for an object, or if two of them run.
func (v visit) atMost(expected string, o order, launched int) {
	v.t.Helper()
	if len(v.instances(o)) > launched || len(v.running(o)) > 1 {
		v.fail(expected, v.launchedInstances(o))
	}
}

// hasOne waits until the given number of instances were launched for an object and exactly one of them runs, and
// returns that one.
func (v visit) hasOne(expected string, patience time.Duration, o order, launched int) cloud.Instance {
	v.t.Helper()
	var one cloud.Instance
	v.until(expected, patience, func() (string, bool) {
		v.atMost(expected, o, launched)
		running := v.running(o)
		if len(v.instances(o)) < launched || len(running) != 1 {
			return v.launchedInstances(o), false
		}
		one = running[0]
		return "", true
	})
	return one
}

// workspace returns the content of an object's Workspace. The strings are empty if there is none.
func (v visit) workspace(o order) (nonce, instanceID string, exists bool) {
	v.t.Helper()
	object, err := v.notes.Get(v.ctx, o.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", "", false
	}
	v.OK(v.t, "reading the Workspace "+o.name, err)
	if owner := metav1.GetControllerOf(object); owner == nil || string(owner.UID) != o.uid {
		return "", "", false
	}
	nonce, _, _ = unstructured.NestedString(object.Object, "nonce")
	instanceID, _, _ = unstructured.NestedString(object.Object, "instanceID")
	return nonce, instanceID, true
}

// ready waits until the condition Ready has this status for the current spec.
func (v visit) ready(expected string, patience time.Duration, o order, status metav1.ConditionStatus) {
	v.t.Helper()
	object, err := v.objects.Get(v.ctx, o.name, metav1.GetOptions{}) // our own watch may not have the generation yet
	v.OK(v.t, "reading a CloudInstance", err)
	generation := object.GetGeneration()
	v.until(fmt.Sprintf("%s, and Ready of %s is %s", expected, o.name, status), patience, func() (string, bool) {
		now, exists := v.find(o)
		if !exists {
			return o.name + " is gone", false
		}
		c := conditionOf(now)
		switch {
		case c == nil:
			return o.name + " has no condition Ready", false
		case c.ObservedGeneration != generation:
			return fmt.Sprintf("Ready of %s has observedGeneration %d, and metadata.generation is %d",
				o.name, c.ObservedGeneration, generation), false
		}
		return fmt.Sprintf("Ready of %s is %s (%s: %s)", o.name, c.Status, c.Reason, c.Message), c.Status == status
	})
}

func conditionOf(object *unstructured.Unstructured) *metav1.Condition {
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	if found, ok, _ := unstructured.NestedMap(object.Object, "status"); ok {
		// A status of another form has no conditions that a check could read.
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(found, &status)
	}
	return meta.FindStatusCondition(status.Conditions, ready)
}

// statusOf returns the instance and its state in the status.
func (v visit) statusOf(o order) (instanceID, state string) {
	object, exists := v.find(o)
	if !exists {
		return "", ""
	}
	instanceID, _, _ = unstructured.NestedString(object.Object, "status", "instanceID")
	state, _, _ = unstructured.NestedString(object.Object, "status", "state")
	return instanceID, state
}

// statusShows waits until the status shows that an instance runs.
func (v visit) statusShows(expected string, patience time.Duration, o order, one cloud.Instance) {
	v.t.Helper()
	v.until(fmt.Sprintf("%s, and the status of %s says instanceID %s and state running",
		expected, o.name, one.ID), patience, func() (string, bool) {
		id, state := v.statusOf(o)
		return fmt.Sprintf("the status of %s says instanceID %q and state %q", o.name, id, state),
			id == one.ID && state == string(cloud.Running)
	})
}

// disappears waits until a deleted object is gone. No instance may run for it then, and its Workspace must be deleted
// with it.
func (v visit) disappears(expected string, patience time.Duration, o order) {
	v.t.Helper()
	v.disappearsWhile(expected, patience, o, func() {})
}

// disappearsWhile is disappears with a function that acts for other controllers at each look.
func (v visit) disappearsWhile(expected string, patience time.Duration, o order, others func()) {
	v.t.Helper()
	v.until(expected, patience, func() (string, bool) {
		others()
		_, exists := v.find(o) // read first: the instance of an object that is gone must have ended before we ask the cloud
		running := v.running(o)
		switch {
		case !exists && len(running) > 0:
			v.fail(expected, fmt.Sprintf("%s is gone, and %s still runs and costs money: %s",
				o.name, running[0].ID, v.launchedInstances(o)))
		case len(running) > 0:
			return fmt.Sprintf("%s still runs", running[0].ID), false
		}
		return o.name + " is still there, though nothing runs for it", !exists
	})
	v.awaitWorkspaceGone(o)
}

// awaitWorkspaceGone waits until the Workspace of a deleted object is gone, or only the garbage collector has to delete
// it, which a finalizer of the operator would prevent forever.
func (v visit) awaitWorkspaceGone(o order) {
	v.t.Helper()
	v.until(fmt.Sprintf("the Workspace of %s is deleted with it, "+
		"or the CloudInstance is its owner and nothing holds it", o.name), patience,
		func() (string, bool) {
			object, err := v.notes.Get(v.ctx, o.name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return "", true
			}
			v.OK(v.t, "reading the Workspace "+o.name, err)
			owned := ownedBy(object, o)
			if tag := object.GetLabels()[ownerTag]; !owned && tag != "" && tag != o.uid {
				return "", true // It belongs to a later object.
			}
			return fmt.Sprintf("%s is gone, and its Workspace is still there, with the finalizers %q (owned by it: %t)",
				o.name, object.GetFinalizers(), owned), owned && len(object.GetFinalizers()) == 0
		})
}

// arm injects faults from now on. It first waits until the operator has done its remaining work.
func (v visit) arm(all ...faults.Fault) {
	v.t.Helper()
	v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: all}))
}

func (v visit) disarm() {
	v.t.Helper()
	v.OK(v.t, "disarming the faults", v.Faults.Disarm(v.ctx))
}

// allRequests returns faults of this kind for all requests to the cloud.
func allRequests(kind faults.Kind) []faults.Fault {
	return []faults.Fault{
		{Kind: kind, Class: faults.Write, Service: cloud.Service},
		{Kind: kind, Class: faults.Read, Service: cloud.Service},
	}
}

func (v visit) kill() {
	v.t.Helper()
	v.OK(v.t, "killing the operator", v.Operator.Kill(v.ctx))
}

func (v visit) start() {
	v.t.Helper()
	v.OK(v.t, "starting the operator", v.Operator.Start(v.ctx))
}

// defaultSettings returns the cloud's usual settings: its answers are never out of date, unless a check wants that.
// Otherwise it would depend on chance which check finds an operator that can't handle it.
func defaultSettings() cloud.Settings {
	settings := cloud.Defaults()
	settings.Lag = metav1.Duration{}
	return settings
}

// set changes the cloud's settings, until the check ends.
func (v visit) set(change func(*cloud.Settings)) {
	v.t.Helper()
	settings := defaultSettings()
	change(&settings)
	v.OK(v.t, "changing the cloud's settings", v.cloud.Set(v.ctx, settings))
}

// bootsAtOnce makes instances run as soon as they are launched, until the check ends. Only the checks status and
// bad-day need pending instances.
func (v visit) bootsAtOnce() {
	v.t.Helper()
	v.set(func(s *cloud.Settings) { s.Boot = metav1.Duration{} })
}

// decoy is an instance of another owner.
func (v visit) decoy(tags map[string]string) order {
	v.t.Helper()
	o := order{name: "another owner", image: fmt.Sprintf("decoy-%d", time.Now().UnixNano())}
	_, err := v.cloud.Launch(v.ctx, cloud.Launch{Type: "large", Image: o.image, Tags: tags})
	v.OK(v.t, "launching an instance", err)
	return o
}
