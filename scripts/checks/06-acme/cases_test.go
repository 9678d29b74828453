// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package acme_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/clusters/await"
	"lva.io/operators/scripts/checks/byhand"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/deployed"
)

// These are the student's scripts.
const (
	findFile = "detective/find.sh"
	whyFile  = "detective/why.sh"
)

// These are the namespaces of the cases, and their issuers.
const (
	first, second = "detective-first", "detective-second"
	shared, hasty = "detective", "detective-hasty" // ClusterIssuers; the latter asks the ACME server without a self-check
	own           = "own"                          // an Issuer of the second namespace
)

// The Pods of solvers run only beside the Pod released, which is created when the scripts that examine solvers have
// ended, and at the latest after heldLimit, since a script may wait until a solver runs. Without this, a slow machine
// could issue a certificate before a script has seen what proved the name.
const (
	released  = "released"
	heldLimit = 30 * time.Second
)

// nowhere is the suffix of names that do not exist in the DNS of any cluster.
const nowhere = ".default.svc.cluster.local"

// finding is the output of a script about a certificate.
type finding struct {
	script, namespace, certificate string

	output string
	exit   int
	err    error
}

// cases are the orders that the student's scripts examine while the orders are in progress.
type cases struct {
	scoop, sundae, unresolved, refused *finding

	running     sync.WaitGroup // the scripts, and release
	finding     sync.WaitGroup // the scripts that examine solvers
	notReleased error
}

// openCases creates the orders, and starts the scripts. Names differ in each run, so that no script can know them.
func openCases(ctx context.Context, s *scene) (*cases, error) {
	id := fmt.Sprintf("%08x", s.suite.Seed)
	c := &cases{
		scoop:      &finding{script: findFile, namespace: first, certificate: "scoop-" + id},
		sundae:     &finding{script: findFile, namespace: second, certificate: "sundae-" + id},
		unresolved: &finding{script: whyFile, namespace: second, certificate: "nobody-" + id},
		refused:    &finding{script: whyFile, namespace: second, certificate: "refused-" + id},
	}
	signer, err := s.Client.CoreV1().ConfigMaps("pebble").Get(ctx, "pebble-ca", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading who signs Pebble's own certificate: %w", err)
	}
	held := map[string]any{"spec": map[string]any{"affinity": map[string]any{"podAffinity": map[string]any{
		"requiredDuringSchedulingIgnoredDuringExecution": []any{map[string]any{
			"labelSelector": map[string]any{"matchLabels": map[string]any{released: id}},
			"namespaces":    []any{first}, "topologyKey": corev1.LabelHostname,
		}},
	}}}}
	issuer := func(kind, namespace, name string, solver map[string]any) *unstructured.Unstructured {
		solver["http01"] = map[string]any{"ingress": map[string]any{"ingressClassName": ingressClass, "podTemplate": held}}
		return object("cert-manager.io/v1", kind, namespace, name, map[string]any{"acme": map[string]any{
			"server": byhand.Directory, "caBundle": base64.StdEncoding.EncodeToString([]byte(signer.Data["ca.crt"])),
			"privateKeySecretRef": map[string]any{"name": name + "-account"}, "solvers": []any{solver},
		}})
	}
	certificate := func(namespace, name, issuerKind, issuerName, domain string) *unstructured.Unstructured {
		return object("cert-manager.io/v1", "Certificate", namespace, name, map[string]any{
			"secretName": name + "-tls",
			"dnsNames":   []any{domain},
			"issuerRef":  map[string]any{"kind": issuerKind, "name": issuerName},
		})
	}
	if err := s.Apply(
		ctx, object("v1", "Namespace", "", first, nil), object("v1", "Namespace", "", second, nil),
		issuer("ClusterIssuer", "", shared, map[string]any{}),
		issuer("ClusterIssuer", "", hasty, map[string]any{"waitInsteadOfSelfCheck": "0s"}),
		issuer("Issuer", second, own, map[string]any{}),
		// Another order in the same namespace, which is listed first.
		certificate(first, "banana-"+id, "ClusterIssuer", shared, "banana-"+id+".lab.test"),
		certificate(first, c.scoop.certificate, "ClusterIssuer", shared, c.scoop.certificate+".lab.test"),
		certificate(second, c.sundae.certificate, "Issuer", own, c.sundae.certificate+".lab.test"),
		certificate(second, c.unresolved.certificate, "ClusterIssuer", shared, c.unresolved.certificate+nowhere),
		certificate(second, c.refused.certificate, "ClusterIssuer", hasty, c.refused.certificate+nowhere),
	); err != nil {
		return nil, err
	}
	for _, f := range []*finding{c.scoop, c.sundae, c.unresolved, c.refused} {
		if f.script != findFile {
			c.running.Go(func() { f.run(ctx, s.suite.Submission) })
			continue
		}
		c.running.Add(1)
		c.finding.Go(func() {
			defer c.running.Done()
			f.run(ctx, s.suite.Submission)
		})
	}
	c.running.Go(func() { c.notReleased = c.release(ctx, s.Cluster, id) })
	return c, nil
}

// run runs a script, which has a time limit.
func (f *finding) run(ctx context.Context, submission check.Submission) {
	f.output, f.exit, f.err = submission.Run(ctx, f.script, f.namespace, f.certificate)
}

// release lets the Pods of solvers run. Its own Pod needs no image: it has a node, and that is enough.
func (c *cases) release(ctx context.Context, cluster *deployed.Cluster, id string) error {
	ended := make(chan struct{})
	go func() {
		c.finding.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(heldLimit):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	pod := object("v1", "Pod", first, released, map[string]any{"containers": []any{
		map[string]any{"name": released, "image": "operator-labs/" + released, "imagePullPolicy": "Never"},
	}})
	pod.SetLabels(map[string]string{released: id})
	return cluster.Apply(ctx, pod)
}

func object(version, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if spec != nil {
		o.Object["spec"] = spec
	}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// wait waits until the scripts have ended, and until cert-manager has removed the solvers of the certificates that are
// issued.
func (c *cases) wait(v visit) {
	v.t.Helper()
	c.running.Wait()
	v.OK(v.t, "releasing the solvers of the cases", c.notReleased)
	for _, f := range []*finding{c.scoop, c.sundae} {
		err := await.Within(v.ctx, 2*issueLimit, deployed.Poll, "the Certificate "+f.certificate,
			func(ctx context.Context) (string, error) {
				certificate, err := v.Dynamic.Resource(certificates).Namespace(f.namespace).
					Get(ctx, f.certificate, metav1.GetOptions{})
				if err != nil {
					return "", err
				}
				if status, message := condition(certificate, "Ready"); status != "True" {
					return "it is not Ready: " + message, nil
				}
				return "", nil
			})
		v.OK(v.t, "issuing the certificate of a case", err)
	}
}

// output returns the output of a script as fields. The check fails if it is not YAML.
func (v visit) output(f *finding, expected string) map[string]string {
	v.t.Helper()
	v.cases.running.Wait()
	if errors.Is(f.err, fs.ErrNotExist) {
		v.Fail(v.t, expected, "there is no such file in the submission", "none")
	}
	if wrong, ok := errors.AsType[*check.ScriptError](f.err); ok {
		v.Fail(v.t, expected, wrong.Observed, f.evidence()...)
	}
	v.OK(v.t, "running "+f.script, f.err)
	fields, err := fieldsOf(f.output)
	switch {
	case f.exit < 0:
		v.Fail(v.t, expected, "the script was killed by a signal, and has not ended by itself", f.evidence()...)
	case f.exit > 0:
		v.Fail(v.t, expected, fmt.Sprintf("its exit code %d says that it failed", f.exit), f.evidence()...)
	case err != nil:
		v.Fail(v.t, expected, "what it printed is no YAML with texts: "+err.Error(), f.evidence()...)
	}
	return fields
}
