// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package stage

import "context"

// Deliverer is a stage that loads a submission's image into the cluster's nodes and leaves it to the checks to deploy
// the submission.
type Deliverer interface {
	Stage
	// Deliver builds the submission's image, loads it into the nodes, and renders config/default. It applies nothing. An
	// error of the submission is a *submission.Problem.
	Deliver(ctx context.Context, what Submission) (*Delivery, error)
}

// Delivery is a submission that the checks deploy.
type Delivery struct {
	// Image is the reference of its image, which the nodes have.
	Image string
	// Manifests is the rendered config/default, in YAML, with the image in the submission's own containers.
	Manifests []byte
	// User is the name by which the API server knows the account of its Pods. It is empty unless the submission has
	// exactly one Deployment.
	User string
}
