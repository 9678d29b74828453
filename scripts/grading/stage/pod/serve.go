// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pod

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/certificates"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/submission"
)

const (
	// availableTimeout is how long the API server may take to detect that the server behind a Service answers.
	availableTimeout = 10 * time.Second
	// certManager is the API group of cert-manager's kinds. injection is its annotation for objects into which it injects
	// an authority.
	certManager, injection = "cert-manager.io", "cert-manager.io/inject-ca-from"
	// httpsPort is the port of an APIService that names none.
	httpsPort = 443
)

// apiServer holds the additional data of an operator that is an aggregated API server.
type apiServer struct {
	registers []*unstructured.Unstructured // APIServices
	serving   stage.Serving
	client    dynamic.Interface // an administrator's
}

// withoutCertManager returns the objects without those of cert-manager's kinds, because the grader issues the
// certificates.
func withoutCertManager(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().Group == certManager
	})
}

// createServer creates the Secrets that the server's container mounts and config/default lacks, with a certificate for
// the Service that its APIService names. The APIService gets the authority. If config/default contains the certificate,
// the APIService stays as it is.
func (i *installation) createServer(ctx context.Context) (*apiServer, error) {
	d := i.deployment
	if len(d.apiServices) == 0 {
		return nil, &submission.Problem{Reason: "config/default contains no APIService: write it in config/apiservice, " +
			"and add that folder to the resources of config/default"}
	}
	serving, err := servingOf(d.apiServices[0])
	if err != nil {
		return nil, err
	}
	if serving.CA, err = authorityOf(d.apiServices[0]); err != nil {
		return nil, err
	}
	server := &apiServer{registers: d.apiServices, serving: serving}
	missing := d.missingSecrets()
	if len(missing) == 0 {
		return server, nil
	}
	ca, err := certificates.NewAuthority("operator-labs-aggregated")
	if err != nil {
		return nil, err
	}
	pair, err := ca.Server(serving.Name, []string{serving.Name, serving.Name + ".cluster.local"})
	if err != nil {
		return nil, err
	}
	if err := i.createSecrets(ctx, missing, ca, pair); err != nil {
		return nil, err
	}
	server.serving.CA, server.registers = ca.PEM, nil
	for _, registration := range d.apiServices {
		trusted, err := install.WithCABundle(registration, ca.PEM)
		if err != nil {
			return nil, err
		}
		annotations := trusted.GetAnnotations()
		delete(annotations, injection) // if cert-manager runs, it would inject another authority
		trusted.SetAnnotations(annotations)
		server.registers = append(server.registers, trusted)
	}
	return server, nil
}

// createSecrets creates Secrets with a certificate, as cert-manager would.
func (i *installation) createSecrets(
	ctx context.Context, names []string, ca *certificates.Authority, pair certificates.Pair,
) error {
	for _, name := range names {
		if err := i.createTyped(ctx, &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{
				corev1.TLSCertKey:              pair.Certificate,
				corev1.TLSPrivateKeyKey:        pair.Key,
				corev1.ServiceAccountRootCAKey: ca.PEM,
			},
		}); err != nil {
			return err
		}
	}
	return nil
}

// missingSecrets returns the Secrets that the Deployment mounts and config/default does not contain. cert-manager would
// create them.
func (d *Deployment) missingSecrets() (names []string) {
	for _, volume := range d.manager.Spec.Template.Spec.Volumes {
		if volume.Secret == nil || slices.ContainsFunc(d.objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "Secret" && o.GetName() == volume.Secret.SecretName
		}) {
			continue
		}
		names = append(names, volume.Secret.SecretName)
	}
	return names
}

// servingOf returns how the server of an APIService can be reached directly.
func servingOf(registration *unstructured.Unstructured) (stage.Serving, error) {
	name, _, _ := unstructured.NestedString(registration.Object, "spec", "service", "name")
	namespace, _, _ := unstructured.NestedString(registration.Object, "spec", "service", "namespace")
	port, _, _ := unstructured.NestedInt64(registration.Object, "spec", "service", "port")
	if name == "" || namespace == "" {
		return stage.Serving{}, &submission.Problem{Reason: fmt.Sprintf("the APIService %s names no Service: "+
			"its spec.service needs name and namespace", registration.GetName())}
	}
	return stage.Serving{
		Name:      name + "." + namespace + ".svc",
		Namespace: namespace,
		Service:   name,
		Port:      int32(cmp.Or(port, httpsPort)),
	}, nil
}

// authorityOf returns the authority in an APIService, which is empty if there is none.
func authorityOf(registration *unstructured.Unstructured) ([]byte, error) {
	bundle, _, _ := unstructured.NestedString(registration.Object, "spec", "caBundle")
	ca, err := base64.StdEncoding.DecodeString(bundle)
	if err != nil {
		return nil, &submission.Problem{Reason: fmt.Sprintf("the caBundle of the APIService %s can't be read: %v",
			registration.GetName(), err)}
	}
	return ca, nil
}

// Serving returns how the server can be reached. It returns nil if the operator is not an API server.
func (o *operator) Serving() *stage.Serving {
	if o.server == nil {
		return nil
	}
	return &o.server.serving
}

// AwaitServing waits until its Pod is ready, as long as the context allows.
func (o *operator) AwaitServing(ctx context.Context) error { return o.ready(ctx) }

// ready waits until a Pod of the operator is ready.
func (o *operator) ready(ctx context.Context) error {
	return o.watchPods(ctx, o.list(), func(_ watch.EventType, found *corev1.Pod) bool {
		return found.DeletionTimestamp == nil && o.status(found).Ready
	})
}

// Close removes the registration of an aggregated API server. In a shared cluster it does nothing, because closing the
// stage removes everything that the run has created.
func (o *operator) Close() error {
	if o.server == nil || o.stage.cluster.Shared {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	return install.Withdraw(ctx, o.server.client, o.server.registers)
}

var _ stage.Server = (*operator)(nil)
