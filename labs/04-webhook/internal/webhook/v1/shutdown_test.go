// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package v1

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// In a rolling update the API server asks the old Pod until it has learned that the Pod is no endpoint any more. Until
// then the webhooks have to answer, and after that the operator needs some of the grace period to end.
func TestTheWebhooksAnswerWhileTheirEndpointIsWithdrawn(t *testing.T) {
	manifests, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "manager", "manager.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096); deployment.Kind != "Deployment"; {
		deployment = appsv1.Deployment{}
		if err := documents.Decode(&deployment); err != nil {
			t.Fatalf("find the Deployment: %v", err)
		}
	}
	pod := deployment.Spec.Template.Spec
	lifecycle := pod.Containers[0].Lifecycle
	if lifecycle == nil || lifecycle.PreStop == nil || lifecycle.PreStop.Sleep == nil {
		t.Fatal("the Deployment has no preStop hook that sleeps")
	}
	const least, toEnd = 3, 10 // seconds
	sleep, grace := lifecycle.PreStop.Sleep.Seconds, *pod.TerminationGracePeriodSeconds
	if sleep < least || grace < sleep+toEnd {
		t.Errorf("the hook sleeps for %d s of %d s: it must be %d s at least, and leave %d s", sleep, grace, least, toEnd)
	}
}
