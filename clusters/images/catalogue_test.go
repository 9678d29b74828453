// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/clusters/addons/known"
	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/node/manifests"
	"lva.io/operators/clusters/node/targets"
)

func TestCatalogueIsValid(t *testing.T) {
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{"node", "kubernetes", "course"} {
		if len(c.Set(set)) == 0 {
			t.Errorf("the set %s is empty", set)
		}
	}
	if len(c.Set("nothing")) != 0 {
		t.Error("a set that does not exist has images")
	}
}

func TestEveryProgramHasAModule(t *testing.T) {
	c := load(t)
	s := checkout(t)
	for name, p := range c.Programs {
		if _, err := os.Stat(filepath.Join(s.path(p.Module), "go.mod")); err != nil {
			t.Errorf("program %s: %v", name, err)
		}
		if _, err := s.target(c, name); err != nil {
			t.Errorf("program %s: %v", name, err)
		}
	}
	for name, m := range c.Modules {
		if _, err := gobuild.Required(s.path(m.RequiredBy), m.Path); err != nil {
			t.Errorf("module %s: %v", name, err)
		}
	}
}

// kubeadm and kind pull images of fixed versions. Ours must have the same names, or a node would look for others. `make
// up` compiles the programs of the node's own Pods in the foreground: nothing is compiled without the user's knowledge.
func TestNodeProgramsMatchTheCatalogue(t *testing.T) {
	c, root := load(t), filepath.Join("..", "..")
	s := StoreOf(root)
	running, err := manifests.Images()
	if err != nil {
		t.Fatal(err)
	}
	// Only the configuration of the provisioner names this image.
	running = append(running, "docker.io/kindest/local-path-helper:v20260131-7181c60a")
	var images []Image
	for _, reference := range running {
		image, err := c.Image(reference)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	built, err := targets.Pods(root)
	if err != nil {
		t.Fatal(err)
	}
	wantBuiltAsCatalogued(t, c, s, built, images)
}

// wantBuiltAsCatalogued compares how programs are built with how the catalogue builds the programs of the images.
func wantBuiltAsCatalogued(t *testing.T, c *Catalogue, s *Store, built []targets.Program, images []Image) {
	t.Helper()
	got, want := map[string]gobuild.Target{}, map[string]gobuild.Target{}
	for _, program := range built {
		got[program.Output] = program.Target
	}
	for _, image := range images {
		for _, layer := range image.Layers {
			for _, name := range c.named(layer).Programs {
				target, err := s.target(c, name)
				if err != nil {
					t.Fatal(err)
				}
				want[target.Output] = target
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the programs are built as\n%+v\nwant as in the catalogue\n%+v", got, want)
	}
}

func TestAddonProgramsMatchTheCatalogue(t *testing.T) {
	c, root := load(t), filepath.Join("..", "..")
	for _, name := range known.Names() {
		built, err := targets.Addon(root, name)
		if err != nil {
			t.Fatal(err)
		}
		if len(built) == 0 {
			t.Errorf("no program of the add-on %s is known", name)
		}
		wantBuiltAsCatalogued(t, c, StoreOf(root), built, c.Set(name))
	}
}

func TestReferencesMatchKubeadmAndKind(t *testing.T) {
	c := load(t)
	s := checkout(t)
	kubernetes, version, err := s.moduleFolder(t.Context(),
		Module{Path: "k8s.io/kubernetes", RequiredBy: "../../controlplane"})
	if err != nil {
		t.Skip(err)
	}
	if own, err := gobuild.Required(s.path("node"), "k8s.io/kubernetes"); err != nil || own != version {
		t.Errorf("the node's programs have version %s (%v), want the control plane's, %s", own, err, version)
	}
	wanted := []string{"operator-labs/node:" + version}
	for _, program := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		wanted = append(wanted, "registry.k8s.io/"+program+":"+version)
	}
	constants := filepath.Join(kubernetes, "cmd/kubeadm/app/constants/constants.go")
	for prefix, name := range map[string]string{
		"registry.k8s.io/etcd:": "DefaultEtcdVersion", "registry.k8s.io/pause:": "PauseVersion",
		"registry.k8s.io/coredns/coredns:": "CoreDNSVersion",
	} {
		wanted = append(wanted, prefix+constantOf(t, constants, name))
	}
	kind, _, err := s.moduleFolder(t.Context(), c.Modules["kind"])
	if err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"storageProvisionerImage", "storageHelperImage"} {
		wanted = append(wanted, constantOf(t, filepath.Join(kind, "pkg/build/nodeimage/const_storage.go"), name))
	}
	for _, reference := range wanted {
		if _, err := c.Image(reference); err != nil {
			t.Error(err)
		}
	}
	for _, layer := range c.Set("node")[0].Layers {
		for _, file := range layer.Files {
			if file.To == "/kind/version" && file.Content != version {
				t.Errorf("%s contains %q, but Kubernetes has version %s", file.To, file.Content, version)
			}
		}
	}
	if coredns, err := gobuild.Required(s.path("coredns"), "github.com/coredns/coredns"); err != nil ||
		!slices.Contains(wanted, "registry.k8s.io/coredns/coredns:"+coredns) {
		t.Errorf("CoreDNS is built from %s (%v), but kubeadm requires another version", coredns, err)
	}
}

func constantOf(t *testing.T, file, name string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	value, err := constant(file, content, name)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// The tag of an add-on's image is the version of the module that it is built from.
func TestPebbleImageHasItsModulesVersion(t *testing.T) {
	c := load(t)
	version, err := checkout(t).ModuleVersion("pebble")
	if err != nil {
		t.Fatal(err)
	}
	if want := "ghcr.io/letsencrypt/pebble:" + strings.TrimPrefix(version, "v"); c.Set("pebble")[0].Reference != want {
		t.Errorf("the image is %s, but the module has version %s", c.Set("pebble")[0].Reference, version)
	}
}

// Images of clusters, and of a bundle for an air gap, must not need files that another command writes.
func TestDefaultImagesNeedNoOtherCommand(t *testing.T) {
	c := load(t)
	for _, image := range c.DefaultImages() {
		for _, layer := range image.Layers {
			for _, file := range c.named(layer).Files {
				if file.Command != "" {
					t.Errorf("%s needs %s", image.Reference, file.Command)
				}
			}
		}
	}
}

func TestInvalidCatalogueIsRejected(t *testing.T) {
	const image = "images: [{reference: 'a/b:1', set: x, layers: [{programs: {/p: hello}}]}]\n"
	const program = "programs: {hello: {module: hello}}\n"
	if _, err := parse([]byte(program + image)); err != nil {
		t.Fatalf("check() of a valid catalogue: %v", err)
	}
	for _, c := range []struct{ name, yaml, want string }{
		{"unknown program", image, "there is no program hello"},
		{"unknown field", program + image + "colour: red\n", "colour"},
		{"unknown field in a layer", program + strings.Replace(image, "programs", "program", 1), "program"},
		{
			"unknown layer",
			program + strings.Replace(image, "{programs: {/p: hello}}", "nowhere", 1),
			"there is no layer nowhere",
		},
		{
			"unknown root",
			strings.Replace(image, "{programs: {/p: hello}}", "{debian: trixie}", 1),
			"there is no Debian root trixie",
		},
		{
			"unknown module",
			strings.Replace(image, "{programs: {/p: hello}}", "{files: [{to: /f, module: m, from: x}]}", 1),
			"there is no module m",
		},
		{
			"two sources",
			strings.Replace(image, "{programs: {/p: hello}}", "{files: [{to: /f, module: m, content: x}]}", 1),
			"comes from one of",
		},
		{"no tag", program + strings.Replace(image, "a/b:1", "a/b", 1), "name/of/it:tag"},
		{
			"twice",
			program + strings.Replace(image, "}]}]", "}]}, {reference: 'a/b:1', set: x, layers: [{programs: {/p: hello}}]}]", 1),
			"is there twice",
		},
		{"relative path", program + strings.Replace(image, "/p:", "p:", 1), "absolute path"},
		{
			"path through a link of Debian",
			program + strings.Replace(image, "/p:", "/bin/p:", 1),
			"must be written /usr/bin/p",
		},
		{"mode", program + strings.Replace(image, "{programs: {/p: hello}}", "{directories: {/d: '9'}}", 1), "must be octal"},
		{
			"mode of a program",
			program + strings.Replace(image, "{programs: {/p: hello}}", "{programs: {/p: hello}, modes: {/p: '9'}}", 1),
			"must be octal",
		},
		{
			"mode of no program",
			program + strings.Replace(image, "{programs: {/p: hello}}", "{programs: {/p: hello}, modes: {/q: '4755'}}", 1),
			"/q has a mode, but is not a program",
		},
		{
			"version without module",
			strings.Replace(program, "hello}", "hello, variables: [main.v=$VERSION]}", 1) + image,
			"needs versionOf",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := parse([]byte(c.yaml)); err == nil {
				t.Error("no error")
			} else if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error %q lacks %q", err, c.want)
			}
		})
	}
}

func load(t *testing.T) *Catalogue {
	t.Helper()
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// checkout returns a store of this checkout's programs that holds nothing.
func checkout(t *testing.T) *Store {
	t.Helper()
	programs, err := filepath.Abs("programs")
	if err != nil {
		t.Fatal(err)
	}
	return &Store{Dir: t.TempDir(), Programs: programs}
}
