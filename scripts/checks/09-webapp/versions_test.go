// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webapp_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/e2e-framework/pkg/features"
	frameworktypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
)

// newer is the version that the extension adds, and definitions is the resource that declares it.
var (
	newer       = webapps.GroupResource().WithVersion("v1beta1")
	definitions = schema.GroupVersionResource{
		Group:    "apiextensions.k8s.io",
		Version:  "v1",
		Resource: "customresourcedefinitions",
	}
)

const definitionName = "webapps.apps.lva.io"

// These constants are how many WebApps exist before the upgrade, and how many are drawn for the round trip.
const (
	storedAppCount = 4
	draws          = 10
)

// migrationBegins is how long the check waits for the first write of a migration.
const migrationBegins = 2 * time.Second

// storedApp is a WebApp that was stored before the upgrade, with its resource version at that time.
type storedApp struct {
	*app
	resourceVersion string
}

// get reads a WebApp in a version. It always sends a request, because a watch's objects have already been converted.
func (v visit) get(version schema.GroupVersionResource, name types.NamespacedName) (*unstructured.Unstructured, error) {
	return v.town.Dynamic.Resource(version).Namespace(name.Namespace).Get(v.ctx, name.Name, metav1.GetOptions{})
}

// read is get, and fails the check on an error.
func (v visit) read(version schema.GroupVersionResource, name types.NamespacedName) *unstructured.Unstructured {
	v.t.Helper()
	object, err := v.get(version, name)
	v.OK(v.t, fmt.Sprintf("reading %s in %s", name.Name, version.Version), err)
	return object
}

// edit reads a WebApp in a version, changes it, and writes it in that version. It retries if another client was faster.
// change gets the object as it was read.
func (v visit) edit(version schema.GroupVersionResource, name types.NamespacedName,
	change func(*unstructured.Unstructured),
) *unstructured.Unstructured {
	v.t.Helper()
	written, err := v.tryEdit(version, name, change)
	v.OK(v.t, fmt.Sprintf("reading %s in %s, changing it and writing it", name.Name, version.Version), err)
	return written
}

// tryEdit is edit, and returns an error.
func (v visit) tryEdit(
	version schema.GroupVersionResource, name types.NamespacedName, change func(*unstructured.Unstructured),
) (written *unstructured.Unstructured, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		object, err := v.get(version, name)
		if err != nil {
			return err
		}
		change(object)
		written, err = v.town.Dynamic.Resource(version).Namespace(name.Namespace).Update(v.ctx, object,
			metav1.UpdateOptions{})
		return err
	})
	return written, err
}

// spec returns the spec of a WebApp in a version.
func spec(version schema.GroupVersionResource, image string, port, replicas int32) map[string]any {
	return map[string]any{"image": image, portField(version): int64(port), "replicas": int64(replicas)}
}

// differs returns how the spec of an object differs from the wanted one. Empty: it does not. An empty description
// counts as none.
func differs(object *unstructured.Unstructured, want map[string]any) string {
	got, _, _ := unstructured.NestedMap(object.Object, "spec")
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] != want[key] && (want[key] != "" || got[key] != nil) {
			return fmt.Sprintf("in %s, %s of %s is %s, and %s was written",
				version(object), key, object.GetName(), text(got[key]), text(want[key]))
		}
	}
	return ""
}

func version(object *unstructured.Unstructured) string {
	return object.GroupVersionKind().Version
}

func text(value any) string {
	switch value := value.(type) {
	case nil:
		return "not there"
	case string:
		return fmt.Sprintf("%q", value)
	}
	return fmt.Sprint(value)
}

// stored returns the version in which the definition stores, those that it serves, and those in which objects may be
// stored.
func (v visit) stored() (storage string, served, storedVersions []string) {
	v.t.Helper()
	definition, err := v.town.Dynamic.Resource(definitions).Get(v.ctx, definitionName, metav1.GetOptions{})
	v.OK(v.t, "reading the CRD", err)
	all, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, one := range all {
		one, _ := one.(map[string]any)
		name, _ := one["name"].(string)
		if one["storage"] == true {
			storage = name
		}
		if one["served"] == true {
			served = append(served, name)
		}
	}
	storedVersions, _, _ = unstructured.NestedStringSlice(definition.Object, "status", "storedVersions")
	slices.Sort(served)
	return storage, served, storedVersions
}

// twoVersions upgrades the cluster. From here on there are two versions, and no check of the lab itself follows.
func twoVersions() frameworktypes.Feature {
	return features.New("two versions").
		Assess("of objects that were there before", check.Assess(assess(func(v visit) {
			for range storedAppCount {
				v.town.storedApps = append(v.town.storedApps, storedApp{app: v.planned()})
			}
			v.Settle(v.ctx, v.t)
			for i, old := range v.town.storedApps {
				v.town.storedApps[i].resourceVersion = v.read(webapps, old.NamespacedName).GetResourceVersion()
			}
			v.town.upgraded = true
			end, refused := v.refusedMigration()
			defer end()
			v.OK(v.t, "upgrading the CRD and the operator", v.Operator.Upgrade(v.ctx))
			storage, served, _ := v.stored()
			if want := []string{webapps.Version, newer.Version}; !slices.Equal(served, want) || storage != newer.Version {
				v.Fail(v.t, "the CRD serves v1alpha1 and v1beta1, and stores v1beta1",
					fmt.Sprintf("it serves %s, and stores %s", strings.Join(served, " and "), storage))
			}
			v.validates(newer)
			for _, old := range v.town.storedApps {
				v.sameScale(old.app)
				for _, in := range []schema.GroupVersionResource{newer, webapps} {
					object := v.read(in, old.NamespacedName)
					if wrong := differs(object, spec(in, old.image, old.port, old.replicas)); wrong != "" {
						v.Fail(v.t, "a WebApp that was written in v1alpha1 says the same in v1beta1", wrong)
					}
					if object.GetUID() != old.object.GetUID() {
						v.Fail(v.t, old.Name+" is the same object in both versions", "its UID is "+string(object.GetUID()))
					}
				}
			}
			// An operator that migrates begins at its start. Another check reports one that does not.
			for wait := time.Now().Add(migrationBegins); !refused.Load() && time.Now().Before(wait); {
				v.Pause(v.ctx, v.t, waitFor)
			}
		}))).
		Assess("and of new ones", check.Assess(assess(func(v visit) {
			a := v.createNewer("")
			if wrong := differs(v.read(webapps, a.NamespacedName), spec(webapps, a.image, a.port, a.replicas)); wrong != "" {
				v.Fail(v.t, "a WebApp that was written in v1beta1 says the same in v1alpha1", wrong)
			}
			v.works(a)
		}))).Feature()
}

// refusedMigration makes the API server answer the operator's first write of a WebApp, which is its migration, with an
// error, until end is called. refused reports whether there was such a write.
func (v visit) refusedMigration() (end func(), refused *atomic.Bool) {
	v.t.Helper()
	refused = &atomic.Bool{}
	end, err := v.town.Answering(v.ctx, v.OperatorUser(), plans, []string{webapps.Resource},
		func(string, string) (none workload.Answer) {
			if refused.CompareAndSwap(false, true) {
				return workload.Unavailable
			}
			return none
		})
	v.OK(v.t, "registering a webhook", err)
	return end, refused
}

// sameScale fails unless a WebApp has the same scale in both versions, because an autoscaler may use either.
func (v visit) sameScale(a *app) {
	v.t.Helper()
	v.eventually(statusPatience, fmt.Sprintf("%s has the same scale in v1alpha1 and in v1beta1", a.Name), func() string {
		older, err := v.town.Dynamic.Resource(webapps).Namespace(a.Namespace).Get(v.ctx, a.Name, metav1.GetOptions{}, "scale")
		v.OK(v.t, "asking for the scale in v1alpha1", err)
		newers, err := v.town.Dynamic.Resource(newer).Namespace(a.Namespace).Get(v.ctx, a.Name, metav1.GetOptions{}, "scale")
		if apierrors.IsNotFound(err) {
			return "in v1beta1 it has no scale: " + err.Error()
		}
		v.OK(v.t, "asking for the scale in v1beta1", err)
		if !reflect.DeepEqual(older.Object["spec"], newers.Object["spec"]) ||
			!reflect.DeepEqual(older.Object["status"], newers.Object["status"]) {
			return fmt.Sprintf("in v1alpha1 it has spec %v and status %v, and in v1beta1 spec %v and status %v",
				older.Object["spec"], older.Object["status"], newers.Object["spec"], newers.Object["status"])
		}
		return ""
	})
}

// createNewer creates a WebApp in the newer version.
func (v visit) createNewer(description string) *app {
	v.t.Helper()
	a := v.town.draw(plans)
	object := a.in(newer)
	if description != "" {
		object.Object["spec"].(map[string]any)["description"] = description
	}
	created, err := v.town.Dynamic.Resource(newer).Namespace(a.Namespace).Create(v.ctx, object, metav1.CreateOptions{})
	v.OK(v.t, "creating a WebApp in v1beta1", err)
	a.object = created
	return a
}

// works waits until the operator has created the children of a WebApp, whatever version it was written in.
func (v visit) works(a *app) {
	v.t.Helper()
	v.eventually(statusPatience, fmt.Sprintf("%s has a Deployment with the image %s, and a Service with the node port %d",
		a.Name, a.image, a.port), func() string {
		deployment, exists := workload.Named[appsv1.Deployment](v.town.Owners, workload.Deployments, a.NamespacedName)
		if !exists || len(deployment.Spec.Template.Spec.Containers) == 0 ||
			deployment.Spec.Template.Spec.Containers[0].Image != a.image {
			return "it has no such Deployment"
		}
		service, exists := workload.Named[corev1.Service](v.town.Owners, workload.Services, a.NamespacedName)
		if !exists || len(service.Spec.Ports) == 0 || service.Spec.Ports[0].NodePort != a.port {
			return "it has no such Service"
		}
		return ""
	})
}

// migrationPatience is how long an operator may be silent until it has migrated the stored objects: its first write has
// failed, and it may wait before it retries.
const migrationPatience = 20 * time.Second

// migrated checks the objects that were stored before the upgrade. Everything that is written since then is stored in
// the new version.
func migrated() frameworktypes.Feature {
	return features.New("what is stored").
		Assess("is stored in the new version, all of it", check.Assess(assess(func(v visit) {
			const expected = "every WebApp is stored in v1beta1, and status.storedVersions of the CRD is [v1beta1]"
			v.eventually(migrationPatience, expected, func() string {
				if _, _, stored := v.stored(); !slices.Equal(stored, []string{newer.Version}) {
					return fmt.Sprintf("status.storedVersions is %v", stored)
				}
				return ""
			})
			for _, old := range v.town.storedApps {
				object, err := v.get(newer, old.NamespacedName)
				if apierrors.IsNotFound(err) {
					v.Fail(v.t, old.Name+", which was stored before the upgrade, is still there", "it is gone")
				}
				v.OK(v.t, "reading a WebApp in v1beta1", err)
				if object.GetResourceVersion() == old.resourceVersion {
					v.Fail(v.t, expected,
						fmt.Sprintf("%s is stored in v1alpha1: the operator has not written it since the upgrade", old.Name))
				}
				if wrong := differs(object, spec(newer, old.image, old.port, old.replicas)); wrong != "" {
					v.Fail(v.t, "a migration changes nothing but the version", wrong)
				}
				if object.GetUID() != old.object.GetUID() {
					v.Fail(v.t, "a migration keeps the objects", old.Name+" is another object with that name")
				}
			}
		}))).Feature()
}
