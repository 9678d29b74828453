// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package samples holds files of submissions for tests.
package samples

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"
)

// Lay creates a folder with files. In the text, each file begins with a line "-- name --". The folder is removed after
// the test.
func Lay(tb testing.TB, files string) string {
	tb.Helper()
	dir := tb.TempDir()
	for _, file := range txtar.Parse([]byte(files)).Files {
		path := filepath.Join(dir, filepath.FromSlash(file.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, file.Data, 0o600)); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

const (
	// Module is a go.mod, for Lay.
	Module = "-- go.mod --\nmodule example.com/icecream\n\ngo 1.26\n"
	// Program is the source of a program that exits at once.
	Program = "package main\n\nfunc main() {}\n"
)

// The manifests of a webhook as kubebuilder lays them out, for Lay.
const (
	// Webhook is its configuration. OldWebhook is the one that kubebuilder v2 generated.
	Webhook = `-- config/webhook/manifests.yaml --
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: validating-webhook-configuration
webhooks:
- admissionReviewVersions:
  - v1
  clientConfig:
    service:
      name: webhook-service
      namespace: system
      path: /validate-icecream
  failurePolicy: Fail
  name: vicecream.kb.io
  rules:
  - apiGroups: [demo.lva.io]
    apiVersions: [v1]
    operations: [CREATE, UPDATE]
    resources: [icecreams]
  sideEffects: None
`
	OldWebhook = `-- config/webhook/manifests.yaml --

---
apiVersion: admissionregistration.k8s.io/v1beta1
kind: ValidatingWebhookConfiguration
metadata:
  creationTimestamp: null
  name: validating-webhook-configuration
webhooks:
- clientConfig:
    caBundle: Cg==
    service:
      name: webhook-service
      namespace: system
      path: /validate-icecream
  failurePolicy: Fail
  name: vicecream.kb.io
  rules:
  - apiGroups: [demo.lva.io]
    apiVersions: [v1]
    operations: [CREATE, UPDATE]
    resources: [icecreams]
`
	// Service is the Service at which the API server calls the webhook.
	Service = `-- config/webhook/service.yaml --
apiVersion: v1
kind: Service
metadata:
  name: webhook-service
  namespace: system
spec:
  ports:
  - port: 443
    protocol: TCP
    targetPort: 9443
  selector:
    control-plane: controller-manager
`
	// Prefix is a kustomization that adds a prefix to names.
	Prefix = "-- config/default/kustomization.yaml --\n" +
		"namespace: shop-system\nnamePrefix: shop-\nresources: [../webhook]\n"
)

// Sorbets is a CustomResourceDefinition, as YAML.
const Sorbets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sorbets.demo.lva.io}
spec:
  group: demo.lva.io
  names: {kind: Sorbet, listKind: SorbetList, plural: sorbets, singular: sorbet}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
`
