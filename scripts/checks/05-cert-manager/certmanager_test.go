// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package certmanager has the checks of lab 05.
package certmanager

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/await"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/deployed"
)

func TestCertManager(t *testing.T) {
	check.Run(t, check.Features{
		"waits":           feature(waits),
		"detour-answers":  feature(detourAnswers),
		"issued":          feature(issued),
		"injected":        feature(injected),
		"denies":          feature(denies),
		"issuer-answers":  feature(issuerAnswers),
		"renewal":         feature(renewal),
		"renewal-answer":  feature(renewalAnswer),
		"heals":           feature(heals),
		"books":           feature(books),
		"least-privilege": feature(leastPrivilege),
	}, check.Options{Prepare: open})
}

func feature(step func(context.Context, *testing.T, *check.Check)) types.Feature {
	return features.New("of the operator in the cluster").Assess("as the task says", check.Assess(step)).Feature()
}

// waits deploys the operator without any objects of cert-manager, and checks its Pod.
func waits(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	o := operatorOf(ctx)
	const expected = "without certificates the operator's Pod waits for the Secret that it mounts"
	o.apply(ctx, t, c,
		deployed.Without(o.objects, append(slices.Clone(registrations), "Issuer", "ClusterIssuer", "Certificate")...)...)
	if o.secret == "" {
		o.fails(ctx, t, c, expected, "its Deployment mounts no Secret")
	}
	err := await.Within(ctx, issueLimit, deployed.Poll, "the operator's Pod to wait",
		func(ctx context.Context) (string, error) {
			pods, err := o.Pods(ctx, o.deployment)
			if err != nil || len(pods) == 0 {
				return "there is none", err
			}
			pod := &pods[0]
			events, err := o.Events(ctx, pod.Namespace, "Pod", pod.Name)
			if err != nil {
				return "", err
			}
			for _, event := range events {
				// The kubelet may send the Event before the Pod's status.
				if strings.Contains(event.Message, o.secret) && event.Type == "Warning" && deployed.Waiting(pod) != "" {
					o.waited.phase, o.waited.container, o.waited.event = string(pod.Status.Phase), deployed.Waiting(pod), event.Reason
					c.Note(event.CreationTimestamp.Time, 0, "Pod "+pod.Name+": "+event.Reason)
					return "", nil
				}
			}
			if len(pod.Status.ContainerStatuses) > 0 &&
				(pod.Status.ContainerStatuses[0].State.Running != nil || pod.Status.ContainerStatuses[0].RestartCount > 0) {
				return "", fmt.Errorf("it does not wait: %s", deployed.Describe(pod))
			}
			return deployed.Describe(pod), nil
		})
	if err != nil {
		o.fails(ctx, t, c, expected, err.Error())
	}
}

// answers reads the student's answers, and compares them.
func answers(ctx context.Context, t *testing.T, c *check.Check, seen map[string]string) {
	t.Helper()
	content, err := c.Submission.File(ctx, "answers.yaml")
	if err != nil {
		c.Fail(t, "answers.yaml has the answers", err.Error(), "it belongs beside go.mod")
	}
	given := map[string]string{}
	if err := yaml.Unmarshal(content, &given); err != nil {
		c.Fail(t, "answers.yaml is a list of answers", err.Error(), "each is one line: name, colon, word")
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if given[name] == "" || !strings.EqualFold(given[name], seen[name]) {
			c.Fail(t, fmt.Sprintf("the answer %s in answers.yaml is what is seen in the cluster", name),
				fmt.Sprintf("%s is %q, which is not what this run has seen", name, given[name]),
				"compare it with your own cluster: see the task")
		}
	}
}

func detourAnswers(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	waited := operatorOf(ctx).waited
	answers(ctx, t, c, map[string]string{"phase": waited.phase, "container": waited.container, "event": waited.event})
}

// issued applies Issuers, Certificates and registrations, and checks the content of the Secret.
func issued(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	o := operatorOf(ctx)
	const expected = "the Secret gets a certificate, signed by an Issuer of the operator's namespace"
	began := time.Now()
	o.apply(ctx, t, c,
		deployed.Of(o.objects, append(slices.Clone(registrations), "Issuer", "ClusterIssuer", "Certificate")...)...)
	err := await.Within(ctx, issueLimit, deployed.Poll, "the certificate in the Secret "+o.secret,
		func(ctx context.Context) (string, error) {
			if _, secret, err := o.leaf(ctx); apierrors.IsNotFound(err) || secret != nil && err != nil {
				return "there is none", nil //nolint:nilerr // that it is not there yet is what is waited out
			} else if err != nil {
				return "", err
			}
			return "", nil
		})
	if err != nil {
		c.Fail(t, expected, err.Error(), o.conditions(ctx)...)
	}
	leaf, secret, err := o.leaf(ctx)
	c.OK(t, "reading the certificate", err)
	c.Note(time.Now(), 0, "Secret "+o.secret+" has a certificate")
	if kind := secret.Annotations["cert-manager.io/issuer-kind"]; kind != "Issuer" {
		c.Fail(t, expected, fmt.Sprintf("it is signed by a %q", kind), o.conditions(ctx)...)
	}
	for _, host := range o.hosts() {
		if err := leaf.VerifyHostname(host); err != nil {
			c.Fail(t, "the certificate is for "+host, err.Error(), o.conditions(ctx)...)
		}
	}
	pod, err := o.ready(ctx)
	if err != nil {
		o.fails(ctx, t, c, "with the Secret the operator's Pod becomes ready", err.Error())
	}
	c.Note(began, time.Since(began), "Pod "+pod.Name+" becomes ready")
}

// conditions returns the conditions of all Certificates of the namespace, a line each.
func (o *operator) conditions(ctx context.Context) (lines []string) {
	all, err := o.Dynamic.Resource(certificates).Namespace(o.deployment.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(all.Items) == 0 {
		return []string{"there is no Certificate in " + o.deployment.Namespace}
	}
	for i := range all.Items {
		conditions, _, _ := unstructured.NestedSlice(all.Items[i].Object, "status", "conditions")
		for _, condition := range conditions {
			if c, ok := condition.(map[string]any); ok {
				lines = append(lines,
					fmt.Sprintf("Certificate %s: %v is %v: %v", all.Items[i].GetName(), c["type"], c["status"], c["message"]))
			}
		}
	}
	return append(lines, "the Secret is "+o.secret)
}

// webhooks returns the webhooks of the submission's registrations, as they are in the cluster.
func (o *operator) webhooks(ctx context.Context) (all []map[string]any, err error) {
	for _, object := range deployed.Of(o.objects, registrations...) {
		client, err := o.Resource(object)
		if err != nil {
			return nil, err
		}
		now, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		listed, _, _ := unstructured.NestedSlice(now.Object, "webhooks")
		for _, one := range listed {
			if webhook, ok := one.(map[string]any); ok {
				all = append(all, webhook)
			}
		}
	}
	return all, nil
}

// hosts returns the names by which the API server calls the webhooks.
func (o *operator) hosts() (hosts []string) {
	for _, object := range deployed.Of(o.objects, registrations...) {
		listed, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		for _, one := range listed {
			if webhook, ok := one.(map[string]any); ok {
				name, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "name")
				namespace, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "namespace")
				hosts = append(hosts, name+"."+namespace+".svc")
			}
		}
	}
	return hosts
}

// bundles returns the caBundles of all webhooks, by their names.
func (o *operator) bundles(ctx context.Context) (map[string][]byte, error) {
	webhooks, err := o.webhooks(ctx)
	if err != nil {
		return nil, err
	}
	bundles := map[string][]byte{}
	for _, webhook := range webhooks {
		name, _, _ := unstructured.NestedString(webhook, "name")
		encoded, _, _ := unstructured.NestedString(webhook, "clientConfig", "caBundle")
		if bundles[name], err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, err
		}
	}
	return bundles, nil
}

func injected(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	o := operatorOf(ctx)
	pod, err := o.ready(ctx)
	c.OK(t, "waiting for the operator's Pod", err)
	served, err := o.serves(ctx, pod)
	c.OK(t, "asking the Pod for its certificate", err)
	host := ""
	if hosts := o.hosts(); len(hosts) > 0 {
		host = hosts[0]
	}
	const expected = "each webhook's caBundle trusts the certificate that the Pod serves"
	err = await.Within(ctx, issueLimit/2, deployed.Poll, expected, func(ctx context.Context) (string, error) {
		bundles, err := o.bundles(ctx)
		if err != nil || len(bundles) == 0 {
			return "no webhook is registered", err
		}
		for name, bundle := range bundles {
			roots := x509.NewCertPool()
			if !roots.AppendCertsFromPEM(bundle) {
				return "the webhook " + name + " has no caBundle", nil
			}
			if _, err := served.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
				return fmt.Sprintf("the webhook %s does not trust it: %v", name, err), nil
			}
		}
		return "", nil
	})
	if err != nil {
		c.Fail(t, expected, err.Error(), o.conditions(ctx)...)
	}
}

func denies(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	o := operatorOf(ctx)
	var last error
	err := await.Within(ctx, issueLimit/2, deployed.Poll, "an order of vanilla to be accepted",
		func(ctx context.Context) (string, error) {
			if last = o.try(ctx, order("vanilla", nil, "vanilla")); last != nil {
				return last.Error(), nil //nolint:nilerr // that it is refused is what is waited out
			}
			return "", nil
		})
	if err != nil {
		o.fails(ctx, t, c, "an icecream of vanilla is accepted", err.Error())
	}
	const answered = "an order of matcha to be answered"
	err = await.Within(ctx, issueLimit/2, deployed.Poll, answered, func(ctx context.Context) (string, error) {
		last = o.try(ctx, order("matcha", nil, "matcha"))
		if apierrors.IsInternalError(last) || apierrors.IsTimeout(last) || apierrors.IsServerTimeout(last) {
			return last.Error(), nil // on a busy machine the webhook may not answer in time
		}
		return "", nil
	})
	switch {
	case err != nil:
		o.fails(ctx, t, c, "an icecream of matcha is denied by the webhook", err.Error())
	case last == nil:
		o.fails(ctx, t, c, "an icecream of matcha is denied", "it was accepted")
	case !apierrors.IsInvalid(last) && !apierrors.IsForbidden(last) || !strings.Contains(last.Error(), "matcha"):
		o.fails(ctx, t, c, "an icecream of matcha is denied by the webhook", last.Error())
	}
}

// issuerAnswers creates a Certificate whose Issuer is in another namespace.
func issuerAnswers(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	o := operatorOf(ctx)
	const namespace = "icecream-misplaced"
	issuer := "selfsigned"
	if issuers := deployed.Of(o.objects, "Issuer"); len(issuers) > 0 {
		issuer = issuers[0].GetName()
	}
	objects, err := deployed.Read(fmt.Appendf(nil, `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: misplaced, namespace: %[1]s}
spec:
  secretName: misplaced
  dnsNames: [misplaced.%[1]s.svc]
  issuerRef: {kind: Issuer, name: %[2]s}
`, namespace, issuer))
	c.OK(t, "reading manifests", err)
	c.OK(t, "applying a Certificate", o.Apply(ctx, objects...))
	reason := ""
	err = await.Within(ctx, issueLimit, deployed.Poll, "a condition of its CertificateRequest",
		func(ctx context.Context) (string, error) {
			all, err := o.Dynamic.Resource(requests).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return "", err
			}
			for i := range all.Items {
				conditions, _, _ := unstructured.NestedSlice(all.Items[i].Object, "status", "conditions")
				for _, condition := range conditions {
					if c, ok := condition.(map[string]any); ok && c["type"] == "Ready" {
						reason = fmt.Sprint(c["reason"])
						return "", nil
					}
				}
			}
			return "it has none", nil
		})
	c.OK(t, "watching a CertificateRequest", err)
	answers(ctx, t, c, map[string]string{"namespace": namespace, "reason": reason})
}

func renewalAnswer(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	content, err := c.Submission.File(ctx, "answers.yaml")
	if err != nil {
		c.Fail(t, "answers.yaml has the answers", err.Error(), "it belongs beside go.mod")
	}
	given := map[string]string{}
	if err := yaml.Unmarshal(content, &given); err != nil {
		c.Fail(t, "answers.yaml is a list of answers", err.Error(), "each is one line: name, colon, words")
	}
	const enough = 12 // letters: a single word is no explanation
	seen := operatorOf(ctx).refused
	if answer := strings.TrimSpace(given["refused"]); len(answer) < enough || !strings.Contains(seen, answer) {
		c.Fail(t, "the answer refused has the words of the API server's error", fmt.Sprintf("refused is %q", answer), seen)
	}
}

// same reports whether the bundles are unchanged.
func same(before, now map[string][]byte) bool {
	for name := range before {
		if !bytes.Equal(before[name], now[name]) {
			return false
		}
	}
	return len(before) == len(now)
}
