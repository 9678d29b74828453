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
	"lva.io/operators/scripts/checks/protocol"
)

// namespacePatience is for the namespace controller, which begins five seconds after a namespace was deleted, and tries again later
// and later.
const namespacePatience = 30 * time.Second

// undeletable are the conditions of a namespace whose llamas can't be deleted. Which it is depends on what the namespace controller knows
// already: that the group is gone from discovery, or only that the server does not answer.
var undeletable = []corev1.NamespaceConditionType{corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceDeletionContentFailure}

// namespaceDelay is how long after a deletion the namespace controller begins.
const namespaceDelay = 5 * time.Second

// leaving is a namespace that is being deleted, and since when.
type leaving struct {
	name string
	at   time.Time
}

// pastureOf makes a namespace with a llama.
func (v visit) pastureOf(name string) {
	v.t.Helper()
	_, err := v.typed.CoreV1().Namespaces().Create(v.ctx, &corev1.Namespace{ObjectMeta: ours(name)}, metav1.CreateOptions{})
	v.OK(v.t, "creating a namespace", err)
	v.make(name, newLlama("last-one", 100, 1.5))
}

// leave deletes a namespace with a llama: while the namespace controller waits, other checks go on.
func (v visit) leave() {
	v.t.Helper()
	const early = "llama-checks-pasture-early"
	v.pastureOf(early)
	v.kept.leaving = leaving{early, time.Now()}
	v.OK(v.t, "deleting a namespace", v.typed.CoreV1().Namespaces().Delete(v.ctx, early, metav1.DeleteOptions{}))
}

// startByVariable starts the server without the flag --kubeconfig, if it has one: so it finds the cluster by the variable KUBECONFIG, or, as a
// Pod, by its account.
func (v visit) startByVariable() {
	v.t.Helper()
	err := v.Operator.StartAs(v.ctx, protocol.Start{Flags: []string{"--kubeconfig="}})
	if err != nil && !errors.Is(err, check.ErrNoSuchFlag) && !errors.Is(err, check.ErrNotAdjustable) {
		v.OK(v.t, "starting the server without --kubeconfig", err)
	}
	if err != nil {
		v.start()
		return
	}
	v.answers()
}

func available() types.Feature {
	return features.New("availability").
		Assess("goes and comes back", check.Assess(step(func(v visit) {
			pasture := "llama-checks-pasture"
			v.pastureOf(pasture)
			namespaces := v.typed.CoreV1().Namespaces()
			v.OK(v.t, "stopping the server", v.Operator.Stop(v.ctx))
			if early := v.kept.leaving; early.name != "" && time.Since(early.at) < namespaceDelay {
				pasture = early.name // its llama is to be deleted when the server is away
			} else {
				v.OK(v.t, "deleting a namespace", namespaces.Delete(v.ctx, pasture, metav1.DeleteOptions{}))
			}
			v.eventually("while the server is away the APIService's condition Available is False", startPatience, v.touching(func() (string, bool) {
				told, available := v.condition()
				return told, !available
			}))
			if a := v.send(v.ctx, http.MethodGet, llamas(here), nil); a.code != http.StatusServiceUnavailable {
				v.fail(a, "while the server is away the API server answers 503 for llamas", "the answer is "+a.told())
			}
			v.eventually("while the server is away no namespace can be deleted: its condition NamespaceDeletionDiscoveryFailure or NamespaceDeletionContentFailure is True", namespacePatience, func() (string, bool) {
				namespace, err := namespaces.Get(v.ctx, pasture, metav1.GetOptions{})
				if err != nil {
					return "the namespace can't be read: " + err.Error(), false
				}
				for _, condition := range namespace.Status.Conditions {
					if slices.Contains(undeletable, condition.Type) && condition.Status == corev1.ConditionTrue {
						return "", true
					}
				}
				return fmt.Sprintf("the namespace is %s, with the conditions %v", namespace.Status.Phase, namespace.Status.Conditions), false
			})
			v.startByVariable()
			v.eventually("when the server is back the APIService is Available again", startPatience, v.touching(v.condition))
			v.eventually("when the server is back the namespace goes, and its llamas with it", namespacePatience, func() (string, bool) {
				namespace, err := namespaces.Get(v.ctx, pasture, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return "", true
				}
				if err != nil {
					return err.Error(), false
				}
				return fmt.Sprintf("it is %s, with the conditions %v", namespace.Status.Phase, namespace.Status.Conditions), false
			})
			if a := v.send(v.ctx, http.MethodGet, llama(pasture, "last-one"), nil); a.code != http.StatusNotFound {
				v.fail(a, "the llamas of a namespace are deleted with it", "the answer is "+a.told())
			}
		}))).
		Teardown(check.Teardown(ensureStarted)).Feature()
}
