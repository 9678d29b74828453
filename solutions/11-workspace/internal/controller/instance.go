// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"errors"
	"fmt"

	cloudv1alpha1 "lva.io/operators/solutions/11-workspace/api/v1alpha1"
	"lva.io/operators/solutions/11-workspace/internal/cloud"
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
	//lab:begin not-found
	if cloud.IsNotFound(err) && object.Spec.InstanceID == "" {
		return nil, nil //nolint:nilnil // The cloud has returned this ID before. Its answer is behind, and we look again.
	}
	//lab:else
	// // TODO(lab): 3. The cloud's answers may be behind. If it does not find an ID that it has returned before
	// // (unlike one that a user wrote into spec.instanceID), we have to look again later.
	//lab:end
	if err != nil {
		return nil, fmt.Errorf("look at instance %s: %w", workspace.InstanceID, err)
	}
	if object.Spec.InstanceID != "" {
		return instance, r.claim(ctx, object, instance)
	}
	if err := owned(object, instance); err != nil {
		return nil, err
	}
	//lab:begin drift
	if instance.State == cloud.Terminated {
		// Another user has ended it, and the spec still wants one. Or we have: the cache may not know yet that the object is
		// being deleted.
		if err := r.current(ctx, object); err != nil {
			return nil, err
		}
		if err := r.renew(ctx, workspace); err != nil {
			return nil, err
		}
		return r.launch(ctx, object, workspace)
	}
	//lab:else
	// // TODO(lab): 6. Another user may have ended the instance, by hand. The spec still wants one, unless the cache is
	// // behind (current): renew the Workspace, then launch.
	//lab:end
	return instance, nil
}

// observe looks at the instance of a CloudInstance that is paused, and changes nothing. An instance that it does not
// know is an empty one, so that the status shows nothing that another user has written there.
func (r *CloudInstanceReconciler) observe(
	ctx context.Context, object *cloudv1alpha1.CloudInstance,
) (*cloud.Instance, error) {
	//lab:begin observe
	workspace, err := r.workspace(ctx, object)
	if err != nil {
		return nil, err
	}
	if workspace == nil || workspace.InstanceID == "" {
		return &cloud.Instance{}, nil
	}
	instance, err := r.Cloud.Get(ctx, workspace.InstanceID)
	if cloud.IsNotFound(err) {
		return &cloud.Instance{ID: workspace.InstanceID}, nil
	}
	if err == nil && object.Spec.InstanceID == "" {
		err = owned(object, instance)
	}
	if err != nil {
		return nil, fmt.Errorf("look at instance %s: %w", workspace.InstanceID, err)
	}
	return instance, nil
	//lab:else
	// // TODO(lab): 7. Read the Workspace, and look at the instance that it names. It may name one that is not ours
	// // (owned), unless it is an import. If there is none, return an empty cloud.Instance, which empties the status.
	// return &cloud.Instance{}, nil
	//lab:end
}

// launch finds out what became of the launch that the Workspace announces, or sends it, and records the result. It may
// be cut off anywhere and called again, by a process that knows nothing but the Workspace.
func (r *CloudInstanceReconciler) launch(
	ctx context.Context, object *cloudv1alpha1.CloudInstance, workspace *cloudv1alpha1.Workspace,
) (*cloud.Instance, error) {
	//lab:begin launch
	// First the tag, then the token. The list may be behind by moments, and the token is forgotten after minutes, so at
	// any time at least one of the two finds the instance.
	instance, err := r.find(ctx, object)
	if err == nil && instance == nil && workspace.Nonce == "" {
		err = r.renew(ctx, workspace) // A user has removed the nonce. Without a token, a repeated launch is a second one.
	}
	if err == nil && instance == nil {
		instance, err = r.Cloud.Launch(ctx, cloud.Launch{
			Token: workspace.Nonce, Type: object.Spec.Type, Image: object.Spec.Image,
			Tags: map[string]string{ownerTag: string(object.UID)},
		})
	}
	if err != nil {
		return nil, fmt.Errorf("launch an instance: %w", err)
	}
	if err := r.record(ctx, workspace, instance.ID); err != nil {
		return nil, err
	}
	return instance, nil
	//lab:else
	// // TODO(lab): 3. Look for an instance of this object in the cloud (find). If there is none, launch one: with
	// // the nonce of the Workspace as its token, and the object's UID in its ownerTag. Record its ID (record) before you
	// // return it.
	// return nil, nil
	//lab:end
}

// find looks for an instance of a CloudInstance that has not ended. Nil: the cloud does not show one.
func (r *CloudInstanceReconciler) find(
	ctx context.Context, object *cloudv1alpha1.CloudInstance,
) (*cloud.Instance, error) {
	//lab:begin find
	all, err := r.Cloud.List(ctx, ownerTag, string(object.UID))
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].State != cloud.Terminated {
			return &all[i], nil
		}
	}
	return nil, nil //nolint:nilnil // none is an answer
	//lab:else
	// // TODO(lab): 3. List the instances with the object's UID in their ownerTag, and return one that is not terminated.
	// return nil, nil
	//lab:end
}

// claim makes an imported instance the object's, by a tag that it can get only once.
func (r *CloudInstanceReconciler) claim(
	ctx context.Context, object *cloudv1alpha1.CloudInstance, instance *cloud.Instance,
) error {
	//lab:begin claim
	if instance.Tags[ownerTag] == string(object.UID) {
		return nil
	}
	if err := r.Cloud.Tag(ctx, instance.ID, ownerTag, string(object.UID)); err != nil {
		return fmt.Errorf("import instance %s: %w", instance.ID, err)
	}
	return nil
	//lab:else
	// // TODO(lab): 8. Unless it has our tag, give it to the instance. The cloud refuses that if it belongs to another.
	// return nil
	//lab:end
}

// errForeign is why nothing is done with an instance that the Workspace names.
var errForeign = errors.New(
	"the cloud says that it is not ours: take instanceID out of the workspace, and ours is looked for")

// owned makes sure that an instance was launched for the object. The Workspace does not prove that, since anyone who
// can edit Workspaces can name another instance there. The cloud does: a tag keeps its value.
func owned(object *cloudv1alpha1.CloudInstance, instance *cloud.Instance) error {
	//lab:begin owned
	if instance.Tags[ownerTag] != string(object.UID) {
		return fmt.Errorf("instance %s: %w", instance.ID, errForeign)
	}
	//lab:else
	// // TODO(lab): 5. Return errForeign unless the instance has our tag.
	//lab:end
	return nil
}

// end ends the instance of a CloudInstance that is being deleted.
func (r *CloudInstanceReconciler) end(
	ctx context.Context, object *cloudv1alpha1.CloudInstance, workspace *cloudv1alpha1.Workspace,
) error {
	//lab:begin end
	if workspace.InstanceID == "" {
		// A launch was announced, and may have happened. Launch again to find out: then there is exactly one instance.
		if _, err := r.launch(ctx, object, workspace); err != nil {
			return err
		}
	}
	if object.Spec.InstanceID != "" {
		// It was imported, or was to be. An instance that belongs to another owner, or never existed, is not ours to end.
		err := r.Cloud.Tag(ctx, workspace.InstanceID, ownerTag, string(object.UID))
		if cloud.IsConflict(err) || cloud.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("make sure that instance %s is ours: %w", workspace.InstanceID, err)
		}
	} else {
		instance, err := r.Cloud.Get(ctx, workspace.InstanceID)
		if err != nil {
			return fmt.Errorf("look at instance %s: %w", workspace.InstanceID, err)
		}
		if err := owned(object, instance); err != nil {
			return err
		}
	}
	if err := r.Cloud.Terminate(ctx, workspace.InstanceID); err != nil {
		return fmt.Errorf("end instance %s: %w", workspace.InstanceID, err)
	}
	return nil
	//lab:else
	// // TODO(lab): 5. Terminate the instance that the Workspace names. If it has a nonce and no instance, a launch may
	// // have happened whose answer was lost: finish it first. Terminate only an instance that has our ownerTag in the
	// // cloud: look (owned), or for an import, tag it, which the cloud refuses if it belongs to another. That is no
	// // error: it is not ours to end.
	// return nil
	//lab:end
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
