// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
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
)

// namespacePatience is for the namespace controller, which begins five seconds after a namespace was deleted, and tries again later
// and later.
const namespacePatience = 30 * time.Second

// undeletable are the conditions of a namespace whose llamas can't be deleted. Which it is depends on what the namespace controller knows
// already: that the group is gone from discovery, or only that the server does not answer.
var undeletable = []corev1.NamespaceConditionType{corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceDeletionContentFailure}

func available() types.Feature {
	const pasture = "llama-checks-pasture"
	return features.New("availability").
		Assess("goes and comes back", check.Assess(step(func(v visit) {
			namespaces := v.typed.CoreV1().Namespaces()
			_, err := namespaces.Create(v.ctx, &corev1.Namespace{ObjectMeta: ours(pasture)}, metav1.CreateOptions{})
			v.OK(v.t, "creating a namespace", err)
			v.make(pasture, newLlama("last-one", 100, 1.5))
			v.OK(v.t, "stopping the server", v.Operator.Stop(v.ctx))
			v.eventually("while the server is away the APIService's condition Available is False", startPatience, v.touching(func() (string, bool) {
				told, available := v.condition()
				return told, !available
			}))
			if a := v.send(v.ctx, http.MethodGet, llamas(here), nil); a.code != http.StatusServiceUnavailable {
				v.fail(a, "while the server is away the API server answers 503 for llamas", "the answer is "+a.told())
			}
			v.OK(v.t, "deleting a namespace", namespaces.Delete(v.ctx, pasture, metav1.DeleteOptions{}))
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
			v.start()
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
