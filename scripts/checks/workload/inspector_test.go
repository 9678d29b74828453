// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package workload

import (
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestAnsweringWebhookMatchesOperatorOnly checks that the webhook intercepts the operator's requests for the resources,
// and the probe. It does not delay other requests.
func TestAnsweringWebhookMatchesOperatorOnly(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	o := &Owners{Resource: schema.GroupVersionResource{Group: "my.domain", Version: "v1", Resource: "cows"}}
	hook := o.answeringWebhook(server, "system:serviceaccount:space:name",
		"field", []string{"deployments", "cows/status"}).Webhooks[0]
	const want = `request.name == "probe" || request.userInfo.username == "system:serviceaccount:space:name" && ` +
		`request.resource.resource in ["deployments", "cows"]`
	if got := hook.MatchConditions[0].Expression; got != want {
		t.Errorf("match condition = %s, want %s", got, want)
	}
	if got := hook.Rules[0].Resources; len(got) != 3 || got[2] != "cows/status" {
		t.Errorf("resources = %q", got)
	}
	if len(hook.ClientConfig.CABundle) == 0 || *hook.ClientConfig.URL != server.URL {
		t.Errorf("webhook URL = %q, CA bundle of %d bytes", *hook.ClientConfig.URL, len(hook.ClientConfig.CABundle))
	}
}
