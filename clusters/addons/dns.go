// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// labNames is added to the configuration of the cluster's DNS. It resolves every name below lab.test to the Ingress
// controller's Service. Its server forwards to the one before it in the same file, which does not cache answers about
// the cluster's own names. A cluster that we create has it from the start (clusters/node/manifests/dns.yaml).
const labNames = `lab.test:53 {
    errors
    rewrite name regex .* ingress.ingress.svc.cluster.local answer auto
    forward . 127.0.0.1
}
`

const (
	// labZone identifies the rule in the file.
	labZone = "lab.test:53 {"
	// coredns is the name that kubeadm gives the Deployment and the ConfigMap of the cluster's DNS. corefile is the file
	// in the ConfigMap, and dnsService is the DNS's Service.
	coredns, corefile, dnsService = "coredns", "Corefile", "kube-dns"
	// rewritten is an annotation of a ConfigMap that we have changed, and of the Pods that have read it. Its value is the
	// digest of the file.
	rewritten = "operator-labs.lva.io/corefile"
)

// ensureNames makes the cluster's DNS resolve all names below lab.test to the Ingress controller. It returns the DNS's
// address and port.
func ensureNames(ctx context.Context, p *plain, report func(string)) (resolver string, err error) {
	service, err := p.client.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, dnsService, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !p.target.Shared {
		// On an embedded cluster that is just starting, the DNS may be created at the same time.
		err = until(ctx, plainPatience, "the cluster's DNS", func(ctx context.Context) (string, error) {
			service, err = p.client.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, dnsService, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return "the namespace kube-system has no Service " + dnsService, nil
			}
			return "", err
		})
	}
	if err != nil {
		return "", fmt.Errorf("Pebble asks the cluster's DNS for the names that it validates: %w", err)
	}
	rules, err := p.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, coredns, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("the cluster's DNS is not CoreDNS with its Corefile in the ConfigMap kube-system/%s, "+
			"so names below lab.test can't be led to an Ingress controller, and Pebble could validate none: "+
			"take public names and a public issuer instead (docs/guides/rke2.md)", coredns)
	}
	if err != nil {
		return "", fmt.Errorf("reading the rules of the cluster's DNS: %w", err)
	}
	if !strings.Contains(rules.Data[corefile], labZone) {
		if p.target.Shared {
			return "", fmt.Errorf("the cluster is not ours, and neither is its DNS: "+
				"Pebble needs this rule in the Corefile of the ConfigMap kube-system/%s, "+
				"or take public names and a public issuer instead (docs/guides/rke2.md):\n%s", coredns, labNames)
		}
		report("adding lab.test to the cluster's DNS")
		if err := addLabNames(ctx, p, rules); err != nil {
			return "", err
		}
	}
	if digest := rules.Annotations[rewritten]; digest != "" {
		if err := restartDNS(ctx, p, &digest); err != nil {
			return "", err
		}
	}
	return service.Spec.ClusterIP + ":53", nil
}

func addLabNames(ctx context.Context, p *plain, rules *corev1.ConfigMap) error {
	if rules.Annotations == nil {
		rules.Annotations = map[string]string{}
	}
	rules.Data[corefile] = strings.TrimRight(rules.Data[corefile], "\n") + "\n" + labNames
	sum := sha256.Sum256([]byte(rules.Data[corefile]))
	rules.Annotations[rewritten] = hex.EncodeToString(sum[:8])
	if _, err := p.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Update(ctx, rules,
		metav1.UpdateOptions{FieldManager: fieldOwner}); err != nil {
		return fmt.Errorf("adding lab.test to the cluster's DNS: %w", err)
	}
	return nil
}

// removeNames removes the rule that ensureNames added from the cluster's DNS, and leaves the rest of the configuration
// unchanged. It also leaves a rule that existed before, or that was changed since.
func removeNames(ctx context.Context, p *plain) error {
	if p.target.Shared {
		return nil // ensureNames adds nothing there
	}
	rules, err := p.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, coredns, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the rules of the cluster's DNS: %w", err)
	}
	if rules.Annotations[rewritten] != "" {
		delete(rules.Annotations, rewritten)
		rules.Data[corefile] = strings.Replace(rules.Data[corefile], labNames, "", 1)
		if _, err := p.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Update(ctx, rules,
			metav1.UpdateOptions{FieldManager: fieldOwner}); err != nil {
			return fmt.Errorf("removing lab.test from the cluster's DNS: %w", err)
		}
	}
	servers, err := p.client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, coredns, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at the cluster's DNS: %w", err)
	}
	if servers.Spec.Template.Annotations[rewritten] == "" {
		return nil
	}
	return restartDNS(ctx, p, nil)
}

// restartDNS restarts CoreDNS unless its Pods are newer than the file. Without a restart, they would read the file
// within two minutes. The digest is the file's, or nil if nothing in it is ours.
func restartDNS(ctx context.Context, p *plain, digest *string) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{
		"metadata": map[string]any{"annotations": map[string]*string{rewritten: digest}},
	}}})
	if err != nil {
		return err
	}
	if _, err := p.client.AppsV1().Deployments(metav1.NamespaceSystem).Patch(ctx, coredns,
		types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldOwner}); err != nil {
		return fmt.Errorf("restarting the cluster's DNS: %w", err)
	}
	return nil
}

// awaitNames waits until the cluster's DNS has read the rule.
func awaitNames(ctx context.Context, p *plain, report func(string)) error {
	const what = "the cluster's DNS"
	return waitReady(ctx, p.target, metav1.NamespaceSystem, plainPatience, what, report,
		func(ctx context.Context) (string, error) {
			return namesObjection(ctx, p)
		})
}

func namesObjection(ctx context.Context, p *plain) (string, error) {
	rules, err := p.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, coredns, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the rules of the cluster's DNS: %w", err)
	}
	if !strings.Contains(rules.Data[corefile], labZone) {
		return "the cluster's DNS has no rule for lab.test", nil
	}
	servers, err := p.client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, coredns, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("looking at the cluster's DNS: %w", err)
	}
	if servers.Spec.Template.Annotations[rewritten] != rules.Annotations[rewritten] || !deploymentReady(servers) {
		return "the cluster's DNS is not ready with the rule for lab.test", nil
	}
	return "", nil
}
