// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pod

import (
	"maps"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/stage/stagetest"
	"lva.io/operators/scripts/grading/submission"
)

func TestSolutionsStayWithinTheirMarkers(t *testing.T) {
	longtest.Proof(t)
	for _, lab := range []string{"4", "5", "6", "7", "8", "9", "11"} {
		b, manifests, kubectl := solution(t, lab)
		objects, err := b.Kustomize(t.Context(), kubectl)
		if err != nil {
			t.Fatal(err)
		}
		for _, gated := range []bool{false, true} {
			if err := confine(objects, manifests, gated && lab != "6"); err != nil { // lab 06 has no operator, and so no gateway
				t.Errorf("lab %s: confine() with gateway %t: error = %v", lab, gated, err)
			}
		}
	}
}

// fields returns the fields of an object in YAML.
func fields(t *testing.T, content string) (fields map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(content), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// inPod returns a function that adds fields to the Pods of lab 08's solution.
func inPod(t *testing.T, content string) func([]*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	more := fields(t, content)
	return func(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
		for _, object := range ofKind(objects, "Deployment") {
			spec, _, _ := unstructured.NestedMap(object.Object, "spec", "template", "spec")
			for field, value := range more {
				if field == "container" {
					container := spec["containers"].([]any)[0].(map[string]any)
					maps.Copy(container, value.(map[string]any))
					continue
				}
				spec[field] = value
			}
			if err := unstructured.SetNestedMap(object.Object, spec, "spec", "template", "spec"); err != nil {
				t.Error(err)
			}
		}
		return objects
	}
}

// rule returns a function that adds a rule to a role of lab 08's solution.
func rule(t *testing.T, role, content string) func([]*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	more := fields(t, content)
	return func(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
		object := submission.Find(objects, role)
		rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
		if err := unstructured.SetNestedSlice(object.Object, append(rules, more), "rules"); err != nil {
			t.Error(err)
		}
		return objects
	}
}

// The test adds to the solution of lab 08, as rendered by kustomize, what a submission might contain.
func TestObjectsBeyondTheMarkersAreRefused(t *testing.T) {
	b, manifests, kubectl := solution(t, "8")
	rendered, err := b.Kustomize(t.Context(), kubectl)
	if err != nil {
		t.Fatal(err)
	}
	adding := func(content string) func([]*unstructured.Unstructured) []*unstructured.Unstructured {
		more := stagetest.Objects(t, "---\n"+content)
		return func(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
			return append(objects, more...)
		}
	}
	bind := func(kind, name, subject string) string {
		return "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: mallory}\n" +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: " + kind + ", name: " + name + "}\n" +
			"subjects: [" + subject + "]\n"
	}
	const operator = "{kind: ServiceAccount, name: lolcow-controller-manager, namespace: lolcow-system}"
	const role = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: mallory}\n"
	const job = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: mallory, namespace: lolcow-system}\n" +
		"spec: {template: {spec: {serviceAccountName: lolcow-controller-manager, " +
		"automountServiceAccountToken: %, containers: [{name: a, image: controller}]}}}\n"
	for _, test := range []struct {
		name   string
		change func([]*unstructured.Unstructured) []*unstructured.Unstructured
		// delivered is the error without a gateway in front of the operator. gated is the error with one, if it differs.
		delivered, gated string
	}{
		{
			"cluster-admin", adding(bind("ClusterRole", "cluster-admin", operator)),
			"ClusterRoleBinding mallory, which binds the operator to the ClusterRole cluster-admin", "",
		},
		{
			"a role for everything", adding(role + "rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]\n" +
				bind("ClusterRole", "mallory", operator)),
			"ClusterRoleBinding mallory, whose ClusterRole mallory lets the operator * * of *", "",
		},
		{
			"another rule in the manager's role",
			rule(t, "lolcow-manager-role", "{apiGroups: [''], resources: [secrets], verbs: [get]}"),
			`lets the operator get secrets, which none of its markers allows: ` +
				`write // +kubebuilder:rbac:groups="",resources=secrets,verbs=get,`, "",
		},
		{
			"another rule for leader election",
			rule(t, "lolcow-leader-election-role", "{apiGroups: [''], resources: [secrets], verbs: [get]}"),
			"RoleBinding lolcow-leader-election-rolebinding, " +
				"whose Role lolcow-leader-election-role lets the operator get secrets", "",
		},
		{
			"a URL", rule(t, "lolcow-metrics-auth-role", "{nonResourceURLs: [/logs/*], verbs: [get]}"),
			"verbs=get, or remove the rule", "",
		},
		{
			"a second role with the rules of its markers",
			adding(role + "rules: [{apiGroups: [my.domain], resources: [lolcows], verbs: [list]}]\n" +
				bind("ClusterRole", "mallory", operator)), "", "",
		},
		{"a role for people", adding(role + "rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]\n"), "", ""},
		{
			"a role that aggregates rules",
			adding(role + "aggregationRule: {clusterRoleSelectors: [{}]}\n" + bind("ClusterRole", "mallory", operator)),
			"aggregates the rules of other roles", "",
		},
		{
			"one of Kubernetes' roles", adding(strings.Replace(role, "mallory", "system:basic-user", 1)),
			"ClusterRole system:basic-user, which is one of Kubernetes' own", "",
		},
		{
			"all accounts", adding(bind("ClusterRole", "lolcow-manager-role",
				"{kind: Group, apiGroup: rbac.authorization.k8s.io, name: 'system:serviceaccounts'}")),
			"grants rights to the Group system:serviceaccounts", "",
		},
		{
			"an account of others", adding(bind("ClusterRole", "lolcow-manager-role",
				"{kind: ServiceAccount, name: default, namespace: kube-system}")),
			"grants rights to the ServiceAccount kube-system/default", "",
		},
		{
			"the reader of the front proxy", adding(strings.NewReplacer(
				"ClusterRoleBinding", "RoleBinding", "name: mallory}", "name: mallory, namespace: kube-system}",
			).Replace(bind("Role", "extension-apiserver-authentication-reader", operator))), "", "",
		},
		{"the auth delegator", adding(bind("ClusterRole", "system:auth-delegator", operator)), "", ""},
		{
			"kube-system", adding("{apiVersion: v1, kind: ConfigMap, metadata: {name: mallory, namespace: kube-system}}"),
			"the namespace kube-system belongs to the cluster", "",
		},
		{
			"a namespace of an add-on", adding("{apiVersion: v1, kind: Namespace, metadata: {name: cert-manager}}"),
			"the namespace cert-manager belongs to the cluster", "",
		},
		{
			"a namespace of others",
			adding("{apiVersion: v1, kind: ConfigMap, metadata: {name: mallory, namespace: parlour}}"),
			"but not its namespace parlour", "",
		},
		{
			"an object of its own kind", adding("{apiVersion: my.domain/v1alpha1, kind: Lolcow, metadata: {name: mallory}}"),
			"", "",
		},
		{
			"cert-manager's kinds", adding("{apiVersion: cert-manager.io/v1, kind: ClusterIssuer, metadata: {name: mallory}}"),
			"", "",
		},
		{
			"a volume of the node", adding("{apiVersion: v1, kind: PersistentVolume, metadata: {name: mallory}}"),
			"PersistentVolume mallory, a kind that can bypass", "",
		},
		{
			"a request for a certificate",
			adding("{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: mallory}}"),
			"CertificateSigningRequest mallory, a kind that can bypass", "",
		},
		{
			"a token",
			adding("{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: mallory}}"),
			"Secret mallory, of the type kubernetes.io/service-account-token", "",
		},
		{
			"a bootstrap token",
			adding("{apiVersion: v1, kind: Secret, type: bootstrap.kubernetes.io/token, metadata: {name: mallory}}"),
			"Secret mallory, of the type bootstrap.kubernetes.io/token", "",
		},
		{
			"a webhook about roles",
			adding("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, " +
				"metadata: {name: mallory}, webhooks: [{name: a, rules: [{apiGroups: ['*']}]}]}"),
			`MutatingWebhookConfiguration mallory, which mutates objects of the API group "*"`, "",
		},
		{
			"a policy about roles",
			adding("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: mallory}, " +
				"spec: {matchConstraints: {resourceRules: [{apiGroups: [rbac.authorization.k8s.io]}]}}}"),
			"MutatingAdmissionPolicy mallory, which mutates objects", "",
		},
		{
			"a policy about Pods",
			adding("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: mallory}, " +
				"spec: {matchConstraints: {resourceRules: [{apiGroups: [''], resources: [pods]}]}}}"),
			`MutatingAdmissionPolicy mallory, which mutates objects of the API group "" (pods)`, "",
		},
		{
			"a policy about the whole core group",
			adding("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: mallory}, " +
				"spec: {matchConstraints: {resourceRules: [{apiGroups: [''], resources: ['*/*']}]}}}"),
			`of the API group "" (*/*)`, "",
		},
		{
			"a policy about Deployments",
			adding("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: mallory}, " +
				"spec: {matchConstraints: {resourceRules: [{apiGroups: [my.domain, apps], resources: [deployments]}]}}}"),
			`of the API group "apps" (deployments)`, "",
		},
		{
			"a policy about volumes",
			adding("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: mallory}, " +
				"spec: {matchConstraints: {resourceRules: [{apiGroups: [''], resources: [persistentvolumes]}]}}}"),
			`MutatingAdmissionPolicy mallory, which mutates objects of the API group "" (persistentvolumes), ` +
				`and so can change rights, or the access of Pods to their nodes`, "",
		},
		{
			"a webhook about volumes' status",
			adding("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, " +
				"metadata: {name: mallory}, " +
				"webhooks: [{name: a, rules: [{apiGroups: [''], resources: [persistentvolumes/status]}]}]}"),
			`MutatingWebhookConfiguration mallory, which mutates objects of the API group "" (persistentvolumes/status)`, "",
		},
		{
			"a webhook about StorageClasses",
			adding("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, " +
				"metadata: {name: mallory}, " +
				"webhooks: [{name: a, rules: [{apiGroups: [storage.k8s.io], resources: [storageclasses]}]}]}"),
			`of the API group "storage.k8s.io" (storageclasses)`, "",
		},
		{
			"a policy about requests for certificates",
			adding("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: mallory}, " +
				"spec: {matchConstraints: {resourceRules: [" +
				"{apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests]}]}}}"),
			`of the API group "certificates.k8s.io" (certificatesigningrequests)`, "",
		},
		{
			"a policy about claims",
			adding("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: mallory}, " +
				"spec: {matchConstraints: {resourceRules: [{apiGroups: [''], resources: [persistentvolumeclaims]}]}}}"), "", "",
		},
		{
			"a policy about ConfigMaps",
			adding("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: mallory}, " +
				"spec: {matchConstraints: {resourceRules: [{apiGroups: [''], resources: [configmaps]}]}}}"), "", "",
		},
		{
			"a webhook about its own kind",
			adding("{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, " +
				"metadata: {name: mallory}, " +
				"webhooks: [{name: a, rules: [{apiGroups: [my.domain], resources: [lolcows]}]}]}"), "", "",
		},
		{
			"a second role of the manager's name", adding(strings.Replace(role, "mallory", "lolcow-manager-role", 1) +
				"rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]\n"),
			"ClusterRoleBinding lolcow-manager-rolebinding, " +
				"whose ClusterRole lolcow-manager-role lets the operator * * of *", "",
		},
		{
			"the host's files", inPod(t, "volumes: [{name: a, hostPath: {path: /}}]"),
			"Deployment lolcow-controller-manager, whose Pods could escape their containers", "",
		},
		{"the host's network", inPod(t, "hostNetwork: true"), "hostNetwork=true", ""},
		{"the host's processes", inPod(t, "hostPID: true"), "hostPID=true", ""},
		{"the host's IPC", inPod(t, "hostIPC: true"), "hostIPC=true", ""},
		{
			"privileged", inPod(t, "container: {securityContext: {privileged: true}}"),
			"must not set securityContext.privileged=true", "",
		},
		{"a port of the host", inPod(t, "container: {ports: [{containerPort: 80, hostPort: 80}]}"), "hostPort", ""},
		{
			"a network drive", inPod(t, "volumes: [{name: a, nfs: {server: example.com, path: /}}]"),
			"whose volume a comes from outside the cluster", "",
		},
		{
			"another account", inPod(t, "serviceAccountName: mallory"), "config/default contains no ServiceAccount mallory, " +
				"which its Deployment lolcow-controller-manager references", "",
		},
		{
			"a token of its own", inPod(t, "volumes: [{name: a, projected: {sources: "+
				"[{configMap: {name: x}}, {serviceAccountToken: {path: token}}]}}]"),
			"", "Deployment lolcow-controller-manager, whose volume a projects a credential of its own",
		},
		{
			"a certificate of its own", inPod(t, "volumes: [{name: a, projected: {sources: "+
				"[{podCertificate: {signerName: kubernetes.io/kube-apiserver-client-pod}}]}}]"),
			"whose volume a projects a credential of its own", "",
		},
		{
			"another Pod", adding(strings.Replace(job, "%", "true", 1)), "",
			"Job mallory, whose Pods could reach the API server without the grader's proxy",
		},
		{"another Pod without a token", adding(strings.Replace(job, "%", "false", 1)), "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var objects []*unstructured.Unstructured
			for _, object := range rendered {
				objects = append(objects, object.DeepCopy())
			}
			objects = test.change(objects)
			if test.gated == "" {
				test.gated = test.delivered
			}
			for _, wanted := range []struct {
				gated bool
				want  string
			}{{false, test.delivered}, {true, test.gated}} {
				err := confine(objects, manifests, wanted.gated)
				if wanted.want == "" {
					if err != nil {
						t.Errorf("confine() with gateway %t: error = %v, want none", wanted.gated, err)
					}
					continue
				}
				if err == nil || !strings.Contains(stagetest.ProblemOf(t, err).Reason, wanted.want) {
					t.Errorf("confine() with gateway %t: want a problem that contains %q, got %v", wanted.gated, wanted.want, err)
				}
			}
		})
	}
}

// An object without a namespace is installed in the namespace that kubectl would use. In the operator's own namespace,
// it would replace an object of the same name that confine has checked.
func TestObjectsWithoutANamespaceGoToDefault(t *testing.T) {
	own := stagetest.Cluster(t)
	admin := kubernetes.NewForConfigOrDie(own.Config())
	all, err := existing.Open(t.Context(), own.Kubeconfig, embedded.Context)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := all.Clean(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	const roles = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n" +
		"metadata: {name: reader, namespace: reach-system}\n" +
		"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: reader}\n" +
		"rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]\n"
	d, err := newDeployment(stagetest.Objects(t, manager+roles), &submission.Manifests{})
	if err != nil {
		t.Fatal(err)
	}
	options := installOptions{reference: "x", gateway: stage.Gateway{Host: "https://127.0.0.1:1"}}
	if _, _, err := d.install(t.Context(), install.Target{Config: own.Config()}, options); err != nil {
		t.Fatal(err)
	}
	for namespace, rules := range map[string]int{"reach-system": 0, metav1.NamespaceDefault: 1} {
		role, err := admin.RbacV1().Roles(namespace).Get(t.Context(), "reader", metav1.GetOptions{})
		if err != nil || len(role.Rules) != rules {
			t.Errorf("the Role in %s has %d rules, want %d: %v", namespace, len(role.Rules), rules, err)
		}
	}
}

// In a cluster of the run's own, a role to which others are bound does not change.
func TestExistingObjectsAreNotReplaced(t *testing.T) {
	own := stagetest.Cluster(t)
	admin := kubernetes.NewForConfigOrDie(own.Config()).RbacV1().ClusterRoles()
	const name = "of-the-cluster"
	if _, err := admin.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	all, err := existing.Open(t.Context(), own.Kubeconfig, embedded.Context)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := all.Clean(t.Context()); err != nil {
			t.Error(err)
		}
		if err := admin.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	const role = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: of-the-cluster}\n" +
		"rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]\n"
	options := installOptions{reference: "x", gateway: stage.Gateway{Host: "https://127.0.0.1:1"}}
	for _, brings := range []string{manager, manager + role} {
		// The second installation may replace the objects of the first one.
		for range 2 {
			d, err := newDeployment(stagetest.Objects(t, brings), &submission.Manifests{})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = d.install(t.Context(), install.Target{Config: own.Config()}, options)
			refused := err != nil &&
				strings.Contains(err.Error(), "ClusterRole of-the-cluster, which already exists in the cluster")
			if refused != strings.Contains(brings, role) {
				t.Errorf("install() refused: %t, error = %v", refused, err)
			}
		}
	}
	if now, err := admin.Get(t.Context(), name, metav1.GetOptions{}); err != nil || len(now.Rules) != 0 {
		t.Errorf("the cluster's role has the rules %v, error = %v", now.Rules, err)
	}
}
