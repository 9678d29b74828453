// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package shared

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/grading/stage"
)

// authReader is the Role of kube-system with which one may read the front proxy's authority.
const authReader = "extension-apiserver-authentication-reader"

// account makes the account by which what a submission brings comes into a cluster of others: its kinds, its
// registrations of webhooks, namespaces of its own with all that is in them, and roles. It can give an operator no
// right that it does not have itself: all to the kinds of the lab's API groups, and what every operator needs. That of
// an aggregated API server may also register it, and give it what the farm of lab 07 needs: to read Pods, and the front
// proxy's authority. An operator that owns workloads could change those of everybody, so that it gets rights to them on
// kind only, where the cluster is the grader's own.
func (o *opened) account(ctx context.Context, what *stage.Submission) (*existing.Account, error) {
	all := []string{"*"}
	bring := []string{"get", "list", "watch", "create"}
	rules := []rbacv1.PolicyRule{
		{APIGroups: what.Groups, Resources: all, Verbs: all},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: bring},
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: bring},
		{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles", "clusterrolebindings"}, Verbs: bring},
		{
			APIGroups: []string{"admissionregistration.k8s.io"},
			Resources: []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"}, Verbs: bring,
		},
		// What an operator needs besides its own kinds: Events, and to ask who scrapes its metrics.
		{
			APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"},
			Verbs: []string{"get", "list", "watch", "create", "patch", "update"},
		},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
		{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
	}
	readPods := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}}
	if what.Workloads && o.shared.Pods != nil {
		verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
		rules = append(rules, readPods,
			rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: verbs},
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: verbs},
		)
	}
	// An operator that migrates what is stored of its kinds changes the status of their definitions, and of no others.
	var own []string
	for _, definition := range what.Manifests.AllVersions() {
		if group, _, _ := unstructured.NestedString(definition.Object, "spec", "group"); slices.Contains(what.Groups, group) {
			own = append(own, definition.GetName())
		}
	}
	if what.Manifests.Converts() && len(own) > 0 {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions/status"}, ResourceNames: own,
			Verbs: []string{"get", "update", "patch"},
		})
	}
	if what.Aggregated {
		rbac := []string{"rbac.authorization.k8s.io"}
		rules = append(rules, readPods,
			rbacv1.PolicyRule{APIGroups: []string{"apiregistration.k8s.io"}, Resources: []string{"apiservices"}, Verbs: bring},
			rbacv1.PolicyRule{APIGroups: rbac, Resources: []string{"rolebindings"}, Verbs: bring},
			rbacv1.PolicyRule{APIGroups: rbac, Resources: []string{"roles"}, Verbs: []string{"bind"}, ResourceNames: []string{authReader}},
		)
	}
	return existing.NewAccount(ctx, o.Config(), rules)
}
