// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"errors"
	"fmt"

	cloudv1alpha1 "lva.io/operators/labs/11-workspace/api/v1alpha1"
	"lva.io/operators/labs/11-workspace/internal/cloud"
)

// ownerTag is the tag by which an instance is found again when everything else was forgotten. Its value is the UID of
// the CloudInstance, which no other object ever has.
const ownerTag = "cloud.lva.io.owner"

// ensure sees to it that a CloudInstance has its instance, and returns that as the cloud shows it. Nil without an
// error: the cloud does not show it yet.
func (r *CloudInstanceReconciler) ensure(
	ctx context.Context, object *cloudv1alpha1.CloudInstance,
) (*cloud.Instance, error) {
	workspace, err := r.workspace(ctx, object)
	if err == nil && workspace == nil {
		workspace, err = r.openWorkspace(ctx, object)
	}
	if err != nil {
		return nil, err
	}
	if workspace.InstanceID == "" {
		return r.launch(ctx, object, workspace)
	}
	instance, err := r.Cloud.Get(ctx, workspace.InstanceID)
	// TODO(lab): 3. The cloud's answers may be behind. If it does not find an ID that it has returned before
	// (unlike one that a user wrote into spec.instanceID), we have to look again later.
	if err != nil {
		return nil, fmt.Errorf("look at instance %s: %w", workspace.InstanceID, err)
	}
	if object.Spec.InstanceID != "" {
		return instance, r.claim(ctx, object, instance)
	}
	if err := owned(object, instance); err != nil {
		return nil, err
	}
	// TODO(lab): 6. Another user may have ended the instance, by hand. The spec still wants one, unless the cache is
	// behind (current): renew the Workspace, then launch.
	return instance, nil
}

// observe looks at the instance of a CloudInstance that is paused, and changes nothing. An instance that it does not
// know is an empty one, so that the status shows nothing that another user has written there.
func (r *CloudInstanceReconciler) observe(
	ctx context.Context, object *cloudv1alpha1.CloudInstance,
) (*cloud.Instance, error) {
	// TODO(lab): 7. Read the Workspace, and look at the instance that it names. It may name one that is not ours
	// (owned), unless it is an import. If there is none, return an empty cloud.Instance, which empties the status.
	return &cloud.Instance{}, nil
}

// launch finds out what became of the launch that the Workspace announces, or sends it, and records the result. It may
// be cut off anywhere and called again, by a process that knows nothing but the Workspace.
func (r *CloudInstanceReconciler) launch(
	ctx context.Context, object *cloudv1alpha1.CloudInstance, workspace *cloudv1alpha1.Workspace,
) (*cloud.Instance, error) {
	// TODO(lab): 3. Look for an instance of this object in the cloud (find). If there is none, launch one: with
	// the nonce of the Workspace as its token, and the object's UID in its ownerTag. Record its ID (record) before you
	// return it.
	return nil, nil
}

// find looks for an instance of a CloudInstance that has not ended. Nil: the cloud does not show one.
func (r *CloudInstanceReconciler) find(
	ctx context.Context, object *cloudv1alpha1.CloudInstance,
) (*cloud.Instance, error) {
	// TODO(lab): 3. List the instances with the object's UID in their ownerTag, and return one that is not terminated.
	return nil, nil
}

// claim makes an imported instance the object's, by a tag that it can get only once.
func (r *CloudInstanceReconciler) claim(
	ctx context.Context, object *cloudv1alpha1.CloudInstance, instance *cloud.Instance,
) error {
	// TODO(lab): 8. Unless it has our tag, give it to the instance. The cloud refuses that if it belongs to another.
	return nil
}

// errForeign is why nothing is done with an instance that the Workspace names.
var errForeign = errors.New(
	"the cloud says that it is not ours: take instanceID out of the workspace, and ours is looked for")

// owned makes sure that an instance was launched for the object. The Workspace does not prove that, since anyone who
// can edit Workspaces can name another instance there. The cloud does: a tag keeps its value.
func owned(object *cloudv1alpha1.CloudInstance, instance *cloud.Instance) error {
	// TODO(lab): 5. Return errForeign unless the instance has our tag.
	return nil
}

// end ends the instance of a CloudInstance that is being deleted.
func (r *CloudInstanceReconciler) end(
	ctx context.Context, object *cloudv1alpha1.CloudInstance, workspace *cloudv1alpha1.Workspace,
) error {
	// TODO(lab): 5. Terminate the instance that the Workspace names. If it has a nonce and no instance, a launch may
	// have happened whose answer was lost: finish it first. Terminate only an instance that has our ownerTag in the
	// cloud: look (owned), or for an import, tag it, which the cloud refuses if it belongs to another. That is no
	// error: it is not ours to end.
	return nil
}

// endFound ends what runs for a CloudInstance that has no Workspace.
func (r *CloudInstanceReconciler) endFound(ctx context.Context, object *cloudv1alpha1.CloudInstance) error {
	running, err := r.find(ctx, object)
	if err == nil && running != nil {
		err = r.Cloud.Terminate(ctx, running.ID)
	}
	if err != nil {
		return fmt.Errorf("end what runs without a workspace: %w", err)
	}
	return nil
}
