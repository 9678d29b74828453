// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"

	"lva.io/operators/clusters/embedded"
)

// The operator's account, as kubebuilder's manifests would make it.
const (
	operatorNamespace = "operator-system"
	operatorAccount   = "controller-manager"
	// tokenSeconds is how long the account's token is good for: a day in the playground.
	tokenSeconds = 24 * 60 * 60
	// fieldManager owns what we apply.
	fieldManager = "operator-labs"
)

// User is the name by which the API server, and so the audit log, knows the operator.
const User = "system:serviceaccount:" + operatorNamespace + ":" + operatorAccount

var definitionsResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// Access is the way by which the operator gets to the API server, and what may be done there for it.
type Access struct {
	// File is where its kubeconfig is written to.
	File string
	// Host is the API server's URL, and CA whose certificates to trust there, in PEM. Default: those of the administrator.
	Host string
	CA   []byte
	// Exchange is told the account's token, and returns the one that the operator gets in its place. Default: it gets its own.
	Exchange func(token string) (shown string)
	// Shared says that the cluster has other users, too. What is there is then somebody else's, and not touched: that it is in
	// the way is an error. In a cluster of our own it is an earlier submission's, and replaced.
	Shared bool
	// Groups are the API groups of the kinds about which the submission may decide in a shared cluster.
	Groups []string
	// Made is told of each namespace that was made, before anything is made in it. Default: nobody is.
	Made func(ctx context.Context, namespace string) error
}

func (a Access) shown(token string) string {
	if a.Exchange == nil {
		return token
	}
	return a.Exchange(token)
}

// let passes over what is there already, unless it is somebody else's.
func (a Access) let(what string, err error) error {
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if a.Shared {
		return &InTheWayError{what}
	}
	return nil
}

// InTheWayError says that a cluster of others has something already that the submission would bring.
type InTheWayError struct {
	// What it is, with its name.
	What string
}

func (e *InTheWayError) Error() string {
	return e.What + " is in the cluster already, and was not made by a run of ours, so it is not touched: " +
		"if it is yours (of `make deploy` or `make install`), remove it; otherwise take another cluster"
}

// Install brings the submission's API and its account into a cluster with one API server: its
// CustomResourceDefinitions, until they are established, and a ServiceAccount that has the rights of its roles and no
// others. It writes the account's kubeconfig. Installing again brings a cluster up to date, and takes out the webhooks that
// an earlier submission had registered. A definition that the API server refuses is a *Problem. The submission's own
// webhooks are for ServeWebhooks.
func (m *Manifests) Install(ctx context.Context, config *rest.Config, access Access) error {
	if access.Host == "" {
		access.Host, access.CA = config.Host, config.CAData
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if !access.Shared {
		if err := m.removeStale(ctx, dynamicClient); err != nil {
			return err
		}
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return m.installDefinitions(ctx, dynamicClient, access) })
	both.Go(func() error {
		if err := m.installAccount(ctx, client, access); err != nil {
			return err
		}
		return writeKubeconfig(ctx, client, access)
	})
	return both.Wait()
}

// writeKubeconfig writes the access of the operator's account: a token that the API server has signed.
func writeKubeconfig(ctx context.Context, client kubernetes.Interface, access Access) error {
	token, err := newToken(ctx, client, operatorNamespace, operatorAccount)
	if err != nil {
		return err
	}
	content, err := embedded.Kubeconfig(access.Host, access.CA, clientcmdapi.AuthInfo{Token: access.shown(token)})
	if err != nil {
		return err
	}
	if err := os.WriteFile(access.File, content, 0o600); err != nil {
		return fmt.Errorf("writing the operator's kubeconfig: %w", err)
	}
	return nil
}

// newToken is a token of an account that the API server has signed.
func newToken(ctx context.Context, client kubernetes.Interface, namespace, account string) (string, error) {
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))}},
		metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for the operator's token: %w", err)
	}
	return token.Status.Token, nil
}

func (m *Manifests) installDefinitions(ctx context.Context, client dynamic.Interface, access Access) error {
	definitions := client.Resource(definitionsResource)
	for _, definition := range m.definitions {
		if err := m.applyDefinition(ctx, definitions, definition, access.Shared); err != nil {
			return err
		}
	}
	for _, definition := range m.definitions {
		if err := waitEstablished(ctx, definitions, definition.GetName()); err != nil {
			return err
		}
		if access.Shared {
			continue // there may be several API servers, and they need the time
		}
		if err := backdate(ctx, definitions, definition.GetName()); err != nil {
			return fmt.Errorf("backdating the CustomResourceDefinition %s: %w", definition.GetName(), err)
		}
	}
	return nil
}

// applyDefinition brings a definition into a cluster. One that was generated and is refused gives way to the committed one:
// then the submission's own `make manifests` does what ours does not.
func (m *Manifests) applyDefinition(ctx context.Context, definitions dynamic.ResourceInterface, definition *unstructured.Unstructured, shared bool) error {
	_, err := apply(ctx, definitions, definition, shared)
	refused, ok := errors.AsType[*Problem](err)
	if !ok {
		return err
	}
	committed := find(m.fallback, definition.GetName())
	if committed == nil {
		return err
	}
	if _, err := apply(ctx, definitions, committed, shared); err != nil {
		return refused
	}
	m.notice("%s; what is committed in config/crd/bases was used instead", refused.Reason)
	return nil
}

// waitEstablished watches a definition until its kind is served, or never will be: then it is for the checks to say why.
func waitEstablished(ctx context.Context, definitions dynamic.ResourceInterface, name string) error {
	changes, err := definitions.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return fmt.Errorf("watching the CustomResourceDefinition %s: %w", name, err)
	}
	defer changes.Stop()
	for {
		select {
		case change, ok := <-changes.ResultChan():
			if !ok {
				return fmt.Errorf("watching the CustomResourceDefinition %s: the watch ended", name)
			}
			definition, ok := change.Object.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("watching the CustomResourceDefinition %s: %w", name, apierrors.FromObject(change.Object))
			}
			if conditionIs(definition, "Established", "True") || conditionIs(definition, "NamesAccepted", "False") {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for the CustomResourceDefinition %s: %w", name, context.Cause(ctx))
		}
	}
}

// backdate makes a definition look as if it had been established for a minute. For the first two seconds the API server
// holds back each create of a new kind for two seconds, so that its replicas learn of the kind; here there are none, and
// a whole grading run takes but a few seconds. (k8s.io/apiextensions-apiserver, customresource_handler.go)
func backdate(ctx context.Context, definitions dynamic.ResourceInterface, name string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		definition, err := definitions.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
		for _, condition := range conditions {
			if c, ok := condition.(map[string]any); ok && c["type"] == "Established" {
				c["lastTransitionTime"] = time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
			}
		}
		if err := unstructured.SetNestedSlice(definition.Object, conditions, "status", "conditions"); err != nil {
			return err
		}
		_, err = definitions.UpdateStatus(ctx, definition, metav1.UpdateOptions{FieldManager: fieldManager})
		return err
	})
}

func conditionIs(object *unstructured.Unstructured, kind, status string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range conditions {
		if c, ok := condition.(map[string]any); ok && c["type"] == kind && c["status"] == status {
			return true
		}
	}
	return false
}

func (m *Manifests) installAccount(ctx context.Context, client kubernetes.Interface, access Access) error {
	if err := makeNamespace(ctx, client, operatorNamespace, access); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: operatorAccount}}
	_, err := client.CoreV1().ServiceAccounts(operatorNamespace).Create(ctx, account, metav1.CreateOptions{})
	if err := access.let("the ServiceAccount "+operatorAccount, err); err != nil {
		return fmt.Errorf("creating the operator's ServiceAccount: %w", err)
	}
	for _, role := range m.clusterRoles {
		if err := bindClusterRole(ctx, client.RbacV1(), role, access); err != nil {
			return installing("the ClusterRole "+role.Name, err)
		}
	}
	for _, role := range m.roles {
		if err := bindRole(ctx, client, role, access); err != nil {
			return installing("the Role "+role.Name, err)
		}
	}
	return nil
}

// makeNamespace makes a namespace. One that is there is an earlier submission's in a cluster of our own, and in the way in a shared one.
func makeNamespace(ctx context.Context, client kubernetes.Interface, name string, access Access) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: withOurLabel(nil)}}
	_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err == nil && access.Made != nil {
		return access.Made(ctx, name)
	}
	if err := access.let("the namespace "+name, err); err != nil {
		return fmt.Errorf("creating the namespace %s: %w", name, err)
	}
	return nil
}

func subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: operatorAccount, Namespace: operatorNamespace}}
}

// installing tells what the API server refuses, which is the submission's fault, from what is ours.
func installing(what string, err error) error {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "operator-labs-") {
		// Said of the account that installs: see existing.Account.
		return &Problem{Reason: fmt.Sprintf("%s needs rights that no lab's operator has on a cluster which others use, too: grade it on the embedded cluster, "+
			"or ask for less: %v", what, err)}
	}
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) ||
		err != nil && strings.Contains(err.Error(), "failed to create typed patch object") { // a field that there is not; it has no code
		return &Problem{Reason: fmt.Sprintf("the API server refuses %s: %v", what, err)}
	}
	return fmt.Errorf("installing %s: %w", what, err)
}
