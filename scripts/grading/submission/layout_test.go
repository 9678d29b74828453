// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/grading/limited"
	"lva.io/operators/scripts/grading/submission/samples"
)

const (
	base       = "-- deploy/base/kustomization.yaml --\nresources: [map.yaml]\n-- deploy/base/map.yaml --\n" + configMap
	configMap  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: flavours}\n"
	defaults   = "-- config/default/kustomization.yaml --\n"
	program    = samples.Module + "-- cmd/main.go --\n" + samples.Program
	outsideDir = "../../../outside"
)

// Everything that a kustomization names must be in the submission. A run uses no network, and reads none of this
// machine's folders.
func TestKustomizeReadsOnlyTheSubmission(t *testing.T) {
	t.Parallel()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.EnsureControlPlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(configMap))
	}))
	t.Cleanup(server.Close)
	const (
		downloads = ", which kustomize would download: a run uses no network, so copy it into the submission"
		outside   = "config/default/kustomization.yaml names " + outsideDir +
			", which is outside of the submission's folder: copy it into the submission"
	)
	for _, test := range []struct{ name, files, wrong string }{
		{
			"a folder below config", defaults + "resources: [../base]\n" +
				"-- config/base/kustomization.yaml --\nresources: [map.yaml]\n-- config/base/map.yaml --\n" + configMap,
			"",
		},
		{"a folder beside config", defaults + "resources: [../../deploy/base]\n" + base, ""},
		{
			"a folder that is named twice", defaults + "resources: [../a, ../b]\n" +
				"-- config/a/kustomization.yaml --\nresources: [../../deploy/base]\n" +
				"-- config/b/kustomization.yaml --\nnamePrefix: b-\nresources: [../../deploy/base]\n" + base,
			"",
		},
		{
			"a file that kustomize does not read",
			defaults + "resources: [map.yaml]\n-- config/default/map.yaml --\n" + configMap +
				"-- config/e2e/kustomization.yaml --\nresources: [https://example.com/x.yaml]\n",
			"",
		},
		{
			"annotations with URLs", defaults + "resources: [map.yaml]\ncommonAnnotations: {page: \"https://example.com\"}\n" +
				"-- config/default/map.yaml --\n" + configMap,
			"",
		},
		{"a file that is missing", defaults + "resources: [map.yaml]\n", "kustomize can't build config/default"},
		{
			"a URL", defaults + "resources: [" + server.URL + "/map.yaml]\n",
			"config/default/kustomization.yaml names " + server.URL + "/map.yaml" + downloads,
		},
		{
			"in a field in capitals", defaults + "Resources: [" + server.URL + "/map.yaml]\n",
			"config/default/kustomization.yaml names " + server.URL + "/map.yaml" + downloads,
		},
		{
			"a URL in a folder that is read",
			defaults + "resources: [../base]\n-- config/base/kustomization.yml --\nresources: [" + server.URL + "]\n",
			"config/base/kustomization.yml names " + server.URL + downloads,
		},
		{
			"a patch", defaults + "patches:\n- path: " + server.URL + "\n",
			"config/default/kustomization.yaml names " + server.URL + downloads,
		},
		{
			"a file of a ConfigMap", defaults + "configMapGenerator:\n- name: x\n  files: [\"key=" + server.URL + "\"]\n",
			"config/default/kustomization.yaml names " + server.URL + downloads,
		},
		{
			"a plugin's file", defaults + "generators: [generator.yaml]\n-- config/default/generator.yaml --\n" +
				"apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\nfiles: [\"key=" + server.URL + "\"]\n",
			"config/default/kustomization.yaml names " + server.URL + downloads,
		},
		{
			"a plugin in place", defaults + "generators:\n- |-\n" +
				"  apiVersion: builtin\n  kind: ConfigMapGenerator\n  metadata: {name: x}\n  files: [\"key=" + server.URL + "\"]\n",
			"config/default/kustomization.yaml names " + server.URL + downloads,
		},
		{
			"a repository", defaults + "resources: [github.com/kubernetes-sigs/kustomize//examples/helloWorld]\n",
			"config/default/kustomization.yaml names github.com/kubernetes-sigs/kustomize//examples/helloWorld" + downloads,
		},
		{
			"a repository by ssh", defaults + "components: [\"git@github.com:kubernetes-sigs/kustomize\"]\n",
			"config/default/kustomization.yaml names git@github.com:kubernetes-sigs/kustomize" + downloads,
		},
		{"a folder outside", defaults + "resources: [" + outsideDir + "]\n", outside},
		{
			"a folder of this machine", defaults + "bases: [/etc]\n",
			"config/default/kustomization.yaml names /etc, which is outside of the submission's folder",
		},
		{"none", "", "there is no config/default"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(samples.Lay(t, "-- outside/kustomization.yaml --\nresources: [map.yaml]\n"+
				"-- outside/map.yaml --\n"+configMap), "submission")
			if err := os.CopyFS(dir, os.DirFS(samples.Lay(t, program+test.files))); err != nil {
				t.Fatal(err)
			}
			objects, err := builder(t, dir).Kustomize(t.Context(), repo.ControlPlane.Path)
			if test.wrong == "" {
				if err != nil || len(objects) == 0 || objects[0].GetKind() != "ConfigMap" {
					t.Errorf("Kustomize() = %v, error = %v", objects, err)
				}
			} else if p := problemOf(t, err); !strings.HasPrefix(p.Reason, test.wrong) {
				t.Errorf("want reason %q, got %q", test.wrong, p.Reason)
			}
			if n := asked.Load(); n > 0 {
				t.Errorf("the server got %d requests", n)
			}
		})
	}
}

// A small kustomization can render gigabytes.
func TestKustomizeOutputIsLimited(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.EnsureControlPlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The same file of one MB, in many ConfigMaps.
	files := program + "-- config/default/big.txt --\n" + strings.Repeat("vanilla\n", fileLimit/8-1) + defaults +
		"generatorOptions: {disableNameSuffixHash: true}\nconfigMapGenerator:\n"
	for i := range deployedLimit>>20 + 1 {
		files += "- name: map" + strings.Repeat("x", i) + "\n  files: [big.txt]\n"
	}
	_, err = builder(t, samples.Lay(t, files)).Kustomize(t.Context(), repo.ControlPlane.Path)
	if p := problemOf(t, err); p.Reason != "config/default renders more than 32 MB of manifests, so it can't be deployed" {
		t.Errorf("got reason %q", p.Reason)
	}
}

// The error names files that can't be copied. They do not fill this machine's disk.
func TestLayOutLimits(t *testing.T) {
	t.Parallel()
	for kind, file := range special {
		if kind == "folder" {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := samples.Lay(t, program+defaults+"resources: [map.yaml]\n")
			replace(t, dir, "config/default/map.yaml", kind)
			p := problemOf(t, builder(t, dir).layOut(filepath.Join(t.TempDir(), "deploy")))
			if !strings.HasPrefix(p.Reason, "it can't be deployed: config/default/map.yaml must be a regular file") ||
				!strings.HasSuffix(p.Reason, file.what) {
				t.Errorf("got reason %q", p.Reason)
			}
		})
	}
	t.Run("many folders", func(t *testing.T) {
		t.Parallel()
		dir := samples.Lay(t, program+defaults+"resources: []\n")
		for i := range copyFiles {
			if err := os.Mkdir(filepath.Join(dir, "config", strconv.Itoa(i)), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		p := problemOf(t, builder(t, dir).layOut(filepath.Join(t.TempDir(), "deploy")))
		if want := "it can't be deployed: " +
			(&limited.TooMuchError{Files: copyFiles, Bytes: copyBytes}).Error(); p.Reason != want {
			t.Errorf("want reason %q, got %q", want, p.Reason)
		}
	})
	t.Run("many files", func(t *testing.T) {
		t.Parallel()
		dir := samples.Lay(t, program+defaults+"resources: []\n")
		for i := range copyBytes/fileLimit + 1 {
			file := filepath.Join(dir, "config", "default", strings.Repeat("x", i+1))
			if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, fileLimit)); err != nil {
				t.Fatal(err)
			}
		}
		p := problemOf(t, builder(t, dir).layOut(filepath.Join(t.TempDir(), "deploy")))
		if want := "it can't be deployed: " +
			(&limited.TooMuchError{Files: copyFiles, Bytes: copyBytes}).Error(); p.Reason != want {
			t.Errorf("want reason %q, got %q", want, p.Reason)
		}
	})
}
