// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lva.io/operators/scripts/services/cloud"
)

// namesForeign writes foreign instances into Workspaces while the operator is down, and deletes their CloudInstances.
// An operator may find its own instance by its tag, and terminate that one. It may also report in the status that it
// can't continue, until a user corrects the Workspace.
func (v visit) namesForeign() {
	v.t.Helper()
	v.bootsAtOnce()
	untagged, tagged, own := v.decoy(nil), v.decoy(map[string]string{ownerTag: "another-owner"}), v.decoy(nil)
	imports := v.create("snowbell", map[string]any{"instanceID": v.instances(own)[0].ID})
	imports.image = own.image
	v.ready("snowbell imports its instance", longPatience, imports, metav1.ConditionTrue)
	type forgedWorkspace struct{ owner, other order }
	forged := []forgedWorkspace{{v.runs("silverbell"), untagged}, {v.runs("stewartia"), tagged}, {imports, untagged}}
	alive := []forgedWorkspace{{v.runs("sweetbay"), untagged}, {v.runs("sweetgum"), tagged}}
	v.kill()
	for _, f := range append(slices.Clone(forged), alive...) {
		v.writeWorkspace(f.owner, v.instances(f.other)[0].ID)
	}
	for _, f := range forged {
		v.delete(f.owner)
	}
	for _, f := range alive {
		v.change(f.owner, `{"status":null}`, "status") // Any later status was written by the operator.
	}
	v.start()
	for _, f := range alive {
		v.namesItsOwn(f.owner, f.other)
		v.delete(f.owner)
	}
	forged = append(forged, alive...)
	for _, f := range forged {
		expected := fmt.Sprintf("%s is deleted while its Workspace names an instance of another owner: "+
			"its own ends before it is gone, or its Ready is False", f.owner.name)
		v.until(expected, longPatience, func() (string, bool) {
			v.untouched(f.other)
			return v.goneOrUnready(expected, f.owner)
		})
	}
	for _, f := range forged {
		v.writeWorkspace(f.owner, v.instances(f.owner)[0].ID)
		corrected := f.owner.name + ", which is being deleted, is gone soon after its Workspace names its own instance again"
		v.disappears(corrected, longPatience, f.owner)
		v.untouched(f.other)
	}
}

// namesItsOwn waits until the operator has written the status of an object whose Workspace names an instance of another
// owner, and fails an operator that reports that instance.
func (v visit) namesItsOwn(o, other order) {
	v.t.Helper()
	expected := fmt.Sprintf("the Workspace of %s names an instance of another owner: "+
		"Ready is False, or the status names its own", o.name)
	v.until(expected, longPatience, func() (string, bool) {
		v.untouched(other)
		now, exists := v.find(o)
		if !exists {
			return o.name + " is gone", false
		}
		if foreign := v.instances(other)[0].ID; slices.Contains(v.reportedOf(o), foreign) {
			v.fail(expected, fmt.Sprintf("the status of %s named %s, which is another owner's", o.name, foreign))
		}
		c := conditionOf(now)
		if c == nil {
			return o.name + " has no condition Ready", false
		}
		id, _ := v.statusOf(o)
		return fmt.Sprintf("Ready of %s is %s (%s: %s), and status.instanceID is %q",
				o.name, c.Status, c.Reason, c.Message, id),
			c.Status == metav1.ConditionFalse || id == v.instances(o)[0].ID
	})
}

// goneOrUnready reports whether a deleted object is gone, after its instance, or reports that it can't be deleted.
func (v visit) goneOrUnready(expected string, o order) (string, bool) {
	v.t.Helper()
	now, exists := v.find(o) // read first: the instance of an object that is gone must have ended before we ask the cloud
	if !exists {
		if running := v.running(o); len(running) > 0 {
			v.fail(expected, fmt.Sprintf("%s is gone, and %s still runs and costs money: %s",
				o.name, running[0].ID, v.launchedInstances(o)))
		}
		return "", true
	}
	c := conditionOf(now)
	if c == nil {
		return o.name + " has no condition Ready", false
	}
	return fmt.Sprintf("%s is still there, and Ready is %s (%s: %s)", o.name, c.Status, c.Reason, c.Message),
		c.Status == metav1.ConditionFalse
}

// untouched fails an operator that has terminated an instance of another owner, or has tagged it.
func (v visit) untouched(other order) {
	v.t.Helper()
	const expected = "no instance of another owner is ended or changed, whatever a Workspace names"
	now := v.instances(other)[0]
	if now.State == cloud.Terminated {
		v.fail(expected, fmt.Sprintf("%s, an instance of another owner that a Workspace named, was ended", now.ID))
	}
	if is := now.Tags[ownerTag]; is != "" && is != "another-owner" {
		v.fail(expected, fmt.Sprintf("%s, an instance of another owner that a Workspace named, was given the tag %s = %s",
			now.ID, ownerTag, is))
	}
}

// writeWorkspace writes an instance into the Workspace of an object, if it has one.
func (v visit) writeWorkspace(o order, instanceID string) {
	v.t.Helper()
	patch := fmt.Appendf(nil, `{"instanceID":%q,"nonce":null}`, instanceID)
	_, err := v.notes.Patch(v.ctx, o.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		v.OK(v.t, "writing into the Workspace "+o.name, err)
	}
}
