// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/audit"
)

// othersFields lets other clients set fields of the children that the spec does not determine. They are not the
// operator's: if it reset them, it would fight with their owners.
func othersFields() types.Feature {
	return features.New("what others own is left alone").
		Assess("while the greeting changes", check.Assess(assess(func(v visit) {
			v.prepare()
			c := v.createInPaddock()
			deployment, _ := v.herd.deployment(c)
			deployments := v.herd.Client.AppsV1().Deployments(c.Namespace)
			replicas := int32(2 + v.herd.random.IntN(3)) //nolint:gosec // it is below 5
			v.forbidden(c)
			v.awaitDone(c, doneSoon) // its later writes respond to other clients
			edited := v.Audit.Now()
			_, err := deployments.Patch(v.ctx, deployment.Name,
				apitypes.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas),
				metav1.PatchOptions{FieldManager: autoscaler}, "scale")
			v.OK(v.t, "scaling the Deployment", err)
			v.editDeployment(c, func(d *appsv1.Deployment) {
				metav1.SetMetaDataAnnotation(&d.ObjectMeta, "team.example.com/contact", "herders")
				metav1.SetMetaDataLabel(&d.ObjectMeta, "team.example.com/cost-centre", "milk")
				metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, "team.example.com/restarted-at", "today")
				metav1.SetMetaDataLabel(&d.Spec.Template.ObjectMeta, "team.example.com/cost-centre", "milk")
				d.Spec.Template.Spec.InitContainers = append(d.Spec.Template.Spec.InitContainers, corev1.Container{
					Name: "sunscreen", Image: "operator-labs/lolcow:v1", Args: []string{":9092"},
				})
				d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{
					Name: "parasol", Image: "operator-labs/lolcow:v1", Args: []string{":9090"},
				})
			})
			v.editService(c, func(s *corev1.Service) {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, "team.example.com/contact", "herders")
				metav1.SetMetaDataLabel(&s.ObjectMeta, "team.example.com/cost-centre", "milk")
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			})
			stays := func() (string, bool) {
				if wrong := v.herd.wrong(c); wrong != "" {
					return wrong, false
				}
				now, _ := v.herd.deployment(c)
				page, _ := v.herd.service(c)
				var lost []string
				lose := func(is bool, what string) {
					if is {
						lost = append(lost, what)
					}
				}
				lose(now.Spec.Replicas == nil || *now.Spec.Replicas != replicas,
					fmt.Sprintf("spec.replicas, which an autoscaler set to %d, is %d", replicas, deref(now.Spec.Replicas)))
				lose(now.Annotations["team.example.com/contact"] == "", "an annotation of the Deployment is gone")
				lose(now.Labels["team.example.com/cost-centre"] == "", "a label of the Deployment is gone")
				lose(now.Spec.Template.Annotations["team.example.com/restarted-at"] == "",
					"an annotation of the template (as of `kubectl rollout restart`) is gone")
				lose(now.Spec.Template.Labels["team.example.com/cost-centre"] == "", "a label of the template is gone")
				lose(!slices.ContainsFunc(now.Spec.Template.Spec.InitContainers,
					func(c corev1.Container) bool { return c.Name == "sunscreen" }),
					"the init container sunscreen, which was injected, is gone")
				lose(page.Labels["team.example.com/cost-centre"] == "", "a label of the Service is gone")
				lose(!slices.ContainsFunc(now.Spec.Template.Spec.Containers,
					func(c corev1.Container) bool { return c.Name == "parasol" }),
					"the container parasol, which was injected, is gone")
				lose(page.Annotations["team.example.com/contact"] == "", "an annotation of the Service is gone")
				lose(page.Spec.SessionAffinity != corev1.ServiceAffinityClientIP,
					"the Service's sessionAffinity, which another client has set, is "+string(page.Spec.SessionAffinity))
				return strings.Join(lost, "; "), len(lost) == 0
			}
			expected := fmt.Sprintf("what others have set in the children of %s stays: "+
				"replicas, labels, annotations, a container, the session affinity", c.Name)
			v.Settle(v.ctx, v.t)
			v.Eventually(v.ctx, v.t, expected, v.herd.Changed, stays)
			if writes := v.childWrites(c, edited); len(writes) > 0 {
				v.Fail(v.t, fmt.Sprintf("the operator writes nothing to the children of %s, "+
					"of which others have set only what is not the operator's", c.Name),
					fmt.Sprintf("it sent %d writes", len(writes)), audit.Lines(writes)...)
			}
			v.setGreeting(c, v.herd.drawGreeting())
			v.Eventually(v.ctx, v.t, expected+", also when the greeting changes", v.herd.Changed, stays)
			v.Settle(v.ctx, v.t)
			if observed, ok := stays(); !ok {
				v.Fail(v.t, expected, observed)
			}
			now, _ := v.herd.deployment(c)
			if managers := managersOfReplicas(&now); len(managers) > 0 {
				v.Fail(v.t,
					fmt.Sprintf("the operator does not own spec.replicas of the Deployment %s, which an autoscaler has set", now.Name),
					fmt.Sprintf("in metadata.managedFields %s has it: the operator has written the number that it has read, "+
						"and the next client that sets another one gets a conflict", strings.Join(managers, ", ")))
			}
		}))).Feature()
}

// autoscaler is the field manager that scales a Deployment.
const autoscaler = "horizontal-pod-autoscaler"

// managersOfReplicas returns the field managers, besides the autoscaler, that own the number of replicas.
func managersOfReplicas(d *appsv1.Deployment) (managers []string) {
	for _, entry := range d.ManagedFields {
		if entry.Manager != autoscaler && entry.Subresource == "" &&
			entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:replicas"`) {
			managers = append(managers, entry.Manager)
		}
	}
	return managers
}

// childWrites returns the operator's writes to the children of a cow since a mark.
func (v visit) childWrites(c *cow, since audit.Mark) []audit.Event {
	return v.Audit.Since(since, v.ByOperator().And(audit.Writes, func(e audit.Event) bool {
		return (e.Resource == "deployments" || e.Resource == "services") && e.Namespace == c.Namespace && e.Name == c.Name
	}))
}

func deref(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}
