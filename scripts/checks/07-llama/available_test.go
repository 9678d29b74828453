// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/protocol"
)

// namespacePatience is the time limit for the namespace controller, which begins five seconds after a namespace was
// deleted, and retries with growing delays.
const namespacePatience = 30 * time.Second

// undeletable are the conditions of a namespace whose llamas can't be deleted. The condition depends on what the
// namespace controller knows already: the group is gone from discovery, or the server does not answer.
var undeletable = []corev1.NamespaceConditionType{
	corev1.NamespaceDeletionDiscoveryFailure,
	corev1.NamespaceDeletionContentFailure,
}

// namespaceDelay is how long the namespace controller waits after a namespace was deleted.
const namespaceDelay = 5 * time.Second

// deletedNamespace is a namespace that is being deleted, with the time of its deletion.
type deletedNamespace struct {
	name string
	at   time.Time
}

// lastOne is the name of the llama in a deleted namespace.
const lastOne = "last-one"

// deleteNamespaceEarly deletes a namespace with a llama, so that the check available need not wait for the namespace
// controller to begin. If that is not possible, the check available reports why.
func (v visit) deleteNamespaceEarly() {
	v.t.Helper()
	const name = "llama-checks-pasture-early"
	namespaces := v.typed.CoreV1().Namespaces()
	if _, err := namespaces.Create(v.ctx, &corev1.Namespace{ObjectMeta: ours(name)}, metav1.CreateOptions{}); err != nil {
		return
	}
	if v.send(v.ctx, http.MethodPost, llamas(name), newLlama(lastOne, 100, 1.5)).code != http.StatusCreated {
		return
	}
	deleted := deletedNamespace{name, time.Now()}
	if namespaces.Delete(v.ctx, name, metav1.DeleteOptions{}) == nil {
		v.kept.deleted = deleted
	}
}

// startByVariable starts the server without its flag --kubeconfig, so that it uses the variable KUBECONFIG. A Pod is
// started as usual, because its Deployment determines how it finds the cluster.
func (v visit) startByVariable() {
	v.t.Helper()
	if v.Server.Service == "" {
		v.startWith("--kubeconfig=")
	}
	v.start() // if the server runs, this only waits
}

// startWith starts the server with a flag, and reports whether that was possible: the program may not have the flag.
func (v visit) startWith(flag string) bool {
	v.t.Helper()
	err := v.Operator.StartAs(v.ctx, protocol.Start{Flags: []string{flag}})
	if errors.Is(err, check.ErrNoSuchFlag) || errors.Is(err, check.ErrNotAdjustable) {
		return false
	}
	v.OK(v.t, "starting the server with "+flag, err)
	return true
}

func available() types.Feature {
	return features.New("availability").
		Assess("is lost and restored", check.Assess(step(func(v visit) {
			name := "llama-checks-pasture"
			namespaces := v.typed.CoreV1().Namespaces()
			_, err := namespaces.Create(v.ctx, &corev1.Namespace{ObjectMeta: ours(name)}, metav1.CreateOptions{})
			v.OK(v.t, "creating a namespace", err)
			v.create(name, newLlama(lastOne, 100, 1.5))
			v.OK(v.t, "stopping the server", v.Operator.Stop(v.ctx))
			if early := v.kept.deleted; early.name != "" && time.Since(early.at) < namespaceDelay {
				name = early.name // the namespace controller has not tried to delete its llama yet
			} else {
				v.OK(v.t, "deleting a namespace", namespaces.Delete(v.ctx, name, metav1.DeleteOptions{}))
			}
			v.eventually("while the server is away the APIService's condition Available is False", startPatience,
				v.withTouch(func() (string, bool) {
					observed, available := v.condition()
					return observed, !available
				}))
			if a := v.send(v.ctx, http.MethodGet, llamas(ns), nil); a.code != http.StatusServiceUnavailable {
				v.fail(a, "while the server is away the API server answers 503 for llamas", "the answer is "+a.summary())
			}
			v.eventually("while the server is away no namespace can be deleted: "+
				"its condition NamespaceDeletionDiscoveryFailure or NamespaceDeletionContentFailure is True",
				namespacePatience, func() (string, bool) {
					namespace, err := namespaces.Get(v.ctx, name, metav1.GetOptions{})
					if err != nil {
						return "the namespace can't be read: " + err.Error(), false
					}
					for _, condition := range namespace.Status.Conditions {
						if slices.Contains(undeletable, condition.Type) && condition.Status == corev1.ConditionTrue {
							return "", true
						}
					}
					return fmt.Sprintf("the namespace is %s, with the conditions %v",
						namespace.Status.Phase, namespace.Status.Conditions), false
				})
			v.startByVariable()
			v.eventually("when the server is back the APIService is Available again", startPatience, v.withTouch(v.condition))
			v.eventually("when the server is back the namespace is deleted, and its llamas with it", namespacePatience,
				func() (string, bool) {
					namespace, err := namespaces.Get(v.ctx, name, metav1.GetOptions{})
					if apierrors.IsNotFound(err) {
						return "", true
					}
					if err != nil {
						return err.Error(), false
					}
					return fmt.Sprintf("it is %s, with the conditions %v", namespace.Status.Phase, namespace.Status.Conditions), false
				})
			if a := v.send(v.ctx, http.MethodGet, llama(name, lastOne), nil); a.code != http.StatusNotFound {
				v.fail(a, "the llamas of a namespace are deleted with it", "the answer is "+a.summary())
			}
		}))).
		Teardown(check.Teardown(ensureStarted)).Feature()
}
