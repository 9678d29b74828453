// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workspace_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/await"
	"lva.io/operators/clusters/existing"
)

// down is the name of a webhook that does not answer. The API server's error contains it.
const down = "notary.team.example.com"

const (
	// downLook is the interval at which the API server is asked about state that no watch reports.
	downLook = 10 * time.Millisecond
	// downTimeout is how long the API server may take to call a new webhook. The operator has no part in that.
	downTimeout = 20 * time.Second
)

// notesFail makes the API server fail when a Workspace is written, because it calls a webhook that is down. Both an
// object that needs a Workspace, and one that is being deleted, must report that in their status. An operator that
// leaves the Workspace to the garbage collector does not notice this at the end: then the object disappears.
func (v visit) notesFail(dying order) {
	v.t.Helper()
	end := v.webhookDown(workspaces.Resource, func(ctx context.Context) error {
		probe := &unstructured.Unstructured{}
		probe.SetGroupVersionKind(workspaces.GroupVersion().WithKind("Workspace"))
		probe.SetName("probe")
		_, err := v.notes.Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}, admissionv1.Create, admissionv1.Update, admissionv1.Delete)
	v.failsAndHeals("each write of a Workspace", end, "hemlock", dying)
}

// objectsFail is notesFail for writes of a CloudInstance, except of its status: the finalizer of one object can't be
// added, and the finalizer of another one, whose instance has ended, can't be removed.
func (v visit) objectsFail(dying order) {
	v.t.Helper()
	end := v.webhookDown(resource.Resource, func(ctx context.Context) error {
		_, err := v.objects.Patch(ctx, dying.name, types.MergePatchType, []byte(`{"metadata":{"labels":{"probe":"probe"}}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}, admissionv1.Update)
	v.failsAndHeals("each update of a CloudInstance", end, "hornwort", dying)
}

// failsAndHeals creates an object and deletes another one while the API server answers certain requests with an error.
// Both objects must report that in their status. After end, which ends the errors, the new object must become ready,
// and the other one must be deleted.
func (v visit) failsAndHeals(requests string, end func(), name string, dying order) {
	v.t.Helper()
	defer end()
	fresh := v.createWanted(name)
	v.delete(dying)
	v.reportErrors(requests, fresh, dying)
	end()
	v.ready("when the API server does not fail any more", longPatience, fresh, metav1.ConditionTrue)
	v.disappears("when the API server does not fail any more, "+dying.name+" disappears", longPatience, dying)
}

// reportErrors waits until the condition Ready of each object has the API server's error.
func (v visit) reportErrors(requests string, all ...order) {
	v.t.Helper()
	fails := "while the API server answers " + requests + " with an error, since the webhook " + down + " is down, "
	for _, o := range all {
		expected := fmt.Sprintf("%sReady of %s is False, with that error in its message and another reason than %s",
			fails, o.name, cloudDown)
		v.until(expected, patience, func() (string, bool) {
			now, exists := v.find(o)
			if !exists {
				return o.name + " is gone", true
			}
			c := conditionOf(now)
			if c == nil {
				return o.name + " has no condition Ready", false
			}
			return fmt.Sprintf("Ready of %s is %s (%s: %s)", o.name, c.Status, c.Reason, c.Message),
				c.Status == metav1.ConditionFalse && c.Reason != cloudDown && strings.Contains(c.Message, down)
		})
	}
}

// webhookDown registers a webhook that does not answer for writes of a resource, and returns when the API server calls
// it: then the probe, which is such a write, fails. end removes the webhook at its first call.
func (v visit) webhookDown(refused string, probe func(context.Context) error,
	operations ...admissionv1.OperationType,
) (end func()) {
	v.t.Helper()
	client, err := kubernetes.NewForConfig(v.Config)
	v.OK(v.t, "making a client", err)
	all := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	created, err := all.Create(v.ctx, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "workspace-down-", Labels: map[string]string{existing.Label: "true"}},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:         down,
			ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")}, // no process listens there
			Rules: []admissionv1.RuleWithOperations{{
				Operations: operations,
				Rule: admissionv1.Rule{
					APIGroups: []string{workspaces.Group}, APIVersions: []string{workspaces.Version}, Resources: []string{refused},
				},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			TimeoutSeconds:    new(int32(1)),
			SideEffects:       new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	v.OK(v.t, "registering a webhook that is down", err)
	end = sync.OnceFunc(func() { _ = all.Delete(context.WithoutCancel(v.ctx), created.Name, metav1.DeleteOptions{}) })
	err = await.Within(v.ctx, downTimeout, downLook, "the API server to ask a webhook that is down",
		func(ctx context.Context) (string, error) {
			err := probe(ctx)
			switch {
			case err == nil:
				return "it accepts " + refused, nil
			case apierrors.IsInternalError(err):
				return "", nil
			}
			return "", fmt.Errorf("asking whether %s are accepted: %w", refused, err)
		})
	if err != nil {
		end()
		v.OK(v.t, "registering a webhook that is down", err)
	}
	return end
}
