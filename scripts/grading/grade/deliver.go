// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/submission"
)

// deliver grades a submission that the checks deploy themselves: they get its image and its manifests. There is no
// proxy between the operator and the API server, so it runs as it would in any cluster.
func (r *run) deliver(
	ctx context.Context, st stage.Stage, builder *submission.Builder, manifests *submission.Manifests,
) (err error) {
	deliverer, ok := st.(stage.Deliverer)
	if !ok {
		return fmt.Errorf("the checks of %s deploy the submission: the cluster needs a node to run its image", r.Lab.Name)
	}
	s := &subject{
		connection: &connection{}, builder: builder, cluster: st.Cluster(), rules: manifests.Rules(), groups: r.Lab.Groups,
	}
	target := stage.Submission{
		Builder: builder, Manifests: manifests, Name: r.Lab.Name, Groups: r.Lab.Groups, Webhooks: r.Lab.Webhooks,
	}
	if err := r.step(ctx, "make the image", func(ctx context.Context) (_ string, err error) {
		s.delivery, err = deliverer.Deliver(ctx, target)
		return "", asVerdict(err, report.NotGenerated)
	}); err != nil {
		return err
	}
	if s.delivery.User != "" {
		defer func() { err = errors.Join(r.takeForbidden(s), err) }()
	}
	return r.check(ctx, s, nil)
}

// user is the user name of the operator at the API server, and so in the audit log.
func (s *subject) user() string {
	if s.delivery != nil {
		return s.delivery.User
	}
	return s.installed.User()
}

// passDelivery gives the checks the image and the manifests that they deploy, in a lab whose checks deploy the
// submission.
func (r *run) passDelivery(s *subject, run *protocol.Run) error {
	if s.delivery == nil {
		return nil
	}
	run.Image, run.Manifests, run.Shared =
		s.delivery.Image, filepath.Join(s.builder.Scope.Dir, "deploy.yaml"), s.cluster.Shared
	if err := os.WriteFile(run.Manifests, s.delivery.Manifests, 0o600); err != nil {
		return fmt.Errorf("writing the manifests for the checks: %w", err)
	}
	return nil
}
