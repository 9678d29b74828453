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

// authReader is the Role in kube-system that allows reading the front proxy's authority.
const authReader = "extension-apiserver-authentication-reader"

// account creates the account that installs the objects of a submission in a cluster of others: its kinds, its
// registrations of webhooks, its own namespaces with everything in them, and roles. The account can grant an operator
// no right that it does not have itself. It has all rights to the kinds of the lab's API groups, and the rights that
// every operator needs. For an aggregated API server, it may also register the server, and grant what the farm of lab
// 07 needs: to read Pods, and the front proxy's authority. An operator that owns workloads could change those of all
// users, so it gets rights to them only on kind, where the cluster is the grader's own.
func (o *opened) account(ctx context.Context, what *stage.Submission) (*existing.Account, error) {
	all := []string{"*"}
	bring := []string{"get", "list", "watch", "create"}
	rules := []rbacv1.PolicyRule{
		{APIGroups: what.Groups, Resources: all, Verbs: all},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: bring},
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: bring},
		{
			APIGroups: []string{"rbac.authorization.k8s.io"},
			Resources: []string{"clusterroles", "clusterrolebindings"}, Verbs: bring,
		},
		{
			APIGroups: []string{"admissionregistration.k8s.io"},
			Resources: []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"}, Verbs: bring,
		},
		// Besides its own kinds, an operator needs Events, and reviews of the clients that scrape its metrics.
		{
			APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"},
			Verbs: []string{"get", "list", "watch", "create", "patch", "update"},
		},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
		{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
	}
	readPods := rbacv1.PolicyRule{
		APIGroups: []string{""},
		Resources: []string{"pods"},
		Verbs:     []string{"get", "list", "watch"},
	}
	if what.Workloads && o.shared.Pods != nil {
		verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
		rules = append(rules, readPods,
			rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: verbs},
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: verbs},
		)
	}
	// An operator that migrates the stored objects of its kinds changes the status of their definitions, and of no others.
	var own []string
	for _, definition := range what.Manifests.AllVersions() {
		if group, _, _ := unstructured.NestedString(definition.Object, "spec", "group"); slices.Contains(what.Groups, group) {
			own = append(own, definition.GetName())
		}
	}
	if what.Manifests.Converts() && len(own) > 0 {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups:     []string{"apiextensions.k8s.io"},
			Resources:     []string{"customresourcedefinitions/status"},
			ResourceNames: own,
			Verbs:         []string{"get", "update", "patch"},
		})
	}
	if what.Aggregated {
		rbac := []string{"rbac.authorization.k8s.io"}
		rules = append(rules, readPods,
			rbacv1.PolicyRule{APIGroups: []string{"apiregistration.k8s.io"}, Resources: []string{"apiservices"}, Verbs: bring},
			rbacv1.PolicyRule{APIGroups: rbac, Resources: []string{"rolebindings"}, Verbs: bring},
			rbacv1.PolicyRule{
				APIGroups:     rbac,
				Resources:     []string{"roles"},
				Verbs:         []string{"bind"},
				ResourceNames: []string{authReader},
			},
		)
	}
	return existing.NewAccount(ctx, o.Config(), rules)
}
