// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package icecream

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

// Definitions is the resource of CustomResourceDefinitions.
var Definitions = schema.GroupVersionResource{
	Group:    "apiextensions.k8s.io",
	Version:  "v1",
	Resource: "customresourcedefinitions",
}

// LeastPrivilege is the check that the operator's role allows only what is needed. Any operator of a shop may need to
// read and delete icecreams and to write their status, by any verb. also lists what else an operator of this lab may do
// with icecreams. icecreams/finalizers is for operators that set owner references. Scaffolds grant it, and it allows
// nothing by itself.
func LeastPrivilege(also ...string) types.Feature {
	return check.LeastPrivilege(Resource.Group, needs(also))
}

// RoleFits is check.RoleFits with the same needs.
func RoleFits(also ...string) types.Feature { return check.RoleFits(Resource.Group, needs(also)) }

func needs(also []string) check.Needs {
	return check.Needs{
		Resource.Resource:                 append([]string{"get", "list", "watch", "delete"}, also...),
		Resource.Resource + "/status":     {"get", "update", "patch"},
		Resource.Resource + "/finalizers": {"update"},
	}
}

// Served is the check that the API server serves icecreams as the lectures define them. All labs depend on it.
func Served() types.Feature {
	return features.New("icecreams are served").
		Assess("with the right names and scope", check.Assess(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			const expected = "the API server serves the kind Icecream of demo.lva.io/v1 as icecreams, cluster-scoped"
			client, err := dynamic.NewForConfig(c.Config)
			c.OK(t, "creating a client", err)
			definitions := client.Resource(Definitions)
			name := Resource.Resource + "." + Resource.Group
			definition, err := definitions.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				c.Fail(t, expected, "there is no CustomResourceDefinition "+name, defined(ctx, definitions)...)
			}
			c.OK(t, "reading the CustomResourceDefinition", err)
			if conditions := conditionsOf(definition); conditions["Established"] == nil ||
				conditions["Established"]["status"] != "True" {
				c.Fail(t, expected, "the CustomResourceDefinition is not established", lines(conditions)...)
			}
			discoverer, err := discovery.NewDiscoveryClientForConfig(c.Config)
			c.OK(t, "creating a client", err)
			wrong, evidence := misnamed(discoverer)
			if wrong != "" {
				c.Fail(t, expected, wrong, append(defined(ctx, definitions), evidence...)...)
			}
		})).Feature()
}

// misnamed describes in one sentence everything that is wrong with how the kind is served. Empty: nothing is.
func misnamed(discoverer discovery.DiscoveryInterface) (wrong string, evidence []string) {
	list, err := discoverer.ServerResourcesForGroupVersion(Resource.GroupVersion().String())
	if err != nil {
		return "it does not serve the version " + Resource.GroupVersion().String() + ": " + err.Error(), nil
	}
	i := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == Resource.Resource })
	if i < 0 {
		return "the version does not have the resource icecreams", nil
	}
	var all []string
	if kind := list.APIResources[i].Kind; kind != Kind.Kind {
		all = append(all, "the kind is "+kind)
	}
	if list.APIResources[i].Namespaced {
		all = append(all, "icecreams are namespaced")
		evidence = append(evidence, "a kind is namespaced unless a marker above its type says otherwise: "+
			"// +kubebuilder:resource:scope=Cluster")
	}
	return strings.Join(all, "; "), evidence
}

// defined lists the kinds that the submission's definitions define.
func defined(ctx context.Context, definitions dynamic.ResourceInterface) []string {
	list, err := definitions.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return []string{"the submission brings no CustomResourceDefinition"}
	}
	var lines []string
	for _, definition := range list.Items {
		kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
		scope, _, _ := unstructured.NestedString(definition.Object, "spec", "scope")
		versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
		var names []string
		for _, version := range versions {
			if version, ok := version.(map[string]any); ok {
				names = append(names, fmt.Sprint(version["name"]))
			}
		}
		lines = append(lines, fmt.Sprintf("the submission defines %s: kind %s, versions %s, scope %s",
			definition.GetName(), kind, strings.Join(names, ", "), scope))
	}
	return lines
}

// conditionsOf returns the conditions of an object by their types.
func conditionsOf(object *unstructured.Unstructured) map[string]map[string]any {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	conditions := map[string]map[string]any{}
	for _, one := range all {
		if one, ok := one.(map[string]any); ok {
			conditions[fmt.Sprint(one["type"])] = one
		}
	}
	return conditions
}

func lines(conditions map[string]map[string]any) []string {
	var lines []string
	for kind, condition := range conditions {
		lines = append(lines, fmt.Sprintf("%s=%v: %v", kind, condition["status"], condition["message"]))
	}
	slices.Sort(lines)
	return lines
}

// Sample is the check that the lecture's sample is accepted and stored. It leaves no icecream behind.
func Sample() types.Feature {
	written := New("icecream-sample", []string{"matcha", "vanilla"}, []string{"cream", "coconutflakes", "watermelon"})
	return features.New("the sample of the lecture").
		Assess("is accepted and reads back as it was written",
			check.Assess(func(ctx context.Context, t *testing.T, c *check.Check) {
				t.Helper()
				const expected = "the lecture's sample (flavour matcha, vanilla; topping cream, " +
					"coconutflakes, watermelon) reads back as written"
				client, err := dynamic.NewForConfig(c.Config)
				c.OK(t, "creating a client", err)
				icecreams := client.Resource(Resource)
				if _, err := icecreams.Create(ctx, written, metav1.CreateOptions{FieldValidation: "Ignore"}); err != nil {
					c.Fail(t, expected, "it is rejected", err.Error())
				}
				read, err := icecreams.Get(ctx, written.GetName(), metav1.GetOptions{})
				c.OK(t, "reading the icecream back", err)
				if !reflect.DeepEqual(read.Object["spec"], written.Object["spec"]) {
					c.Fail(t, expected, fmt.Sprintf("spec is %v", read.Object["spec"]),
						"fields that the schema does not know are pruned when an object is stored")
				}
			})).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			client, err := dynamic.NewForConfig(c.Config)
			if err != nil {
				return err
			}
			icecreams := client.Resource(Resource)
			err = icecreams.Delete(ctx, written.GetName(), metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
			return forgotten(ctx, icecreams)
		})).Feature()
}

// forgotten waits until the API server's cache has seen every deletion. An operator that is started next begins with a
// list from this cache. On a busy machine the cache may not even have seen the creation of an object that is already
// deleted, so an empty list from it is not enough.
func forgotten(ctx context.Context, icecreams dynamic.ResourceInterface) error {
	now, err := icecreams.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("asking for the icecreams that there are: %w", err)
	}
	caughtUp := metav1.ListOptions{
		ResourceVersion:      now.GetResourceVersion(),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 30*time.Second, true,
		func(ctx context.Context) (bool, error) {
			_, err := icecreams.List(ctx, caughtUp)
			if apierrors.IsTimeout(err) { // the cache did not catch up within the API server's time limit
				return false, nil
			}
			if err != nil {
				return false, fmt.Errorf("waiting until the API server's cache knows that the sample was deleted: %w", err)
			}
			return true, nil
		})
}
