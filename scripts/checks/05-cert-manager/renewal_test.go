// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certmanager

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"lva.io/operators/clusters/await"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/deployed"
	"lva.io/operators/scripts/checks/reach"
	"lva.io/operators/scripts/services/freezer"
)

const (
	// beforehand is how long requests are sent before the renewal.
	beforehand = time.Second
	// renewLimit is how long the renewal may take. It needs a second.
	renewLimit = 25 * time.Second
	// afterwards is the minimum time for which requests are sent after a renewal.
	afterwards = 3 * time.Second
	// arriveLimit is how long the Pod may take after that to serve the renewed certificate. It takes less than a second,
	// because lookAgain triggers the kubelet. A server that polls reads its files every ten seconds.
	arriveLimit = 30 * time.Second
	// pace is the time between two requests of the loop.
	pace = 150 * time.Millisecond
	// healLimit is how long a deleted Secret may be gone.
	healLimit = 15 * time.Second
	// legacyLimit is how long the API server may take to use a bundle that trusts another certificate than the Pod serves.
	legacyLimit = 15 * time.Second
)

// legacyLabels are labels of requests for which the API server also calls the lab's own webhook.
var legacyLabels = map[string]string{"lva.io/old-way": "yes"}

// legacyManifest registers the submission's webhook server once more, and trusts only one certificate. This is the
// situation with a selfSigned Issuer: the leaf is its own CA, and the newest one replaces the previous one in the
// caBundle.
const legacyManifest = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: operator-labs-old-way}
webhooks:
- name: old-way.lva.io
  clientConfig:
    service: {name: %s, namespace: %s, path: /validate-demo-lva-io-v1-icecream}
    caBundle: %s
  objectSelector: {matchLabels: {lva.io/old-way: "yes"}}
  rules:
  - {apiGroups: [demo.lva.io], apiVersions: [v1], resources: [icecreams], operations: [CREATE]}
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
`

// trustOnly makes the webhook of legacyManifest trust one certificate.
func (o *operator) trustOnly(ctx context.Context, certificate []byte) error {
	service, namespace, _ := strings.Cut(strings.TrimSuffix(o.hosts()[0], ".svc"), ".")
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	objects, err := deployed.Read(fmt.Appendf(nil, legacyManifest, service, namespace,
		base64.StdEncoding.EncodeToString(bundle)))
	if err != nil {
		return err
	}
	return o.Apply(ctx, objects...)
}

// renew requests a new certificate from cert-manager, as `cmctl renew` does: by a condition of the Certificate. So the
// lab does not depend on the validity period of a submission's certificate. renew reports whether there is a
// Certificate to renew.
func (o *operator) renew(ctx context.Context) (found bool, err error) {
	client := o.Dynamic.Resource(certificates).Namespace(o.deployment.Namespace)
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		all, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range all.Items {
			certificate := &all.Items[i]
			if secret, _, _ := unstructured.NestedString(certificate.Object, "spec", "secretName"); secret != o.secret {
				continue
			}
			found = true
			conditions, _, err := unstructured.NestedSlice(certificate.Object, "status", "conditions")
			if err != nil {
				return err
			}
			conditions = slices.DeleteFunc(conditions, func(condition any) bool {
				return condition.(map[string]any)["type"] == "Issuing"
			})
			conditions = append(conditions, map[string]any{
				"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "The check asks for a renewal",
				"lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "observedGeneration": certificate.GetGeneration(),
			})
			if err := unstructured.SetNestedSlice(certificate.Object, conditions, "status", "conditions"); err != nil {
				return err
			}
			_, err = client.UpdateStatus(ctx, certificate, metav1.UpdateOptions{})
			return err
		}
		return nil
	})
	return found, err
}

// lookAgain makes the kubelet update the Pod's volumes now. Otherwise the kubelet does so once a minute, and when the
// Pod changes.
func (o *operator) lookAgain(ctx context.Context, pod *corev1.Pod) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"operator-labs.lva.io/look-again":%q}}}`,
		time.Now().Format(time.RFC3339Nano))
	_, err := o.Client.CoreV1().Pods(pod.Namespace).Patch(ctx,
		pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the Pod was replaced, which the check reports later
	}
	return err
}

// arrived reports whether the Pod serves the certificate in the Secret.
func (o *operator) arrived(ctx context.Context, pod *corev1.Pod) bool {
	renewed, _, err := o.leaf(ctx)
	if err != nil {
		return false
	}
	served, err := o.served(ctx, pod)
	return err == nil && served.Equal(renewed)
}

// mounts describes how the Deployment mounts the Secret.
func (o *operator) mounts() (lines []string) {
	volumes := map[string]bool{}
	for _, volume := range o.deployment.Spec.Template.Spec.Volumes {
		volumes[volume.Name] = volume.Secret != nil && volume.Secret.SecretName == o.secret
	}
	for _, container := range o.deployment.Spec.Template.Spec.Containers {
		for _, mount := range container.VolumeMounts {
			if !volumes[mount.Name] {
				continue
			}
			line := fmt.Sprintf("the container %s mounts the Secret at %s", container.Name, mount.MountPath)
			if mount.SubPath+mount.SubPathExpr != "" {
				lines = append(lines, line+" with subPath: the kubelet never updates such a file")
			} else {
				lines = append(lines, line+": does the server read the files again when they have changed?")
			}
		}
	}
	return lines
}

// renewal sends requests during a renewal, until the Pod serves the renewed certificate. It sends each request once
// through the submission's registrations, and once through the legacy one.
func renewal(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	o := operatorOf(ctx)
	o.renewedSeldom(ctx, t, c)
	before, err := o.ready(ctx)
	c.OK(t, "waiting for the operator's Pod", err)
	served, err := o.serves(ctx, before)
	c.OK(t, "asking the Pod for its certificate", err)
	bundles, err := o.bundles(ctx)
	c.OK(t, "reading the caBundles", err)
	c.OK(t, "registering a webhook", o.trustOnly(ctx, served.Raw))
	first, _, err := o.leaf(ctx)
	c.OK(t, "reading the certificate", err)

	const renews = "the serving certificate is renewed when cert-manager is asked for it"
	var asked, renewed time.Time
	sent, refused, oldRefused, sample, arrived := 0, 0, 0, "", false
	const longest = afterwards + arriveLimit
	for began := time.Now(); !arrived && (renewed.IsZero() || time.Since(renewed) < longest); c.Pause(ctx, t, pace) {
		switch {
		case asked.IsZero() && time.Since(began) > beforehand:
			asked = time.Now()
			found, err := o.renew(ctx)
			c.OK(t, "asking cert-manager for a renewal", err)
			if !found {
				c.Fail(t, renews, "no Certificate is for the Secret "+o.secret, o.conditions(ctx)...)
			}
		case !asked.IsZero() && renewed.IsZero() && time.Since(asked) > renewLimit:
			c.Fail(t, renews, fmt.Sprintf("it was not renewed within %s", renewLimit), o.conditions(ctx)...)
		}
		sent++
		if err := o.try(ctx, order("loop", nil, "vanilla")); err != nil {
			refused++
			sample = err.Error()
			c.Note(time.Now(), 0, "Icecream loop is refused")
		}
		if err := o.try(ctx, order("loop-old-way", legacyLabels, "vanilla")); err != nil &&
			strings.Contains(err.Error(), "old-way.lva.io") {
			oldRefused++
			o.refused = err.Error()
			c.Note(time.Now(), 0, "Icecream loop-old-way is refused (leaf = CA)")
		}
		if now, _, err := o.leaf(ctx); err == nil && renewed.IsZero() && !now.Equal(first) {
			renewed = time.Now()
			c.Note(renewed, 0, "Certificate in "+o.secret+" is renewed")
			c.OK(t, "registering a webhook", o.trustOnly(ctx, now.Raw))
		}
		if renewed.IsZero() || time.Since(renewed) < afterwards {
			continue
		}
		if arrived = o.arrived(ctx, before); arrived {
			c.Note(time.Now(), 0, "Pod "+before.Name+" serves the renewed certificate")
		} else {
			c.OK(t, "having the kubelet look at the Pod", o.lookAgain(ctx, before))
		}
	}
	c.Measure("requests in the loop", float64(sent), "")
	c.Measure("refused across the renewal", float64(refused), "")
	c.Measure("refused where the leaf is the CA", float64(oldRefused), "")
	if refused > 0 {
		c.Fail(t, "no request is refused across the renewal",
			fmt.Sprintf("%d of %d requests were refused", refused, sent), sample)
	}
	if now, err := o.bundles(ctx); err != nil || !same(bundles, now) {
		c.Fail(t, "the caBundle stays what it is at a renewal",
			"the caBundle has changed: the serving certificate is its own authority", o.conditions(ctx)...)
	}
	after, err := o.ready(ctx)
	c.OK(t, "waiting for the operator's Pod", err)
	if after.UID != before.UID || after.Status.ContainerStatuses[0].RestartCount > 0 {
		o.fails(ctx, t, c, "the Pod is the same one after the renewal", "it was restarted")
	}
	if !arrived {
		c.Fail(t, "the Pod serves the renewed certificate without a restart",
			fmt.Sprintf("%s after the renewal it still serves the certificate from before, which expires one day", longest),
			o.mounts()...)
	}
	if oldRefused == 0 {
		// The Pod had the new certificate before the API server had the new bundle. With the old bundle, this moment is
		// reproduced.
		c.OK(t, "registering a webhook", o.trustOnly(ctx, served.Raw))
		c.OK(t, "seeing what the old way refuses",
			await.Within(ctx, legacyLimit, deployed.Poll, "the old way to refuse something",
				func(ctx context.Context) (string, error) {
					err := o.try(ctx, order("loop-old-way", legacyLabels, "vanilla"))
					if err == nil || !strings.Contains(err.Error(), "old-way.lva.io") {
						return "nothing is refused", nil
					}
					o.refused = err.Error()
					return "", nil
				}))
	}
}

func heals(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	o := operatorOf(ctx)
	_, secret, err := o.leaf(ctx)
	c.OK(t, "reading the Secret", err)
	began := time.Now()
	c.OK(t, "deleting the Secret",
		o.Client.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{}))
	err = await.Within(ctx, healLimit, deployed.Poll, "the Secret to be back",
		func(ctx context.Context) (string, error) {
			if err := o.try(ctx, order("healing", nil, "vanilla")); err != nil {
				return "", fmt.Errorf("an icecream of vanilla was refused meanwhile: %w", err)
			}
			if _, now, err := o.leaf(ctx); err != nil || now.UID == secret.UID {
				return "it is gone", nil //nolint:nilerr // that it is gone is what is waited out
			}
			return "", nil
		})
	if err != nil {
		c.Fail(t, fmt.Sprintf("the deleted Secret is back within %s", healLimit), err.Error(), o.conditions(ctx)...)
	}
	c.Measure("the Secret was gone for", time.Since(began).Seconds(), "s")
	c.Note(began, time.Since(began), "Secret "+secret.Name+" heals")
}

// books deletes an icecream while the operator is down.
func books(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	o := operatorOf(ctx)
	tunnel, err := reach.Service(ctx, o.Config, freezer.Namespace, "freezer", 80)
	c.OK(t, "reaching the freezer", err)
	defer tunnel.Close()
	books := freezer.NewClient("http://" + tunnel.Address)
	created, err := o.Dynamic.Resource(icecreams).Create(ctx, order("sundae", nil, "vanilla"), metav1.CreateOptions{})
	c.OK(t, "creating an icecream", err)
	owner := string(created.GetUID())
	err = await.Within(ctx, issueLimit, deployed.Poll, "the ingredients of sundae to be taken",
		func(ctx context.Context) (string, error) {
			out, err := books.Out(ctx, owner)
			if err == nil && len(out) < 2 {
				return fmt.Sprintf("%d of 2 are out", len(out)), nil
			}
			return "", err
		})
	if err != nil {
		o.fails(ctx, t, c, "the operator takes the ingredients of an icecream out of the freezer", err.Error())
	}
	c.OK(t, "scaling the Deployment", o.scale(ctx, 0))
	err = await.Within(ctx, startLimit, deployed.Poll, "the operator's Pod to end",
		func(ctx context.Context) (string, error) {
			pods, err := o.All(ctx, o.deployment)
			if err == nil && len(pods) > 0 {
				return "there is one", nil
			}
			return "", err
		})
	c.OK(t, "waiting until the operator is down", err)
	if err := o.Dynamic.Resource(icecreams).Delete(ctx, "sundae", metav1.DeleteOptions{}); err != nil {
		c.Fail(t, "an icecream can be deleted while the operator is down",
			err.Error(), "a webhook that is called for deletions keeps everything")
	}
	c.OK(t, "scaling the Deployment", o.scale(ctx, 1))
	err = await.Within(ctx, startLimit, deployed.Poll, "the icecream to go",
		func(ctx context.Context) (string, error) {
			_, err := o.Dynamic.Resource(icecreams).Get(ctx, "sundae", metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return "", nil
			case err != nil:
				return "", err
			}
			return "it is there", nil
		})
	if err != nil {
		o.fails(ctx, t, c, "the icecream disappears when the operator is back", err.Error())
	}
	out, err := books.Out(ctx, owner)
	c.OK(t, "reading the freezer's books", err)
	if len(out) > 0 {
		o.fails(ctx, t, c, "the freezer's books balance",
			fmt.Sprintf("%d ingredients of an icecream that is gone are still out", len(out)))
	}
}

// needed are the rights that a correct operator may have, in its namespace and outside of it: GROUP/RESOURCE VERB.
var needed = map[string]string{
	"demo.lva.io/icecreams":            "get list watch delete patch update",
	"demo.lva.io/icecreams/status":     "get update patch",
	"demo.lva.io/icecreams/finalizers": "update",
	"events.k8s.io/events":             "create patch update",
	"/events":                          "create patch update",
}

// neededAtHome are further rights that a correct operator may have in its own namespace.
var neededAtHome = map[string]string{"coordination.k8s.io/leases": "get list watch create update patch delete"}

func leastPrivilege(ctx context.Context, t *testing.T, c *check.Check) {
	t.Helper()
	o := operatorOf(ctx)
	account := o.deployment.Spec.Template.Spec.ServiceAccountName
	var spare []string
	for _, namespace := range []string{o.deployment.Namespace, metav1.NamespaceDefault} {
		permissionsOf := func(name string) map[string]bool {
			config := rest.CopyConfig(o.Config)
			config.Impersonate = rest.ImpersonationConfig{
				UserName: "system:serviceaccount:" + o.deployment.Namespace + ":" + name,
				Groups: []string{
					"system:serviceaccounts", "system:serviceaccounts:" + o.deployment.Namespace, "system:authenticated",
				},
			}
			rights, err := rightsIn(ctx, config, namespace)
			c.OK(t, "asking for the rights of an account", err)
			return rights
		}
		usual := permissionsOf("operator-labs-nobody")
		for right := range permissionsOf(account) {
			resource, verb, _ := strings.Cut(right, " ")
			allowed := needed[resource]
			if namespace == o.deployment.Namespace && allowed == "" {
				allowed = neededAtHome[resource]
			}
			if !usual[right] && !strings.Contains(" "+allowed+" ", " "+verb+" ") {
				spare = append(spare, fmt.Sprintf("%s in the namespace %s", right, namespace))
			}
		}
	}
	if len(spare) > 0 {
		c.Fail(t, "the operator's account has no more rights than it needs",
			fmt.Sprintf("it may also: %s", strings.Join(spare, "; ")), spare...)
	}
}

// rightsIn returns the rights of an account in a namespace.
func rightsIn(ctx context.Context, config *rest.Config, namespace string) (map[string]bool, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	rights := map[string]bool{}
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights[group+"/"+resource+" "+verb] = true
				}
			}
		}
	}
	return rights, nil
}
