// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pod

import (
	"os"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/stage/stagetest"
	"lva.io/operators/scripts/grading/submission"
)

func TestMain(m *testing.M) { os.Exit(stagetest.Main(m)) }

const manager = `---
apiVersion: v1
kind: Namespace
metadata: {name: reach-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager, namespace: reach-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: reach-system}
spec:
  selector: {matchLabels: {app: manager}}
  template:
    metadata: {labels: {app: manager}}
    spec:
      serviceAccountName: manager
      containers: [{name: manager, image: controller}]
`

// In a cluster of others, config/default may only create objects of its own, which give no access to existing ones.
func TestDeploymentIsConfinedToItsOwnObjects(t *testing.T) {
	longtest.Proof(t)
	own := stagetest.Cluster(t)
	admin := kubernetes.NewForConfigOrDie(own.Config())
	for _, test := range []struct{ name, brings, problem string }{
		{"nothing else", manager, ""},
		{"an administrator", manager + `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mallory}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: manager, namespace: reach-system}]
`, "the ClusterRoleBinding mallory needs rights that no lab's operator has"},
		{"a role for everything", manager + `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mallory}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
`, "the ClusterRole mallory needs rights that no lab's operator has"},
		{"something for kube-system", manager + `---
apiVersion: v1
kind: ConfigMap
metadata: {name: mallory, namespace: kube-system}
`, "the ConfigMap mallory needs rights that no lab's operator has"},
		{"a kind that no lab needs", manager + `---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: mallory}
provisioner: example.com/none
`, "the StorageClass mallory needs rights that no lab's operator has"},
		{
			"an existing namespace", strings.ReplaceAll(manager, "reach-system", "kube-system"),
			"the Namespace kube-system already exists in the cluster",
		},
		{
			"the account of others",
			strings.ReplaceAll(strings.Replace(manager, "name: reach-system", "name: reach-too", 1),
				"namespace: reach-system", "namespace: kube-system"),
			"does not contain it",
		},
		{
			"no account", strings.Replace(manager, "serviceAccountName: manager", "serviceAccountName: nobody", 1),
			"config/default contains no ServiceAccount nobody",
		},
		{"a webhook for everything", manager + `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: mallory}
webhooks:
- name: mallory.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]
`, `the webhook mallory.example.com has a rule for the API group "*"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster, err := existing.Open(t.Context(), own.Kubeconfig, embedded.Context)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if _, err := cluster.Clean(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			bring := []string{"get", "list", "watch", "create"}
			account, err := existing.NewAccount(t.Context(), own.Config(), []rbacv1.PolicyRule{
				{
					APIGroups: []string{"rbac.authorization.k8s.io"},
					Resources: []string{"clusterroles", "clusterrolebindings"}, Verbs: bring,
				},
				{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: bring},
			})
			if err != nil {
				t.Fatal(err)
			}
			d, err := newDeployment(stagetest.Objects(t, test.brings), &submission.Manifests{})
			if err != nil {
				t.Fatal(err)
			}
			target := install.Target{
				Config:           account.Config,
				Shared:           true,
				NamespaceCreated: account.Own,
				Groups:           []string{"demo.lva.io"},
			}
			shown := ""
			_, _, err = d.install(t.Context(), target, installOptions{reference: "x", gateway: stage.Gateway{
				Host: "https://127.0.0.1:1", Exchange: func(token string) string { shown = token[:4]; return "instead" },
			}})
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("want an error that contains %q, got %v", test.problem, err)
				}
			} else {
				secret, secretErr := admin.CoreV1().Secrets("reach-system").Get(t.Context(), accessName, metav1.GetOptions{})
				if err != nil || secretErr != nil || shown == "" || string(secret.Data["token"]) != "instead" {
					t.Errorf("install() error = %v, Secret error = %v, token %q, want the proxy's token", err, secretErr, shown)
				}
			}
			for _, name := range []string{"mallory"} {
				if _, err := admin.RbacV1().ClusterRoleBindings().
					Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					t.Errorf("Get() of the ClusterRoleBinding %s: error = %v, want not found", name, err)
				}
			}
		})
	}
}
