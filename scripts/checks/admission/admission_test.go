// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package admission

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	reviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/checkout"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// policy denies ConfigMaps named matcha.
const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-matcha}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  validations:
  - {expression: "object.metadata.name != 'matcha'", message: not here}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-matcha}
spec: {policyName: no-matcha, validationActions: [Deny]}
`

func TestAdmission(t *testing.T) {
	t.Parallel()
	client := connect(t)
	t.Run("changes have their effect when they return", func(t *testing.T) { testEffects(t, client) })
	t.Run("only what was installed is removed", func(t *testing.T) { testRemovesItsOwn(t, client) })
	t.Run("a policy that is refused is named", func(t *testing.T) { testRefusals(t, client) })
}

func testEffects(t *testing.T, client *Client) {
	t.Helper()
	ctx := t.Context()
	want := func(when, name string, verdict Verdict, message string) {
		t.Helper()
		answer, err := client.Ask(ctx, create(name))
		if err != nil {
			t.Fatal(err)
		}
		if answer.Verdict != verdict || !strings.Contains(answer.String(), message) {
			t.Errorf("%s: Ask() for %s = %s, want %s with %q", when, name, answer, verdict, message)
		}
	}
	want("in the beginning", "matcha", Accepted, "")
	want("in the beginning", "No Name", Refused, "Invalid value")

	webhooks := register(t, client)
	// Try ten times, because a client that does not wait may be lucky once.
	for range 10 {
		want("with the webhook", "matcha", DeniedByWebhook, "there is no matcha")
		want("with the webhook", "mud", Unanswered, "418")
		want("with the webhook", "vanilla", Accepted, "")
		if err := client.Withdraw(ctx, webhooks); err != nil {
			t.Fatal(err)
		}
		want("without it", "matcha", Accepted, "")
		want("without it", "mud", Accepted, "")
		if err := client.Register(ctx, webhooks); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := client.Ask(ctx, create("vanilla"))
	if err != nil || !slices.Equal(answer.Warnings, []string{"again?"}) {
		t.Errorf("Warnings = %q, error = %v", answer.Warnings, err)
	}
	if err := client.Withdraw(ctx, webhooks); err != nil {
		t.Fatal(err)
	}

	read, err := ReadPolicy([]byte(policy))
	if err != nil || !read.Has("ValidatingAdmissionPolicyBinding") || read.Has("ConfigMap") {
		t.Fatalf("ReadPolicy() = %+v, %v", read, err)
	}
	for _, remove := range []func(context.Context, *Policy) error{
		client.Remove,
		func(ctx context.Context, policy *Policy) error {
			return errors.Join(client.Uninstall(ctx, policy), client.AwaitPolicies(ctx))
		},
	} {
		if answer, refused, err := client.Install(ctx, read); err != nil || refused != "" {
			t.Fatalf("Install() refused %s: %s, error = %v", refused, answer, err)
		}
		want("with the policy", "matcha", DeniedByPolicy, "not here")
		want("with the policy", "vanilla", Accepted, "")
		if err := remove(ctx, read); err != nil {
			t.Fatal(err)
		}
		want("without it", "matcha", Accepted, "")
	}
}

// testRemovesItsOwn checks that Remove deletes only objects that Install created, whatever a file names.
func testRemovesItsOwn(t *testing.T, client *Client) {
	t.Helper()
	theirs, err := ReadPolicy([]byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	if _, refused, err := client.Install(t.Context(), theirs); err != nil || refused != "" {
		t.Fatal(refused, err)
	}
	again, err := ReadPolicy([]byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	answer, refused, err := client.Install(t.Context(), again)
	if err != nil || refused != "the ValidatingAdmissionPolicy no-matcha" ||
		!strings.Contains(answer.Message, "already exists") {
		t.Errorf("Install() of an existing policy: refused %q: %s, error = %v", refused, answer, err)
	}
	if err := client.Remove(t.Context(), again); err != nil {
		t.Error(err)
	}
	policies := client.typed.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	if _, err := policies.Get(t.Context(), "no-matcha", metav1.GetOptions{}); err != nil {
		t.Errorf("the policy of another user was removed: %v", err)
	}
	// The account must have no other rights, even if a file gets past the check of its kinds.
	for _, document := range []string{
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: mallory}\n" +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n" +
			"subjects: [{kind: User, name: mallory}]\n",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: view}\n",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system}\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine}\n",
	} {
		file, err := ReadPolicy([]byte(policy + "---\n" + document))
		if err != nil {
			t.Fatal(err)
		}
		if beyond := file.Beyond(""); len(beyond) != 1 {
			t.Errorf("Beyond() = %q for\n%s", beyond, document)
		}
		file.objects = file.objects[2:]
		answer, refused, err := client.Install(t.Context(), file)
		if err != nil || refused == "" || !strings.Contains(answer.Message, "forbidden") {
			t.Errorf("Install() is not forbidden: refused %q: %s, error = %v\n%s", refused, answer, err, document)
		}
		if err := client.Remove(t.Context(), file); err != nil {
			t.Error(err)
		}
	}
	if _, err := client.typed.RbacV1().ClusterRoles().Get(t.Context(), "view", metav1.GetOptions{}); err != nil {
		t.Errorf("the ClusterRole view is gone: %v", err)
	}
	if err := client.Remove(t.Context(), theirs); err != nil {
		t.Error(err)
	}
	if beyond := theirs.Beyond("demo.lva.io"); len(beyond) != 1 ||
		!strings.Contains(beyond[0], `a rule for the API group ""`) {
		t.Errorf("Beyond() of a policy for ConfigMaps = %q", beyond)
	}
}

func testRefusals(t *testing.T, client *Client) {
	t.Helper()
	for message, replaced := range map[string][2]string{
		"spec.validations[0].expression": {"!= 'matcha'", "!= "},
		`unknown field "spec.validate"`:  {"validations:", "validate:"},
		"no matches for kind":            {"kind: ValidatingAdmissionPolicy\n", "kind: ValidatingPolicy\n"},
	} {
		read, err := ReadPolicy([]byte(strings.ReplaceAll(policy, replaced[0], replaced[1])))
		if err != nil {
			t.Fatal(err)
		}
		answer, refused, err := client.Install(t.Context(), read)
		if err != nil || !strings.HasSuffix(refused, "Policy no-matcha") || answer.Verdict != Refused ||
			!strings.Contains(answer.Message, message) {
			t.Errorf("%q was refused with %s (%v), want %q in the message", refused, answer, err, message)
		}
		if err := client.Remove(t.Context(), read); err != nil {
			t.Error(err)
		}
	}
	if _, err := ReadPolicy([]byte("spec: {")); err == nil {
		t.Error("ReadPolicy() of invalid YAML: error = nil")
	}
}

// connect starts a cluster and returns a client of it.
func connect(t *testing.T) *Client {
	t.Helper()
	root, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := root.EnsureControlPlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	cluster, err := embedded.Start(t.Context(), root.ControlPlane)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	client, err := NewClient(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// create returns a dry-run request that creates a ConfigMap.
func create(name string) Request {
	return func(ctx context.Context, client dynamic.Interface) (*unstructured.Unstructured, error) {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		object.SetName(name)
		return client.Resource(configMaps).Namespace("default").Create(ctx,
			object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
}

// register registers a validating webhook for ConfigMaps. It denies matcha, gives no usable answer to mud, and warns of
// vanilla.
func register(t *testing.T, client *Client) Webhooks {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review reviewv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Response = &reviewv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		switch review.Request.Name {
		case "matcha":
			review.Response.Allowed, review.Response.Result = false, &metav1.Status{Message: "there is no matcha"}
		case "mud":
			w.WriteHeader(http.StatusTeapot)
			return
		case "vanilla":
			review.Response.Warnings = []string{"again?"}
		}
		review.Request = nil
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	err := client.Register(t.Context(), Webhooks{Validating: []admissionv1.ValidatingWebhookConfiguration{{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "shop.example.com", Rules: canaryRules(), SideEffects: new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{
				URL:      &server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
		}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	// Read the configurations as the API server stores them, with all defaults.
	webhooks, err := client.Webhooks(t.Context(), configMaps.GroupResource())
	if err != nil || len(webhooks.Validating) != 1 || len(webhooks.Mutating) != 0 {
		t.Fatalf("Webhooks() = %+v, %v, want one webhook", webhooks, err)
	}
	if got := webhooks.SideEffects()["shop.example.com"]; got != admissionv1.SideEffectClassNone {
		t.Errorf("SideEffects() = %q", got)
	}
	if others, err := client.Webhooks(t.Context(), schema.GroupResource{Resource: "secrets"}); err != nil ||
		len(others.Validating) > 0 {
		t.Errorf("Webhooks() for Secrets = %+v, %v, want none", others, err)
	}
	return webhooks
}
