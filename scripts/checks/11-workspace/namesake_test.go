// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/faults"
)

// inOtherNamespace checks an object with the name of another one, in another namespace. Each has its own instance and
// its own Workspace.
func (v visit) inOtherNamespace(original order) {
	v.t.Helper()
	typed, err := kubernetes.NewForConfig(v.Config)
	v.OK(v.t, "making a client", err)
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   elsewhere,
		Labels: map[string]string{existing.Label: "true"},
	}}
	if _, err := typed.CoreV1().Namespaces().Create(
		v.ctx, space, metav1.CreateOptions{},
	); !apierrors.IsAlreadyExists(err) {
		v.OK(v.t, "creating the namespace "+elsewhere, err)
	}
	objects, notes := v.client.Resource(resource).Namespace(elsewhere), v.client.Resource(workspaces).Namespace(elsewhere)
	spec := v.wanted(original.name + "-elsewhere")
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(kind)
	object.SetName(original.name)
	v.elsewhere = append(v.elsewhere, original.name)
	object, err = objects.Create(v.ctx, object, metav1.CreateOptions{})
	v.OK(v.t, "creating a CloudInstance in the namespace "+elsewhere, err)
	o := order{name: original.name, image: spec["image"].(string), uid: string(object.GetUID())}

	expected := fmt.Sprintf("a CloudInstance %s in another namespace gets an instance of its own, "+
		"and its Workspace is in that namespace", o.name)
	one := v.hasOne(expected, longPatience, o, 1)
	v.until(expected, patience, func() (string, bool) {
		workspace, err := notes.Get(v.ctx, o.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("there is no Workspace %s in the namespace %s", o.name, elsewhere), false
		}
		v.OK(v.t, "reading a Workspace", err)
		id, _, _ := unstructured.NestedString(workspace.Object, "instanceID")
		return fmt.Sprintf("its instanceID is %q, and the instance is %s", id, one.ID), id == one.ID
	})
	v.OK(v.t, "deleting a CloudInstance", objects.Delete(v.ctx, o.name, metav1.DeleteOptions{}))
	gone := fmt.Sprintf("when the CloudInstance %s in another namespace is deleted, "+
		"its instance ends, and then it is gone", o.name)
	v.until(gone, longPatience, func() (string, bool) {
		// The object first: if it is gone, its instance must have ended.
		_, err := objects.Get(v.ctx, o.name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			v.OK(v.t, "reading a CloudInstance", err)
		}
		if running := v.running(o); err != nil && len(running) > 0 {
			v.fail(gone, fmt.Sprintf("it is gone, and %s still runs", running[0].ID))
		}
		return "it is still there", err != nil
	})
	const stays = "the instance of an object still runs when an object of the same name in another namespace is deleted"
	if running := v.running(original); len(running) != 1 {
		v.fail(stays, v.launchedInstances(original))
	}
	v.records(stays, patience, original, v.running(original)[0])
}

// forceDeleted checks objects that were removed by force while their instances ran: a user has removed the finalizers.
// Their Workspaces, which the garbage collector then deletes, are the only records of these instances, or of their
// launches.
func (v visit) forceDeleted() {
	v.t.Helper()
	firsts := []order{v.runs("hornbeam"), v.runs("horsetail")}
	for _, o := range firsts {
		v.change(o, `{"spec":{"paused":true}}`) // The operator must not change paused objects.
	}
	v.Settle(v.ctx, v.t)
	// The result of the second launch is unknown.
	const unknown = `{"nonce":"launch-of-horsetail","instanceID":null}`
	_, err := v.notes.Patch(v.ctx, firsts[1].name, types.MergePatchType, []byte(unknown), metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		v.OK(v.t, "writing into a Workspace", err)
	}
	var seconds []order
	for _, o := range firsts {
		v.OK(v.t, "removing a CloudInstance by force", remove(v.ctx, v.objects, o.name))
		v.until(o.name+" is gone, since a user has removed its finalizers", patience, func() (string, bool) {
			_, exists := v.find(o)
			return "it is still there", !exists
		})
		if err := v.notes.Delete(v.ctx, o.name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			v.OK(v.t, "deleting the Workspace of "+o.name+", as the garbage collector does", err)
		}
	}
	kept := make([]bool, len(firsts))
	for i, o := range firsts {
		_, err := v.notes.Get(v.ctx, o.name, metav1.GetOptions{})
		kept[i] = err == nil // An operator may use no finalizer there. Then nothing is kept.
		seconds = append(seconds, v.createWanted(o.name))
	}
	for i, o := range seconds {
		v.until("a CloudInstance with the name of an earlier one has a condition, or an instance", longPatience,
			func() (string, bool) {
				now, exists := v.find(o)
				return "it has neither", exists && conditionOf(now) != nil || len(v.instances(o)) > 0
			})
		v.Settle(v.ctx, v.t)
		now, err := v.notes.Get(v.ctx, o.name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			v.OK(v.t, "reading a Workspace", err)
		}
		gone := err != nil || now.GetLabels()[ownerTag] == o.uid
		if running := v.running(firsts[i]); kept[i] && gone && len(running) > 0 {
			v.fail(fmt.Sprintf("the Workspace of an earlier %s, which a user removed by force, "+
				"exists until its instance has ended", o.name),
				fmt.Sprintf("the Workspace is gone, and %s still runs: nothing names it any more", running[0].ID))
		}
	}
	for i, o := range firsts {
		for _, running := range v.running(o) {
			_, err := v.cloud.Terminate(v.ctx, running.ID)
			v.OK(v.t, "ending an instance", err)
		}
		if now, err := v.notes.Get(v.ctx, o.name, metav1.GetOptions{}); err == nil && now.GetLabels()[ownerTag] == o.uid {
			v.OK(v.t, "removing a Workspace by force", remove(v.ctx, v.notes, o.name))
		}
		expected := fmt.Sprintf("another CloudInstance %s gets an instance of its own "+
			"when the Workspace of the earlier one is gone", o.name)
		v.hasOne(expected, longPatience, seconds[i], 1)
	}
}

// nonceOfAnother checks a Workspace that another process creates after the operator has looked for it and before it
// creates its own, as at a change of the leader. The stored nonce is the valid one.
func (v visit) nonceOfAnother() {
	v.t.Helper()
	v.Settle(v.ctx, v.t)
	v.began = time.Now()
	mark := v.Audit.Now()
	v.arm(faults.Fault{
		Kind:    faults.Slow,
		Class:   faults.Read,
		Service: faults.API,
		For:     metav1.Duration{Duration: answerTakes},
	})
	o := v.createWanted("cypress")
	looked := v.OperatorRequests().And(audit.On(workspaces.Group, workspaces.Resource)).And(func(e audit.Event) bool {
		return e.Name == o.name || e.Verb == "create"
	})
	v.until("the operator looks for the Workspace cypress, or creates it", longPatience, func() (string, bool) {
		return "it does not", len(v.Audit.Since(mark, looked)) > 0
	})
	const nonce = "nonce-of-another-process"
	notes := &unstructured.Unstructured{Object: map[string]any{"nonce": nonce}}
	notes.SetGroupVersionKind(workspaces.GroupVersion().WithKind("Workspace"))
	notes.SetName(o.name)
	notes.SetLabels(map[string]string{ownerTag: o.uid})
	notes.SetFinalizers([]string{finalizer})
	notes.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: o.name, UID: types.UID(o.uid),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}})
	_, err := v.notes.Create(v.ctx, notes, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		v.OK(v.t, "creating the Workspace cypress", err)
	}
	v.disarm()
	one := v.hasOne("cypress gets one instance, although another process has created its Workspace", longPatience, o, 1)
	if err == nil {
		const expected = "each launch has the nonce as its token that is stored in the Workspace, " +
			"which another process has created"
		for _, attempt := range launches(v.log()) {
			if token, is := hasToken(attempt, nonce); !is {
				v.fail(expected, fmt.Sprintf("the nonce is %s, and a launch had the token %s", nonce, token))
			}
		}
	}
	v.records("the launch of cypress is recorded in its Workspace", patience, o, one)
}
