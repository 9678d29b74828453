// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pod

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/stagetest"
	"lva.io/operators/scripts/grading/submission"
)

// A Role that a marker sets for another namespace is allowed there and in the operator's own namespace, and nowhere
// else.
func TestRolesInOtherNamespaces(t *testing.T) {
	t.Parallel()
	manifests := &submission.Manifests{Roles: []rbacv1.Role{{
		ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: "parlour"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}},
	}}}
	const in = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: NAMESPACE}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: NAMESPACE}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: manager, namespace: reach-system}]
`
	for namespace, allowed := range map[string]bool{
		"parlour": true, "reach-system": true, "default": false, "kube-system": false,
	} {
		err := confine(stagetest.Objects(t, manager+strings.ReplaceAll(in, "NAMESPACE", namespace)), manifests, true)
		if (err == nil) != allowed {
			t.Errorf("confine() in the namespace %s: want allowed %t, error = %v", namespace, allowed, err)
		}
	}
}

// A binding of the Role that reads the front proxy's authority needs no marker, so config/default must not contain that
// Role.
func TestFrontProxyRoleCannotBeReplaced(t *testing.T) {
	t.Parallel()
	manifests := &submission.Manifests{Roles: []rbacv1.Role{{
		ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: metav1.NamespaceSystem},
	}}}
	const in = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: extension-apiserver-authentication-reader, namespace: kube-system}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{kind: ServiceAccount, name: manager, namespace: reach-system}]
`
	err := confine(stagetest.Objects(t, manager+in), manifests, true)
	if err == nil ||
		!strings.Contains(err.Error(), "Role extension-apiserver-authentication-reader, which is one of Kubernetes' own") {
		t.Errorf("confine() error = %v, want a refusal of the Role", err)
	}
}

// Neither Install nor Deliver continues after kustomize.
func TestClusterAdminIsNeitherInstalledNorDelivered(t *testing.T) {
	longtest.Proof(t)
	original, _, kubectl := solution(t, "5")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(original.Dir)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "config", "rbac", "role_binding.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bound := strings.Replace(string(content), "name: manager-role\n", "name: cluster-admin\n", 1)
	if err := os.WriteFile(file, []byte(bound), 0o600); err != nil {
		t.Fatal(err)
	}
	b := stagetest.Builder(t, dir)
	manifests, err := b.Generate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, what := &podStage{kubectl: kubectl}, stage.Submission{Builder: b, Manifests: manifests}
	_, installed := p.Install(t.Context(), what, stage.Gateway{})
	_, delivered := p.Deliver(t.Context(), what)
	for _, err := range []error{installed, delivered} {
		if reason := stagetest.ProblemOf(t, err).Reason; !strings.Contains(reason,
			"binds the operator to the ClusterRole cluster-admin") {
			t.Errorf("got reason %s, want the binding to cluster-admin", reason)
		}
	}
}
