// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/certificates"
	"lva.io/operators/clusters/images"
)

const (
	// pebbleDirectory is the address of the ACME directory, and pebbleAnswer is a part of its content. (RFC 8555, section
	// 7.1.1)
	pebbleDirectory, pebbleAnswer = "https:pebble:14000/dir", "newOrder"
	// pebbleSecret holds the certificate of Pebble's own HTTPS. pebbleCA is a ConfigMap with the authority that signed it,
	// as ca.crt.
	pebbleSecret, pebbleCA = "pebble-tls", "pebble-ca"
	// pebbleLeft is how long the certificate must remain valid.
	pebbleLeft = 30 * 24 * time.Hour
	// certificateDigest is an annotation of Pebble's Pods, so that another certificate causes other Pods.
	certificateDigest = "operator-labs.lva.io/certificate"
)

// pebbleHosts are the names by which Pebble is reached.
var pebbleHosts = []string{
	"pebble", "pebble.pebble", "pebble.pebble.svc",
	"pebble.pebble.svc.cluster.local", "localhost",
}

// Pebble is an ACME server for learning. It is usable when its directory answers through its Service, and when the
// cluster's DNS resolves all names below lab.test to the Ingress controller. On a shared cluster Install does not
// change the DNS. Its error explains what to change.
func Pebble(store *images.Store) Addon { return &pebble{file: store.File} }

type pebble struct {
	// file reads a file of an image.
	file func(ctx context.Context, reference, name string) ([]byte, error)
}

func (*pebble) Name() string { return known.Pebble }

func (a *pebble) Install(ctx context.Context, target Target, report func(string)) error {
	p, err := newPlain(a.Name(), target)
	if err != nil {
		return err
	}
	resolver, err := ensureNames(ctx, p, report)
	if err != nil {
		return err
	}
	objects, err := p.objects()
	if err != nil {
		return err
	}
	report("installing Pebble")
	// The namespace comes first, because the objects that the Pod mounts must exist before the Deployment.
	if err := p.apply(ctx, objects[:1], report); err != nil {
		return err
	}
	digest, err := a.ensureCertificate(ctx, p, report)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			if err := complete(object, resolver, digest); err != nil {
				return err
			}
		}
	}
	if err := p.apply(ctx, objects[1:], report); err != nil {
		return err
	}
	if !target.Pods {
		report("its objects exist, but no Pods can run here, so nothing is issued")
		return nil
	}
	if err := p.waitReady(ctx, pebbleDirectory, pebbleAnswer, report); err != nil {
		return err
	}
	return awaitNames(ctx, p, report)
}

// complete adds to Pebble's Deployment the values that differ between clusters.
func complete(object *unstructured.Unstructured, resolver, digest string) error {
	containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return err
	}
	container, ok := containers[0].(map[string]any)
	if !ok {
		return errors.New("Pebble's Deployment has no container") //nolint:staticcheck // Pebble is a name
	}
	args, _, err := unstructured.NestedStringSlice(container, "args")
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedStringSlice(container, append(args, "-dnsserver", resolver), "args"); err != nil {
		return err
	}
	if err := unstructured.SetNestedSlice(object.Object, containers,
		"spec", "template", "spec", "containers"); err != nil {
		return err
	}
	return unstructured.SetNestedField(object.Object, digest,
		"spec", "template", "metadata", "annotations", certificateDigest)
}

// ensureCertificate creates the certificate of Pebble's HTTPS unless there is a valid one, and publishes the authority
// that signed it. That is the authority in Pebble's own image, so it is the same in every cluster and can be written
// into an Issuer once. Its key is public, so it must not be used for anything else. The digest is the certificate's.
func (a *pebble) ensureCertificate(ctx context.Context, p *plain, report func(string)) (digest string, err error) {
	objects, err := p.objects()
	if err != nil {
		return "", err
	}
	image := imageOf(objects)
	signer, err := a.file(ctx, image, "/test/certs/pebble.minica.pem")
	if err != nil {
		return "", err
	}
	secret, err := p.client.CoreV1().Secrets(p.name).Get(ctx, pebbleSecret, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("reading Pebble's certificate: %w", err)
	}
	certificate := secret.Data[corev1.TLSCertKey]
	data := secret.Data
	if !signedBy(certificate, signer) {
		key, err := a.file(ctx, image, "/test/certs/pebble.minica.key.pem")
		if err != nil {
			return "", err
		}
		authority, err := certificates.ReadAuthority(signer, key)
		if err != nil {
			return "", err
		}
		pair, err := authority.Server("pebble", pebbleHosts)
		if err != nil {
			return "", err
		}
		certificate = pair.Certificate
		data = map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key}
	}
	var made []*unstructured.Unstructured
	for _, object := range []runtime.Object{
		&corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Name: pebbleSecret, Namespace: p.name}, Type: corev1.SecretTypeTLS, Data: data,
		},
		&corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: pebbleCA, Namespace: p.name}, Data: map[string]string{"ca.crt": string(signer)},
		},
	} {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return "", err
		}
		made = append(made, &unstructured.Unstructured{Object: fields})
	}
	sum := sha256.Sum256(certificate)
	return hex.EncodeToString(sum[:8]), p.apply(ctx, made, report)
}

// signedBy reports whether a certificate is Pebble's, is signed by an authority, and is valid for long enough.
func signedBy(certificate, authority []byte) bool {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return false
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	for _, host := range pebbleHosts {
		if _, err := leaf.Verify(x509.VerifyOptions{
			Roots: roots, DNSName: host, CurrentTime: time.Now().Add(pebbleLeft),
		}); err != nil {
			return false
		}
	}
	return true
}

func (a *pebble) State(ctx context.Context, target Target) (State, error) {
	p, err := newPlain(a.Name(), target)
	if err != nil {
		return State{}, err
	}
	state, err := p.state(ctx, pebbleDirectory, pebbleAnswer)
	if err != nil || !state.Usable {
		return state, err
	}
	objection, err := namesObjection(ctx, p)
	state.Usable, state.Detail = objection == "", objection
	if state.Usable {
		state.Detail = "its ACME directory answers"
	}
	return state, err
}

func (a *pebble) Uninstall(ctx context.Context, target Target) error {
	p, err := newPlain(a.Name(), target)
	if err != nil {
		return err
	}
	if err := p.uninstall(ctx); err != nil {
		return err
	}
	return removeNames(ctx, p)
}
