// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"lva.io/operators/scripts/grading/faults"
)

const leaseTimeout = 10 * time.Second

// released is the patch that a leader applies to its Lease when it steps down (client-go/tools/leaderelection,
// ReleaseOnCancel).
var released = []byte(`{"spec":{"holderIdentity":null,"leaseDurationSeconds":1}}`)

// releaseLeases releases the Leases of an operator that is not running. A killed leader can't do that itself, and the
// next one would wait until the Lease expires: a quarter of a minute after each crash, in which nothing is checked.
func (s *subject) releaseLeases() error {
	leases := heldLeases(s.injector.Log())
	if len(leases) == 0 {
		return nil
	}
	client, err := coordinationv1.NewForConfig(s.cluster.Config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), leaseTimeout,
		fmt.Errorf("the API server has not answered within %s", leaseTimeout))
	defer cancel()
	for _, lease := range leases {
		_, err := client.Leases(lease.Namespace).Patch(ctx, lease.Name, types.MergePatchType, released, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("releasing the Lease %s of the previous operator: %w", lease, err)
		}
	}
	return nil
}

// heldLeases are the Leases that the operator has written, according to its requests.
func heldLeases(log []faults.Entry) (leases []types.NamespacedName) {
	seen := map[types.NamespacedName]bool{}
	for _, entry := range log {
		name := types.NamespacedName{Namespace: entry.Namespace, Name: entry.Name}
		if entry.Resource != "leases" || !entry.Write || entry.Name == "" ||
			entry.Code >= http.StatusMultipleChoices || seen[name] {
			continue
		}
		seen[name] = true
		leases = append(leases, name)
	}
	return leases
}
