// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pod

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/certificates"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/submission"
)

// createConverting creates the Secrets that an operator with a conversion webhook mounts, so that it starts without
// cert-manager. No request reaches that webhook before Upgrade, because versions are held back until then.
func (i *installation) createConverting(ctx context.Context) error {
	d := i.deployment
	ca, err := certificates.NewAuthority("operator-labs-webhooks")
	if err != nil {
		return err
	}
	var hosts []string
	for _, object := range d.objects {
		if service, namespace := converterOf(object); service != "" {
			hosts = append(hosts, service+"."+namespace+".svc")
		}
	}
	if len(hosts) == 0 { // it starts all the same, and Upgrade reports the error
		hosts = []string{submission.DefaultService + "." + d.Namespace + ".svc"}
	}
	pair, err := ca.Server(hosts[0], hosts)
	if err != nil {
		return err
	}
	d.converting = ca
	return i.createSecrets(ctx, d.missingSecrets(), ca, pair)
}

// converterOf returns the Service of a definition's conversion webhook, and its namespace. Both are empty if it has
// none.
func converterOf(definition *unstructured.Unstructured) (service, namespace string) {
	if definition.GetKind() != submission.DefinitionKind {
		return "", ""
	}
	reference, _, _ := unstructured.NestedMap(definition.Object,
		"spec", "conversion", "webhook", "clientConfig", "service")
	service, _ = reference["name"].(string)
	namespace, _ = reference["namespace"].(string)
	return service, namespace
}

// Upgradable reports whether the operator's webhook has a certificate for converting.
func (o *operator) Upgradable() bool { return o.converting != nil }

// Upgrade applies the definitions of config/default with all their versions, between which the operator's Pod converts.
func (o *operator) Upgrade(ctx context.Context) error {
	var definitions []*unstructured.Unstructured
	for _, object := range o.objects {
		if object.GetKind() != submission.DefinitionKind {
			continue
		}
		definition := object.DeepCopy()
		if len(submission.ServedVersions(definition)) > 1 {
			if service, _ := converterOf(definition); service == "" {
				return &submission.Problem{Reason: fmt.Sprintf("config/default contains the CustomResourceDefinition %s "+
					"with several versions, but no Service that converts between them: "+
					"kubebuilder writes it into config/crd/patches", definition.GetName())}
			}
			bundle := base64.StdEncoding.EncodeToString(o.converting.PEM)
			if err := unstructured.SetNestedField(definition.Object, bundle,
				"spec", "conversion", "webhook", "clientConfig", "caBundle"); err != nil {
				return fmt.Errorf("writing the authority into the CustomResourceDefinition %s: %w", definition.GetName(), err)
			}
			annotations := definition.GetAnnotations()
			delete(annotations, injection) // if cert-manager runs, it would inject another authority
			definition.SetAnnotations(annotations)
		}
		definitions = append(definitions, definition)
	}
	if err := (install.Target{Config: o.stage.cluster.Config}).Upgrade(ctx, definitions); err != nil {
		return err
	}
	o.upgraded = definitions
	return nil
}

// steadyTime is how long the API server must reach a webhook without a failure. It dials again whenever the definition
// changes, for example when an operator that has just started writes its storedVersions.
const steadyTime = 2 * time.Second

// awaitConverting waits until the API server steadily reaches the webhook of an upgraded operator. For a moment after
// its Pod is ready, its Service may still have no endpoint, or that of the old Pod. It returns no error for a webhook
// that is never reached or gives wrong answers, because the checks detect that.
func (o *operator) awaitConverting(ctx context.Context) error {
	if len(o.upgraded) == 0 {
		return nil
	}
	client, err := dynamic.NewForConfig(o.stage.cluster.Config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, availableTimeout)
	defer cancel()
	steady := time.Time{} // since when the webhook is reached
	err = wait.PollUntilContextCancel(waiting, poll, true, func(ctx context.Context) (bool, error) {
		for _, definition := range o.upgraded {
			for _, served := range existing.ServedResources(definition) {
				_, err := client.Resource(served).List(ctx, metav1.ListOptions{})
				// The message is from webhook_converter.go in k8s.io/apiextensions-apiserver. The part from net/http begins with
				// the method.
				if err != nil &&
					strings.Contains(err.Error(), "conversion webhook") && strings.Contains(err.Error(), "failed: Post ") {
					steady = time.Time{}
					return false, nil
				}
			}
		}
		if steady.IsZero() {
			steady = time.Now()
		}
		return time.Since(steady) >= steadyTime, nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("waiting for the operator's conversion webhook: %w", context.Cause(ctx))
	}
	return nil
}

var (
	_ stage.Upgrader = (*operator)(nil)
	_ stage.Upgrader = adjustable{}
)
