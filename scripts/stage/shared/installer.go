// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package shared

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"

	"lva.io/operators/clusters/existing"
)

// authReader is the Role of kube-system with which one may read the front proxy's authority.
const authReader = "extension-apiserver-authentication-reader"

// account makes the account by which what a submission brings comes into a cluster of others: its kinds, its registrations
// of webhooks, namespaces of its own with all that is in them, and roles. It can give an operator no right that it does not
// have itself: all to the kinds of these API groups, and what every operator needs. That of an aggregated API server may also register it,
// and give it what the farm of lab 07 needs: to read Pods, and the front proxy's authority.
func (o *opened) account(ctx context.Context, groups []string, aggregated bool) (*existing.Account, error) {
	all := []string{"*"}
	bring := []string{"get", "list", "watch", "create"}
	rules := []rbacv1.PolicyRule{
		{APIGroups: groups, Resources: all, Verbs: all},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: bring},
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: bring},
		{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles", "clusterrolebindings"}, Verbs: bring},
		{
			APIGroups: []string{"admissionregistration.k8s.io"},
			Resources: []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"}, Verbs: bring,
		},
		// What an operator needs besides its own kinds: Events, and to ask who scrapes its metrics.
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"get", "list", "watch", "create", "patch", "update"}},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
		{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
	}
	if aggregated {
		rbac := []string{"rbac.authorization.k8s.io"}
		rules = append(rules,
			rbacv1.PolicyRule{APIGroups: []string{"apiregistration.k8s.io"}, Resources: []string{"apiservices"}, Verbs: bring},
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
			rbacv1.PolicyRule{APIGroups: rbac, Resources: []string{"rolebindings"}, Verbs: bring},
			rbacv1.PolicyRule{APIGroups: rbac, Resources: []string{"roles"}, Verbs: []string{"bind"}, ResourceNames: []string{authReader}},
		)
	}
	return existing.NewAccount(ctx, o.Config(), rules)
}
