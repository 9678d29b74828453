// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package stage

import "context"

// Deliverer is a stage that brings a submission's image to the cluster's nodes and leaves it to the checks to deploy
// it.
type Deliverer interface {
	Stage
	// Deliver makes the submission's image, brings it to the nodes, and puts config/default together. Nothing of it is
	// applied. What is wrong with the submission is a *submission.Problem.
	Deliver(ctx context.Context, what Submission) (*Delivery, error)
}

// Delivery is a submission that the checks deploy.
type Delivery struct {
	// Image is the reference of its image, which the nodes have.
	Image string
	// Manifests is what config/default comes to, in YAML, with the image in the submission's own containers.
	Manifests []byte
	// User is the name by which the API server knows the account of its Pods; empty if it has not exactly one Deployment.
	User string
}
