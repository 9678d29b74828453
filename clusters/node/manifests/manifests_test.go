// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package manifests

import (
	"regexp"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/images"
)

// strict returns errors for fields with unknown names, which the API server would drop.
var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

func TestObjectsMatchAPITypes(t *testing.T) {
	t.Parallel()
	objects, err := Objects()
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) < 10 {
		t.Fatalf("got %d objects, want at least 10", len(objects))
	}
	for _, object := range objects {
		content, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := strict.Decode(content, nil, nil); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	for kind, want := range map[string]string{
		"StorageClass":                     "storageclasses",
		"ConfigMap":                        "configmaps",
		"ClusterRoleBinding":               "clusterrolebindings",
		"ValidatingAdmissionPolicy":        "validatingadmissionpolicies",
		"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	} {
		for _, object := range objects {
			if object.GetKind() != kind {
				continue
			}
			if got, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind()); got.Resource != want {
				t.Errorf("resource of kind %s = %s", kind, got.Resource)
			}
		}
	}
}

// There is no registry, so every image must be in the catalogue. That includes the helper image of storage, which only
// its configuration names.
func TestEveryImageIsInTheCatalogue(t *testing.T) {
	t.Parallel()
	catalogue, err := images.Load()
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, image := range catalogue.Images {
		known = append(known, image.Reference)
	}
	running, err := Images()
	if err != nil {
		t.Fatal(err)
	}
	if len(running) != 3 {
		t.Errorf("images of Pods = %v, want 3", running)
	}
	for _, name := range []string{"dns.yaml", "storage.yaml"} {
		content, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		running = append(running,
			regexp.MustCompile(`[a-z0-9.]+\.io/[a-z0-9/-]+:v[a-z0-9.-]+`).FindAllString(string(content), -1)...)
	}
	if len(running) != 7 {
		t.Errorf("images = %v, want 7", running)
	}
	for _, image := range running {
		if !slices.Contains(known, image) {
			t.Errorf("clusters/images/catalogue.yaml lacks the image %s", image)
		}
	}
}

func TestHelperPodMatchesAPITypes(t *testing.T) {
	t.Parallel()
	objects, err := Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetName() != "local-path-config" {
			continue
		}
		config := &corev1.ConfigMap{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, config); err != nil {
			t.Fatal(err)
		}
		if decoded, _, err := strict.Decode([]byte(config.Data["helperPod.yaml"]), nil, nil); err != nil {
			t.Error(err)
		} else if _, ok := decoded.(*corev1.Pod); !ok {
			t.Errorf("helperPod.yaml decodes to a %T, want a Pod", decoded)
		}
		return
	}
	t.Error("the ConfigMap local-path-config is missing")
}
