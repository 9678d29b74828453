// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/scripts/grading/submission/samples"
)

const (
	webhookMarker = "\n// +kubebuilder:webhook:path=/validate-icecream,mutating=false,failurePolicy=fail," +
		"sideEffects=None,groups=demo.lva.io,resources=icecreams,verbs=create;update,versions=v1," +
		"name=vicecream.kb.io,admissionReviewVersions=v1\n"
	// A marker as before 2020, without sideEffects and admissionReviewVersions.
	oldMarker = "\n// +kubebuilder:webhook:path=/validate-icecream,mutating=false,failurePolicy=fail," +
		"groups=demo.lva.io,resources=icecreams,verbs=create;update,versions=v1,name=vicecream.kb.io\n"
)

func TestGenerateWebhooks(t *testing.T) {
	t.Parallel()
	main := samples.Module + "-- cmd/main.go --\n" + samples.Program
	const (
		stale = "config/webhook/manifests.yaml is older than the markers: run `make manifests` (the markers were graded)"
		old   = "config/webhook/manifests.yaml is for a Kubernetes before 1.22 (admissionregistration.k8s.io/v1beta1): " +
			"it was used as if it were v1"
		wrong = "controller-gen fails on the markers of the webhooks, so config/webhook/manifests.yaml was used: "
		lost  = "the webhook vicecream.kb.io uses the Service webhook-service, " +
			"which config/webhook/service.yaml does not define: " +
			"the API server will not find it"
	)
	for _, test := range []struct {
		name, files string
		notices     []string // their prefixes
		described   string   // of each webhook: name, operations, Service
		services    string   // name, ports
	}{
		{"neither", main, nil, "", ""},
		{"a Service alone", main + samples.Service, nil, "", ""},
		{
			"markers alone", main + webhookMarker, nil,
			"vicecream.kb.io [CREATE UPDATE] webhook-service", "webhook-service 443:9443",
		},
		{
			"manifests alone", main + samples.Webhook + samples.Service, nil,
			"vicecream.kb.io [CREATE UPDATE] webhook-service", "webhook-service 443:9443",
		},
		{
			"both, and they agree", main + webhookMarker + samples.Webhook + samples.Service, nil,
			"vicecream.kb.io [CREATE UPDATE] webhook-service", "webhook-service 443:9443",
		},
		{
			"the manifests are stale", main + webhookMarker + strings.Replace(samples.Webhook, "CREATE, UPDATE", "CREATE", 1),
			[]string{stale},
			"vicecream.kb.io [CREATE UPDATE] webhook-service", "webhook-service 443:9443",
		},
		{
			"another name is stale too", main + webhookMarker + strings.Replace(samples.Webhook, "name: vice", "name: ice", 1),
			[]string{stale},
			"vicecream.kb.io [CREATE UPDATE] webhook-service", "webhook-service 443:9443",
		},
		{
			"a field that an injector would set is not stale", main + webhookMarker +
				strings.Replace(samples.Webhook, "  clientConfig:\n", "  clientConfig:\n    caBundle: Cg==\n", 1), nil,
			"vicecream.kb.io [CREATE UPDATE] webhook-service", "webhook-service 443:9443",
		},
		{
			"manifests of 2019", main + samples.OldWebhook,
			[]string{old},
			"vicecream.kb.io [CREATE UPDATE] webhook-service", "webhook-service 443:9443",
		},
		{
			"markers and manifests of 2019", main + oldMarker + samples.OldWebhook,
			[]string{wrong + "cmd/main.go:5:1: missing argument \"admissionReviewVersions\"", old},
			"vicecream.kb.io [CREATE UPDATE] webhook-service", "webhook-service 443:9443",
		},
		{
			"markers of today, manifests of 2019", main + webhookMarker + samples.OldWebhook, nil,
			"vicecream.kb.io [CREATE UPDATE] webhook-service", "webhook-service 443:9443",
		},
		{
			"manifests for old and new clusters", main + samples.Webhook +
				strings.Replace(samples.OldWebhook, "manifests.yaml", "manifests.v1beta1.yaml", 1), nil,
			"vicecream.kb.io [CREATE UPDATE] webhook-service", "webhook-service 443:9443",
		},
		{
			"names with the prefix", main + strings.Replace(samples.Webhook, "name: webhook", "name: shop-webhook", 1) +
				samples.Service + samples.Prefix, nil,
			"vicecream.kb.io [CREATE UPDATE] shop-webhook-service", "webhook-service 443:9443",
		},
		{
			"an invalid kustomization", main + webhookMarker + samples.Webhook + samples.Service +
				"-- config/default/kustomization.yaml --\n}", nil,
			"vicecream.kb.io [CREATE UPDATE] webhook-service", "webhook-service 443:9443",
		},
		{
			"a Service of another name",
			main + samples.Webhook + strings.Replace(samples.Service, "name: webhook", "name: web", 1),
			[]string{lost},
			"vicecream.kb.io [CREATE UPDATE] webhook-service", "web-service 443:9443",
		},
		{
			"no Service for another name", main + strings.Replace(samples.Webhook, "name: webhook", "name: web", 1), nil,
			"vicecream.kb.io [CREATE UPDATE] web-service", "web-service 443:9443",
		},
		{
			"other ports", main + samples.Webhook +
				strings.Replace(samples.Service, "targetPort: 9443",
					"targetPort: webhook-server\n  - port: 8443\n    targetPort: 9444\n  - port: 80", 1), nil,
			"vicecream.kb.io [CREATE UPDATE] webhook-service", "webhook-service 443:webhook-server 8443:9444 80:<nil>",
		},
		{
			"invalid YAML", main + webhookMarker + "-- config/webhook/manifests.yaml --\n}",
			[]string{"config/ holds YAML that can't be read: config/webhook/manifests.yaml: "},
			"vicecream.kb.io [CREATE UPDATE] webhook-service", "webhook-service 443:9443",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := builder(t, samples.Lay(t, test.files)).Generate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got.Notices, test.notices, strings.HasPrefix) {
				t.Errorf("got notices %q, want %q", got.Notices, test.notices)
			}
			var described, services []string
			for _, configuration := range got.Webhooks {
				for _, webhook := range WebhooksOf(configuration) {
					_, service := ServiceOf(webhook)
					rule := webhook["rules"].([]any)[0].(map[string]any)
					described = append(described, fmt.Sprint(webhook["name"], " ", rule["operations"], " ", service["name"]))
				}
			}
			for _, service := range got.Services {
				ports, _, err := unstructured.NestedSlice(service.Object, "spec", "ports")
				if err != nil {
					t.Fatal(err)
				}
				described := service.GetName()
				for _, port := range ports {
					one := port.(map[string]any)
					described += fmt.Sprintf(" %v:%v", one["port"], one["targetPort"])
				}
				services = append(services, described)
			}
			if strings.Join(described, ", ") != test.described || strings.Join(services, ", ") != test.services {
				t.Errorf("got webhooks %q at %q, want %q at %q", described, services, test.described, test.services)
			}
			if got.HasWebhooks() != (test.described != "") {
				t.Errorf("HasWebhooks() = %t", got.HasWebhooks())
			}
		})
	}
}

func TestUnreadableWebhookMarkers(t *testing.T) {
	t.Parallel()
	_, err := builder(t, samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+oldMarker+crdFile)).
		Generate(t.Context())
	if err != nil {
		t.Errorf("Generate() error = %v, want the committed manifests", err)
	}
	_, err = builder(t, samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+oldMarker)).
		Generate(t.Context())
	problem := problemOf(t, err)
	if len(problem.Diagnostics) == 0 ||
		!strings.HasPrefix(problem.Diagnostics[0].Message, `missing argument "admissionReviewVersions"`) {
		t.Errorf("got diagnostics %+v", problem.Diagnostics)
	}
}

// Such a marker describes a webhook that can't be registered. The committed manifests differ, because they were
// generated from another marker.
func TestWrongCurrentMarkerIsReported(t *testing.T) {
	t.Parallel()
	for message, wrong := range map[string]string{
		"SideEffects should not be set to `Some`": strings.Replace(webhookMarker, "sideEffects=None", "sideEffects=Some", 1),
		`unknown argument "verb"`:                 strings.Replace(webhookMarker, "verbs=", "verb=", 1),
	} {
		files := samples.Module + "-- cmd/main.go --\n" + samples.Program + wrong +
			samples.Webhook + samples.Service + crdFile
		_, err := builder(t, samples.Lay(t, files)).Generate(t.Context())
		problem := problemOf(t, err)
		if len(problem.Diagnostics) == 0 || !strings.Contains(problem.Diagnostics[0].Message, message) {
			t.Errorf("got diagnostics %+v, want them to contain %s", problem.Diagnostics, message)
		}
	}
}

// A configuration of 2019 keeps its meaning when it is registered in today's version.
func TestOldWebhookDefaultsAreMadeExplicit(t *testing.T) {
	t.Parallel()
	file := strings.Replace(samples.OldWebhook, "  failurePolicy: Fail\n", "  sideEffects: Some\n", 1)
	got, err := builder(t, samples.Lay(t, samples.Module+"-- cmd/main.go --\n"+samples.Program+file)).Generate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	webhook := maps.Clone(WebhooksOf(got.Webhooks[0])[0])
	delete(webhook, "clientConfig")
	delete(webhook, "rules")
	const want = "map[admissionReviewVersions:[v1beta1] failurePolicy:Ignore " +
		"matchPolicy:Exact name:vicecream.kb.io sideEffects:None timeoutSeconds:30]"
	if fmt.Sprint(webhook) != want || got.Webhooks[0].GetAPIVersion() != "admissionregistration.k8s.io/v1" {
		t.Errorf("got %s\n%v, want\n%s", got.Webhooks[0].GetAPIVersion(), webhook, want)
	}
}
