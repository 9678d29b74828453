// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package controller

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	cloudv1alpha1 "lva.io/operators/labs/11-workspace/api/v1alpha1"
)

// errTaken means that the Workspace of this name belongs to another CloudInstance: usually to an earlier one, which is
// about to be deleted.
var errTaken = errors.New("there is a workspace of this name that belongs to another object, maybe to an earlier one")

// workspace reads the Workspace of a CloudInstance past the cache: nil if there is none, errTaken if it is another's.
func (r *CloudInstanceReconciler) workspace(
	ctx context.Context, object *cloudv1alpha1.CloudInstance,
) (*cloudv1alpha1.Workspace, error) {
	// TODO(lab): 2. Read it with r.APIReader, by the name and namespace of the object. If there is none, return nil and
	// no error. If its label ownerTag does not have this object's UID, return errTaken. Take the ID of an imported
	// instance from the spec, which can't change: put spec.instanceID into the Workspace that you return, if there is
	// one.
	return nil, nil
}

// openWorkspace creates the Workspace of a CloudInstance, with the nonce of the launch that comes next; or, where an
// instance is imported, with its ID.
func (r *CloudInstanceReconciler) openWorkspace(
	ctx context.Context, object *cloudv1alpha1.CloudInstance,
) (*cloudv1alpha1.Workspace, error) {
	// TODO(lab): 2. First: is the object still there, and not being deleted (current, below)? Then create a
	// Workspace of the same name and namespace, controlled by the object (ctrl.SetControllerReference), with our
	// finalizer, the object's UID in the label ownerTag, and newNonce(); or with spec.instanceID, if that is given.
	return &cloudv1alpha1.Workspace{}, nil
}

// newNonce returns a client token that was never used before.
func newNonce() string { return string(uuid.NewUUID()) }

// errStale is that the cache knows the object as it was, and not as it is.
var errStale = errors.New("the cache is behind: nothing is launched until it knows the object as it is now")

// current returns an error unless the object is there as the cache has it: the same one, and not being deleted.
func (r *CloudInstanceReconciler) current(ctx context.Context, object *cloudv1alpha1.CloudInstance) error {
	var current cloudv1alpha1.CloudInstance
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(object), &current); err != nil {
		return fmt.Errorf("ask the API server for the object: %w", err)
	}
	if current.UID != object.UID || !current.DeletionTimestamp.IsZero() {
		return errStale
	}
	return nil
}

// record writes the result of a launch, and removes the nonce in the same update. The update carries the resource
// version that was read: with an older Workspace it is a conflict.
func (r *CloudInstanceReconciler) record(
	ctx context.Context, workspace *cloudv1alpha1.Workspace, instanceID string,
) error {
	// TODO(lab): 3. Put the ID into the Workspace, remove the nonce, and update it.
	return nil
}

// renew prepares another launch, since the instance of the last one has ended.
func (r *CloudInstanceReconciler) renew(ctx context.Context, workspace *cloudv1alpha1.Workspace) error {
	// TODO(lab): 6. The token of the last launch belongs to an instance that has ended. Another launch needs another
	// nonce, which has to be written before the launch, like the first one.
	return nil
}

// discard deletes a Workspace that is no longer needed. Without our finalizer the garbage collector would delete it,
// too, after the object. But then it might still exist when a user creates an object of this name again.
func (r *CloudInstanceReconciler) discard(ctx context.Context, workspace *cloudv1alpha1.Workspace) error {
	if controllerutil.RemoveFinalizer(workspace, finalizer) {
		if err := r.Update(ctx, workspace); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the finalizer of the workspace: %w", err)
		}
	}
	if err := r.Delete(ctx, workspace, client.Preconditions{UID: &workspace.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the workspace: %w", err)
	}
	return nil
}
