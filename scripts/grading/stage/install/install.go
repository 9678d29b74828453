// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package install

import (
	"context"
	"errors"
	"fmt"
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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/retry"

	"lva.io/operators/clusters/await"
	"lva.io/operators/scripts/grading/submission"
)

const (
	// tokenSeconds is the lifetime of the account's token: a day in the playground.
	tokenSeconds = 24 * 60 * 60
	// FieldManager is the field manager of everything that this package applies.
	FieldManager = "operator-labs"
)

// Definitions is the resource of CustomResourceDefinitions.
var Definitions = schema.GroupVersionResource{
	Group:    "apiextensions.k8s.io",
	Version:  "v1",
	Resource: "customresourcedefinitions",
}

// Target describes the cluster into which a submission is installed, and what may be done there.
type Target struct {
	// Config is the configuration of the account that installs.
	Config *rest.Config
	// Shared is true if the cluster has other users, too. Existing objects then belong to others and are not changed: a
	// conflict with one of them is an error. In a cluster of the run's own, an existing object is an earlier submission's
	// and is replaced.
	Shared bool
	// Groups are the API groups that the submission's webhooks and APIServices may handle in a shared cluster.
	Groups []string
	// NamespaceCreated is called for each new namespace, before anything is created in it. Default: no function.
	NamespaceCreated func(ctx context.Context, namespace string) error
}

// allowExisting ignores the error of an existing object, unless it belongs to another owner.
func (t Target) allowExisting(what string, err error) error {
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if t.Shared {
		return &ForeignObjectError{what}
	}
	return nil
}

// ForeignObjectError is the error if a shared cluster already has an object that the submission would create.
type ForeignObjectError struct {
	// Object is the kind of the object, with its name.
	Object string
}

func (e *ForeignObjectError) Error() string {
	return e.Object + " already exists in the cluster and was not created by a run of the grader, so it is not changed: " +
		"if it is yours (from `make deploy` or `make install`), remove it; otherwise use another cluster"
}

// API installs a submission's API and its account in a cluster. It applies the CustomResourceDefinitions and waits
// until they are established, and it creates a ServiceAccount with exactly the rights of the submission's roles and
// returns a token for it. Installing again updates a cluster, and removes the webhooks that an earlier submission had
// registered. A definition that the API server refuses is a *submission.Problem.
func API(ctx context.Context, t Target, m *submission.Manifests) (token string, err error) {
	client, err := kubernetes.NewForConfig(t.Config)
	if err != nil {
		return "", fmt.Errorf("creating a client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(t.Config)
	if err != nil {
		return "", fmt.Errorf("creating a client: %w", err)
	}
	if !t.Shared {
		if err := removeStale(ctx, dynamicClient, m); err != nil {
			return "", err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return t.definitions(ctx, dynamicClient, m) })
	group.Go(func() (err error) {
		if err := t.account(ctx, client, m); err != nil {
			return err
		}
		token, err = Token(ctx, client, submission.AccountNamespace, submission.AccountName)
		return err
	})
	return token, group.Wait()
}

// Token returns a token for an account, signed by the API server.
func Token(ctx context.Context, client kubernetes.Interface, namespace, account string) (string, error) {
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))}},
		metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting the operator's token: %w", err)
	}
	return token.Status.Token, nil
}

func (t Target) definitions(ctx context.Context, client dynamic.Interface, m *submission.Manifests) error {
	definitions := client.Resource(Definitions)
	for _, definition := range m.Definitions {
		if err := t.Definition(ctx, definitions, definition, m); err != nil {
			return err
		}
	}
	for _, definition := range m.Definitions {
		if _, err := waitEstablished(ctx, definitions, definition.GetName()); err != nil {
			return err
		}
		if t.Shared {
			continue // there may be several API servers, which need that time
		}
		if err := backdate(ctx, definitions, definition.GetName()); err != nil {
			return fmt.Errorf("backdating the CustomResourceDefinition %s: %w", definition.GetName(), err)
		}
	}
	return nil
}

// Definition applies a definition to a cluster. If the API server refuses a generated definition, the committed one is
// applied, because the submission's own `make manifests` may generate a definition that the grader's controller-gen
// can't.
func (t Target) Definition(
	ctx context.Context, definitions dynamic.ResourceInterface,
	definition *unstructured.Unstructured, m *submission.Manifests,
) error {
	_, err := t.Apply(ctx, definitions, definition)
	refused, ok := errors.AsType[*submission.Problem](err)
	if !ok {
		return err
	}
	committed := submission.Find(m.Committed, definition.GetName())
	if committed == nil {
		return err
	}
	if _, err := t.Apply(ctx, definitions, committed); err != nil {
		return refused
	}
	m.Notice("%s; what is committed in config/crd/bases was used instead", refused.Reason)
	return nil
}

// discoveryLimit is how long the API server may take to list a kind that it serves already. It once took more than 60
// ms.
const discoveryLimit = 30 * time.Second

// WaitDiscovered waits until a definition's kind is served and the mapper finds it, which is possible a moment later.
// It returns without an error if the kind will never be served, because the checks then report the reason.
func WaitDiscovered(
	ctx context.Context, definitions dynamic.ResourceInterface, mapper *restmapper.DeferredDiscoveryRESTMapper,
	definition *unstructured.Unstructured,
) error {
	if established, err := waitEstablished(ctx, definitions, definition.GetName()); err != nil || !established {
		return err
	}
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	ctx, cancel := context.WithTimeout(ctx, discoveryLimit)
	defer cancel()
	return await.Until(ctx, 20*time.Millisecond,
		"the API server to list the kind "+kind, func(context.Context) (string, error) {
			mapper.Reset()
			for _, version := range submission.ServedVersions(definition) {
				if _, err := mapper.RESTMapping(schema.GroupKind{Group: group, Kind: kind}, version); err != nil {
					return err.Error(), nil //nolint:nilerr // it retries until the limit, and then reports this reason
				}
			}
			return "", nil
		})
}

// waitEstablished watches a definition until its kind is served, or never will be.
func waitEstablished(
	ctx context.Context, definitions dynamic.ResourceInterface, name string,
) (established bool, err error) {
	err = await.Change(ctx, definitions, metav1.ListOptions{
		FieldSelector: "metadata.name=" + name,
	}, func(change watch.Event) (bool, error) {
		definition, ok := change.Object.(*unstructured.Unstructured)
		if !ok {
			return false, apierrors.FromObject(change.Object)
		}
		established = ConditionIs(definition, "Established", "True")
		return established || ConditionIs(definition, "NamesAccepted", "False"), nil
	})
	if err != nil {
		return false, fmt.Errorf("waiting for the CustomResourceDefinition %s: %w", name, err)
	}
	return established, nil
}

// backdate makes a definition look as if it had been established for a minute. For the first two seconds the API server
// holds back each create of a new kind for two seconds, so that its replicas learn of the kind. This cluster has no
// replicas, and a whole grading run takes only a few seconds. (k8s.io/apiextensions-apiserver,
// customresource_handler.go)
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
		_, err = definitions.UpdateStatus(ctx, definition, metav1.UpdateOptions{FieldManager: FieldManager})
		return err
	})
}

// ConditionIs reports whether an object has a condition of this type with this status.
func ConditionIs(object *unstructured.Unstructured, kind, status string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range conditions {
		if c, ok := condition.(map[string]any); ok && c["type"] == kind && c["status"] == status {
			return true
		}
	}
	return false
}

// account creates the operator's account.
func (t Target) account(ctx context.Context, client kubernetes.Interface, m *submission.Manifests) error {
	if err := t.namespace(ctx, client, submission.AccountNamespace); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: submission.AccountName}}
	_, err := client.CoreV1().ServiceAccounts(submission.AccountNamespace).Create(ctx, account, metav1.CreateOptions{})
	if err := t.allowExisting("the ServiceAccount "+submission.AccountName, err); err != nil {
		return fmt.Errorf("creating the operator's ServiceAccount: %w", err)
	}
	for _, role := range m.ClusterRoles {
		if err := t.bindClusterRole(ctx, client.RbacV1(), role); err != nil {
			return installError("the ClusterRole "+role.Name, err)
		}
	}
	for _, role := range m.Roles {
		if err := t.bindRole(ctx, client, role); err != nil {
			return installError("the Role "+role.Name, err)
		}
	}
	return nil
}

// namespace creates a namespace. An existing one belongs to an earlier submission in a cluster of the run's own, and is
// an error in a shared one.
func (t Target) namespace(ctx context.Context, client kubernetes.Interface, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelled(nil)}}
	_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err == nil && t.NamespaceCreated != nil {
		return t.NamespaceCreated(ctx, name)
	}
	if err := t.allowExisting("the namespace "+name, err); err != nil {
		return fmt.Errorf("creating the namespace %s: %w", name, err)
	}
	return nil
}

func subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{
		Kind:      rbacv1.ServiceAccountKind,
		Name:      submission.AccountName,
		Namespace: submission.AccountNamespace,
	}}
}

// installError distinguishes objects that the API server refuses, which are errors of the submission, from errors of
// the grader.
func installError(what string, err error) error {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "operator-labs-") {
		// The message is about the account that installs: see existing.Account.
		return &submission.Problem{Reason: fmt.Sprintf("%s needs rights that no lab's operator has on a cluster "+
			"that others use, too: grade it on the embedded cluster, or request fewer rights: %v", what, err)}
	}
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) ||
		apierrors.IsRequestEntityTooLargeError(err) ||
		err != nil && strings.Contains(err.Error(), "failed to create typed patch object") { // an unknown field
		return &submission.Problem{Reason: fmt.Sprintf("the API server refuses %s: %v", what, err)}
	}
	return fmt.Errorf("installing %s: %w", what, err)
}

// Apply creates or updates an object of the submission. In a shared cluster it only creates it.
func (t Target) Apply(
	ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	if object.GetName() == "" {
		return nil, &submission.Problem{Reason: fmt.Sprintf("a %s of the submission has no name: give it one under metadata",
			object.GetKind())}
	}
	// The client would refuse such a name before the API server can.
	if mistakes := rest.IsValidPathSegmentName(object.GetName()); len(mistakes) > 0 {
		return nil, &submission.Problem{Reason: fmt.Sprintf("the %s has an invalid name: it %s",
			submission.NameOf(object), strings.Join(mistakes, ", and "))}
	}
	object = object.DeepCopy()
	object.SetLabels(labelled(object.GetLabels()))
	object.SetManagedFields(nil) // the file may have been copied from a cluster
	var made *unstructured.Unstructured
	var err error
	if t.Shared {
		made, err = client.Create(ctx, object, metav1.CreateOptions{FieldManager: FieldManager})
		if apierrors.IsAlreadyExists(err) {
			return nil, &ForeignObjectError{"the " + submission.NameOf(object)}
		}
	} else {
		made, err = client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	}
	if err != nil {
		return nil, installError("the "+submission.NameOf(object), err)
	}
	return made, nil
}
