// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package zombie

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/checkout"
)

func TestMistakes(t *testing.T) {
	t.Parallel()
	right := Answers{
		Icecream: Playground.Zombie, Field: "metadata.deletionTimestamp", Finalizer: Playground.Gone.Finalizer,
		Lease: Playground.Gone.Namespace + "/" + Playground.Gone.Lease, Lost: Playground.ZombieBox,
	}
	tests := []struct {
		name   string
		change func(*Answers)
		want   []string
	}{
		{name: "all right", change: func(*Answers) {}},
		{name: "as kubectl explain has it", change: func(a *Answers) { a.Field = "icecream.metadata.deletionTimestamp" }},
		{name: "as jsonpath has it", change: func(a *Answers) { a.Field = ".metadata.deletionTimestamp" }},
		{name: "nothing", change: func(a *Answers) { *a = Answers{} }, want: []string{
			"icecream has no answer", "field has no answer",
			"finalizer has no answer", "lease has no answer", "lost has no answer",
		}},
		{name: "the slow one", change: func(a *Answers) { a.Icecream = Playground.Slow }, want: []string{
			"icecream is not birthday-bowl: it is being deleted, but the controller of its finalizer is alive",
		}},
		{name: "the living one, and its box", change: func(a *Answers) {
			a.Icecream, a.Lost = Playground.Living, Playground.LivingBox
		}, want: []string{
			"icecream is not beach-cone: it is not being deleted",
			"lost is not box-0715: that is the box of an icecream which is not being deleted",
		}},
		{name: "a lease without a namespace", change: func(a *Answers) { a.Lease = Playground.Gone.Lease }, want: []string{
			"lease is not coldchain: a Lease has a namespace, too: NAMESPACE/NAME",
		}},
		{
			name:   "something else",
			change: func(a *Answers) { a.Finalizer = "kubernetes" },
			want:   []string{"finalizer is not kubernetes"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			answers := right
			test.change(&answers)
			if got := Playground.Mistakes(answers); !slices.Equal(got, test.want) {
				t.Errorf("Mistakes() = %q, want %q", got, test.want)
			}
		})
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	answers, err := Read([]byte("icecream: sundae # or so\nlease: a/b\n"))
	if want := (Answers{Icecream: "sundae", Lease: "a/b"}); err != nil || answers != want {
		t.Errorf("Read() = %+v, %v, want %+v", answers, err, want)
	}
	for _, content := range []string{"icecream: [", "icecreams: sundae", "lost: {box: 1}", "- sundae"} {
		if _, err := Read([]byte(content)); err == nil ||
			!strings.Contains(err.Error(), "the fields icecream, field, finalizer, lease and lost") {
			t.Errorf("Read(%q) error = %v", content, err)
		}
	}
}

// TestPlant creates the scene on a real API server, changes it in each way that a student may, and creates it again.
func TestPlant(t *testing.T) {
	t.Parallel()
	config, install := connect(t)
	plant := func() {
		t.Helper()
		if err := Playground.Plant(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	if err := Playground.Plant(t.Context(), config); !errors.Is(err, ErrNoIcecreams) {
		t.Fatalf("Plant() without the kind: error = %v", err)
	}
	install()
	plant()
	p, err := Playground.planter(config)
	if err != nil {
		t.Fatal(err)
	}
	get := func(name string) *unstructured.Unstructured {
		t.Helper()
		object, err := p.icecreams.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return object
	}
	look := func(when string) {
		t.Helper()
		for _, r := range Playground.roles() {
			object := get(r.name)
			if !r.played(object) || !slices.Equal(object.GetFinalizers(), r.finalizers) {
				t.Errorf("%s: %s = %v", when, r.name, object)
			}
		}
	}
	look("planted once")
	if manager := managerOf(get(Playground.Zombie), Playground.Gone.Finalizer); manager != Playground.Gone.Name {
		t.Errorf("the finalizer was put there by %q", manager)
	}
	for c, alive := range map[Controller]bool{Playground.Gone: false, Playground.Busy: true} {
		lease, err := p.client.CoordinationV1().Leases(c.Namespace).Get(t.Context(), c.Lease, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ends := lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
		if ends.After(time.Now()) != alive || !strings.HasPrefix(*lease.Spec.HolderIdentity, c.Name) {
			t.Errorf("the lease of %s ends at %s, and its holder is %s", c.Name, ends, *lease.Spec.HolderIdentity)
		}
	}

	before := get(Playground.Zombie).GetResourceVersion()
	plant()
	if after := get(Playground.Zombie).GetResourceVersion(); after != before {
		t.Error("correct objects were changed")
	}

	change := func(name, patch string) {
		t.Helper()
		if _, err := p.icecreams.Patch(
			t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{},
		); err != nil {
			t.Fatal(err)
		}
	}
	change(Playground.Zombie, `{"metadata":{"finalizers":null}}`)
	change(Playground.Living, `{"metadata":{"finalizers":null,"annotations":null}}`)
	plant()
	look("after the zombie and the living one were freed")

	if err := p.icecreams.Delete(t.Context(), Playground.Living, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	plant()
	look("after the living one was deleted")

	change(Playground.Living, `{"metadata":{"finalizers":["`+Playground.Gone.Finalizer+`","demo.lva.io/finalizer"]}}`)
	if err := p.icecreams.Delete(t.Context(), Playground.Living, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := Playground.Plant(t.Context(), config); err == nil ||
		!strings.Contains(err.Error(), "beach-cone is still there, held by demo.lva.io/finalizer") {
		t.Errorf("Remove() with another finalizer: error = %v", err)
	}
	change(Playground.Living, `{"metadata":{"finalizers":null}}`)
	if err := Playground.Remove(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for _, r := range Playground.roles() {
		if _, err := p.icecreams.Get(t.Context(), r.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s was not removed: %v", r.name, err)
		}
	}
}

// managerOf returns the field manager that has put a finalizer on an icecream.
func managerOf(object *unstructured.Unstructured, finalizer string) string {
	for _, entry := range object.GetManagedFields() {
		if strings.Contains(entry.FieldsV1.GetRawString(), finalizer) {
			return entry.Manager
		}
	}
	return ""
}

// connect starts a cluster. It also returns a function that installs the icecream's definition.
func connect(t *testing.T) (config *rest.Config, install func()) {
	t.Helper()
	root, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := root.EnsureControlPlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	cluster, err := embedded.Start(t.Context(), root.ControlPlane)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	return cluster.Config(), func() {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(root.Root,
			"solutions/01-icecream/config/crd/bases/demo.lva.io_icecreams.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &definition.Object); err != nil {
			t.Fatal(err)
		}
		client, err := dynamic.NewForConfig(cluster.Config())
		if err != nil {
			t.Fatal(err)
		}
		definitions := client.Resource(schema.GroupVersionResource{
			Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
		})
		if _, err := definitions.Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		changes, err := definitions.Watch(t.Context(),
			metav1.ListOptions{FieldSelector: "metadata.name=" + definition.GetName()})
		if err != nil {
			t.Fatal(err)
		}
		defer changes.Stop()
		for change := range changes.ResultChan() {
			conditions, _, _ := unstructured.NestedSlice(change.Object.(*unstructured.Unstructured).Object,
				"status", "conditions")
			if slices.ContainsFunc(conditions, func(c any) bool {
				return c.(map[string]any)["type"] == "Established" && c.(map[string]any)["status"] == "True"
			}) {
				return
			}
		}
		t.Fatal("the kind is not served")
	}
}
