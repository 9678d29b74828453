// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/images"
	"lva.io/operators/clusters/longtest"
	nodemanifests "lva.io/operators/clusters/node/manifests"
)

// An embedded cluster has the rule from the start, so that its DNS need not be restarted. A kind cluster gets the same
// rule.
func TestCorefileHasTheLabRule(t *testing.T) {
	t.Parallel()
	objects, err := nodemanifests.Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		file, found, _ := unstructured.NestedString(object.Object, "data", corefile)
		if !found {
			continue
		}
		var lines []string
		for line := range strings.Lines(file) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		var rule []string
		for line := range strings.Lines(labNames) {
			rule = append(rule, strings.TrimSpace(line))
		}
		if text := strings.Join(lines, "\n"); !strings.Contains(text, strings.Join(rule, "\n")) {
			t.Errorf("the Corefile lacks the rule:\n%s", text)
		}
		return
	}
	t.Error("the node has no Corefile")
}

// Each image of a manifest must be in the catalogue, in the set with the add-on's name.
func TestImagesOfManifestsAreInTheCatalogue(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ingress", "pebble"} {
		p := &plain{name: name}
		objects, err := p.objects()
		if err != nil {
			t.Fatal(err)
		}
		catalogue, err := images.Load()
		if err != nil {
			t.Fatal(err)
		}
		set := catalogue.Set(name)
		if len(set) != 1 || !strings.HasSuffix(set[0].Reference, ":"+pinnedBy(objects)) &&
			!strings.HasSuffix(set[0].Reference, ":v"+pinnedBy(objects)) {
			t.Errorf("%s runs version %s, but the catalogue has %v", name, pinnedBy(objects), set)
		}
		for _, object := range objects {
			if object.GetKind() == "Deployment" && !strings.Contains(mustYAML(t, object), set[0].Reference) {
				t.Errorf("the Deployment of %s does not run %s", name, set[0].Reference)
			}
		}
	}
}

func mustYAML(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	text, err := yaml.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// On a shared cluster the DNS is not changed, and the error shows the rule to add.
func TestSharedClusterKeepsItsDNS(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	s.target.Shared = true
	err := Pebble(charts(t)).Install(t.Context(), s.target, s.report)
	if err == nil || !strings.Contains(err.Error(), `"kube-dns" not found`) {
		t.Errorf("Install() without a DNS: error = %v", err)
	}
	if _, err := s.client.CoreV1().Services(metav1.NamespaceSystem).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: dnsService}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 53}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = Pebble(charts(t)).Install(t.Context(), s.target, s.report)
	if err == nil || !strings.Contains(err.Error(), "not CoreDNS") {
		t.Errorf("Install() with a DNS that is not CoreDNS: error = %v", err)
	}
	if _, err := s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: coredns}, Data: map[string]string{corefile: ".:53 {\n}\n"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = Pebble(charts(t)).Install(t.Context(), s.target, s.report)
	if err == nil || !strings.Contains(err.Error(), labNames) {
		t.Errorf("Install() without the rule: error = %v", err)
	}
	if _, err := s.client.CoreV1().Namespaces().Get(t.Context(), "pebble",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("Pebble's namespace was created: %v", err)
	}
}

// The DNS of a kind cluster gets the rule, and its Pods get a new annotation, even if an earlier run was killed between
// the two.
func TestOwnClusterDNSGetsTheLabRule(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	one := int32(1)
	labels := map[string]string{"k8s-app": "kube-dns"}
	if _, err := s.client.CoreV1().Services(metav1.NamespaceSystem).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: dnsService}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 53}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: coredns}, Data: map[string]string{corefile: ".:53 {\n}\n"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.AppsV1().Deployments(metav1.NamespaceSystem).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: coredns},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "coredns", Image: "coredns"}}},
			},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	digests := func() (file, pods string) {
		t.Helper()
		rules, err := s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), coredns, metav1.GetOptions{})
		if err != nil || strings.Count(rules.Data[corefile], labNames) != 1 ||
			!strings.HasPrefix(rules.Data[corefile], ".:53 {\n}\n") {
			t.Fatalf("rules = %v, %v", rules.Data, err)
		}
		servers, err := s.client.AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), coredns, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return rules.Annotations[rewritten], servers.Spec.Template.Annotations[rewritten]
	}
	for _, moment := range []string{"at first", "again", "after a kill before its Pods were replaced"} {
		if strings.HasPrefix(moment, "after") {
			if _, err := s.client.AppsV1().Deployments(metav1.NamespaceSystem).Patch(t.Context(), coredns, types.JSONPatchType,
				[]byte(`[{"op":"remove","path":"/spec/template/metadata/annotations"}]`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := Pebble(charts(t)).Install(t.Context(), s.target, s.report); err != nil {
			t.Fatalf("%s: %v", moment, err)
		}
		if file, pods := digests(); file == "" || file != pods {
			t.Errorf("%s: the file is %q, but the Pods have read %q", moment, file, pods)
		}
	}
	secret, err := s.client.CoreV1().Secrets("pebble").Get(t.Context(), pebbleSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	authority, err := s.client.CoreV1().ConfigMaps("pebble").Get(t.Context(), pebbleCA, metav1.GetOptions{})
	if err != nil || !signedBy(secret.Data[corev1.TLSCertKey], []byte(authority.Data["ca.crt"])) {
		t.Errorf("the certificate is not signed by the authority of the ConfigMap: %v", err)
	}
	// Another user adds a rule after ours.
	rules, err := s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), coredns, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rules.Data[corefile] += "example.org:53 {\n}\n"
	if _, err := s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Update(t.Context(), rules,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := Pebble(charts(t)).Uninstall(t.Context(), s.target); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.CoreV1().Namespaces().Get(t.Context(), "pebble",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace still exists: %v", err)
	}
	rules, err = s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), coredns, metav1.GetOptions{})
	if want := ".:53 {\n}\nexample.org:53 {\n}\n"; err != nil ||
		rules.Data[corefile] != want ||
		rules.Annotations[rewritten] != "" {
		t.Errorf("rules after the uninstall = %q (%v), want %q", rules.Data[corefile], err, want)
	}
	servers, err := s.client.AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), coredns, metav1.GetOptions{})
	if err != nil || servers.Spec.Template.Annotations[rewritten] != "" {
		t.Errorf("the DNS's Pods that read our rule still run (%v)", err)
	}
	// A rule that existed before is not ours.
	rules.Data[corefile] += labNames
	if _, err := s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Update(t.Context(), rules,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := Pebble(charts(t)).Uninstall(t.Context(), s.target); err != nil {
		t.Fatal(err)
	}
	if rules, err = s.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), coredns,
		metav1.GetOptions{}); err != nil ||
		!strings.Contains(rules.Data[corefile], labNames) {
		t.Errorf("a rule that we did not write was removed (%v)", err)
	}
}

// A cluster that has a class keeps it, and does not get our controller. Uninstall removes ours completely.
func TestExistingIngressClassIsUsed(t *testing.T) {
	longtest.Proof(t)
	s := newScene(t)
	if err := Ingress().Install(t.Context(), s.target, s.report); err != nil {
		t.Fatal(err)
	}
	if err := Ingress().Uninstall(t.Context(), s.target); err != nil {
		t.Fatal(err)
	}
	classes, err := s.client.NetworkingV1().IngressClasses().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(classes.Items) != 0 {
		t.Errorf("IngressClasses after the uninstall = %v, %v, want none", classes.Items, err)
	}
	// A namespace of another owner is not changed.
	theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ingress"}}
	if _, err := s.client.CoreV1().Namespaces().Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.target.Shared = true
	if err := Ingress().Install(t.Context(), s.target, s.report); err == nil ||
		!strings.Contains(err.Error(), "a namespace ingress that we did not create") {
		t.Errorf("Install() in another owner's namespace: error = %v", err)
	}
	if _, err := s.client.NetworkingV1().IngressClasses().Create(t.Context(), &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: "nginx"}, Spec: networkingv1.IngressClassSpec{Controller: "k8s.io/ingress-nginx"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := Ingress().Install(t.Context(), s.target, s.report); err != nil {
		t.Fatal(err)
	}
	if !s.reported("the cluster has the class nginx") {
		t.Error("no message names the class that is used")
	}
	state, err := Ingress().State(t.Context(), s.target)
	if err != nil || !state.Usable || state.Detail != "class nginx" {
		t.Errorf("State() = %+v, %v", state, err)
	}
	if deployments, err := s.client.AppsV1().Deployments("ingress").List(t.Context(), metav1.ListOptions{}); err != nil ||
		len(deployments.Items) != 0 {
		t.Errorf("our controller was installed: %v, %v", deployments.Items, err)
	}
}
