// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/command"
)

func webApp(dir string) Options {
	return Options{Dir: dir, Domain: "lva.io", Group: "apps", Version: "v1alpha1", Kind: "WebApp"}
}

func findCheckout(t *testing.T) *checkout.Checkout {
	t.Helper()
	found, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func prepareNothing(string) error { return nil }

// create creates a project in a folder of that name.
func create(t *testing.T, name string, change func(*Options)) (p *Project, files []string) {
	t.Helper()
	options := webApp(filepath.Join(t.TempDir(), name))
	if change != nil {
		change(&options)
	}
	root := findCheckout(t)
	controllerGen, err := root.ControllerGen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p, err = New(root.Root, options); err != nil {
		t.Fatal(err)
	}
	if files, err = p.Create(t.Context(), controllerGen, prepareNothing); err != nil {
		t.Fatal(err)
	}
	return p, files
}

func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	runner, err := command.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	out, err := runner.Run(t.Context(), dir, nil, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// contents returns the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		all[name] = string(content)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{
			"a folder that is not empty", func(o *Options) { o.Dir = full },
			"is not empty (it has thesis.txt), and nothing is overwritten",
		},
		{"a file", func(o *Options) { o.Dir = filepath.Join(full, "thesis.txt") }, "is a file"},
		{
			"a folder whose name can't be a namespace", func(o *Options) { o.Dir = filepath.Join(full, "my app") },
			`would be called "my app"`,
		},
		{
			"a folder whose name is too long",
			func(o *Options) { o.Dir = filepath.Join(full, strings.Repeat("a", longestName+1)) },
			"at most 28 small letters",
		},
		{"no domain", func(o *Options) { o.Domain = "" }, "--domain is missing"},
		{"an address as domain", func(o *Options) { o.Domain = "https://lva.io" }, `--domain "https://lva.io" is no domain`},
		{"a reserved domain of Kubernetes", func(o *Options) { o.Domain = "x.k8s.io" }, "is reserved for Kubernetes"},
		{"no group", func(o *Options) { o.Group = "" }, "--group is missing"},
		{"an uppercase group", func(o *Options) { o.Group = "Apps" }, `--group "Apps" can't be a group`},
		{"a group that begins with a digit", func(o *Options) { o.Group = "9apps" }, `--group "9apps" can't be a group`},
		{"a group that is too long", func(o *Options) { o.Group = strings.Repeat("a", 250) }, "has more than 253 characters"},
		{"no version", func(o *Options) { o.Version = "" }, "--version is missing"},
		{"a software version", func(o *Options) { o.Version = "v1.2" }, `--version "v1.2" is no version of an API`},
		{"version 0", func(o *Options) { o.Version = "v0" }, `--version "v0" is no version of an API`},
		{"no kind", func(o *Options) { o.Kind = "" }, "--kind is missing"},
		{"a lowercase kind", func(o *Options) { o.Kind = "webapp" }, `--kind "webapp" can't be a kind`},
		{"a kind with a path in it", func(o *Options) { o.Kind = "Web/../App" }, "can't be a kind"},
		{"a kind that is too long", func(o *Options) { o.Kind = strings.Repeat("A", 63) }, "is too long"},
		{"a kind whose name is taken", func(o *Options) { o.Kind = "SchemeBuilder" }, "is the name of something else"},
		{"a module with a space", func(o *Options) { o.Module = "lva.io/web app" }, "can't be the path of a Go module"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			options := webApp(filepath.Join(full, "webapp"))
			test.change(&options)
			if _, err := New(findCheckout(t).Root, options); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
	if got := contents(t, full); len(got) != 1 {
		t.Errorf("the folder has changed: %v", got)
	}
}

func TestFailedCreateLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, controllerGen string
		prepare             func(string) error
	}{
		{"without its modules", "true", func(string) error { return errors.New("no network") }},
		{"without generated files", "false", prepareNothing},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			above := t.TempDir()
			p, err := New(findCheckout(t).Root, webApp(filepath.Join(above, "webapp")))
			if err != nil {
				t.Fatal(err)
			}
			killed := exec.CommandContext(t.Context(), "true")
			if err := killed.Run(); err != nil {
				t.Fatal(err)
			}
			left := filepath.Join(above, fmt.Sprintf(".%s-new-%d-1", p.Name, killed.Process.Pid))
			if err := os.Mkdir(left, 0o755); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Create(t.Context(), test.controllerGen, test.prepare); err == nil {
				t.Error("Create() succeeded")
			}
			if entries, err := os.ReadDir(above); err != nil || len(entries) > 0 {
				t.Errorf("left behind: %v, error %v", entries, err)
			}
		})
	}
}

// A .git folder is accepted, and a file that a user creates at the same time is not lost.
func TestExistingFolder(t *testing.T) {
	t.Parallel()
	root := findCheckout(t)
	dir := filepath.Join(t.TempDir(), "webapp")
	if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := New(root.Root, webApp(dir))
	if err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(dir, "go.mod")
	if _, err := p.Create(t.Context(), "true", func(string) error {
		return os.WriteFile(mine, []byte("mine"), 0o600)
	}); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("got error %v, want one about a folder that is not empty", err)
	}
	if got := contents(t, dir); got["go.mod"] != "mine" || len(got) != 1 {
		t.Errorf("the folder has %v", got)
	}
	if err := os.Remove(mine); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(t.Context(), "true", prepareNothing); err != nil {
		t.Error(err)
	}
}

var leftover = regexp.MustCompile(`\{\{[.a-z]|<no value>|\b(VERSION|KIND|GROUP)\b`)

func TestProjectCompiles(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	for _, test := range []struct {
		name   string
		change func(*Options)
		// files are some of its files.
		files []string
	}{
		{"webapp", nil, []string{
			"PROJECT", "Dockerfile", "Makefile", "go.sum", "hack/boilerplate.go.txt",
			"cmd/main.go", "api/v1alpha1/webapp_types.go",
			"api/v1alpha1/zz_generated.deepcopy.go", "internal/controller/webapp_controller.go",
			"internal/controller/environment_test.go",
			"config/crd/bases/apps.lva.io_webapps.yaml", "config/rbac/role.yaml", "config/samples/apps_v1alpha1_webapp.yaml",
		}},
		{"hooks", func(o *Options) { o.Webhook = true }, []string{
			"internal/webhook/v1alpha1/webapp_webhook.go", "config/webhook/manifests.yaml",
			"config/certmanager/certificate-webhook.yaml",
			"config/network-policy/allow-webhook-traffic.yaml", "config/default/manager_webhook_patch.yaml",
		}},
		// These names are difficult: dots, digits, an irregular plural, and a group whose import would have the name of the
		// webhooks' package.
		{"Odd-1", func(o *Options) {
			*o = Options{
				Dir: o.Dir, Domain: "my-own.example", Group: "webhook", Version: "v2beta1", Kind: "HTTPPolicy",
				Module: "example.test/a/b-c", Webhook: true,
			}
		}, []string{
			"config/crd/bases/webhook.my-own.example_httppolicies.yaml", "config/samples/webhook_v2beta1_httppolicy.yaml",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p, files := create(t, test.name, test.change)
			for _, name := range test.files {
				if !slices.Contains(files, name) {
					t.Errorf("no file %s in %v", name, files)
				}
			}
			before := contents(t, p.Dir)
			for name, content := range before {
				for line := range strings.SplitSeq(content, "\n") {
					if found := leftover.FindString(line); found != "" {
						t.Errorf("%s has %q: %s", name, found, line)
					}
				}
			}
			if len(files) != len(before) {
				t.Errorf("Create() returned %d files, and there are %d", len(files), len(before))
			}
			run(t, p.Dir, "go", slices.Concat([]string{"vet"}, gobuild.Flags, []string{"./..."})...)
			run(t, p.Dir, "go", slices.Concat([]string{"vet", "-tags=e2e"}, gobuild.Flags, []string{"./test/e2e"})...)
			if out := run(t, p.Dir, "gofmt", "-l", "."); out != "" {
				t.Errorf("not formatted: %s", out)
			}
			run(t, p.Dir, "go", "mod", "tidy", "-diff")
			controllerGen, err := findCheckout(t).ControllerGen(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := generate(t.Context(), p.Dir, controllerGen); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, contents(t, p.Dir)); diff != "" {
				t.Errorf("generating again (-before +after):\n%s", diff)
			}
		})
	}
}

// In a rolling update, the API server sends requests to the old Pod until it knows that the Pod is no endpoint any
// more. Without webhooks there are no such requests, and the Pod need not wait.
func TestWebhooksAnswerUntilEndpointIsWithdrawn(t *testing.T) {
	t.Parallel()
	for _, webhooks := range []bool{false, true} {
		options := webApp(filepath.Join(t.TempDir(), "webapp"))
		options.Webhook = webhooks
		p, err := New(findCheckout(t).Root, options)
		if err != nil {
			t.Fatal(err)
		}
		content, err := p.fill("templates/config/manager/manager.yaml.tmpl")
		if err != nil {
			t.Fatal(err)
		}
		_, document, _ := strings.Cut(string(content), "\n---\n")
		var deployment appsv1.Deployment
		if err := yaml.UnmarshalStrict([]byte(document), &deployment); err != nil {
			t.Fatal(err)
		}
		pod := deployment.Spec.Template.Spec
		lifecycle, grace := pod.Containers[0].Lifecycle, *pod.TerminationGracePeriodSeconds
		if !webhooks {
			if lifecycle != nil || grace != 10 {
				t.Errorf("without webhooks: grace period %d s, hooks %v", grace, lifecycle)
			}
			continue
		}
		if lifecycle == nil || lifecycle.PreStop == nil || lifecycle.PreStop.Sleep == nil {
			t.Fatal("with webhooks there is no preStop hook that sleeps")
		}
		const least, toEnd = 3, 10 // seconds
		if sleep := lifecycle.PreStop.Sleep.Seconds; sleep < least || grace < sleep+toEnd {
			t.Errorf("the hook sleeps for %d s of %d s: it must be %d s at least, and leave %d s", sleep, grace, least, toEnd)
		}
	}
}

// A project has the modules of the labs, so that nothing is downloaded for it.
func TestProjectHasModulesOfLabs(t *testing.T) {
	t.Parallel()
	p, err := New(findCheckout(t).Root, webApp(filepath.Join(t.TempDir(), "webapp")))
	if err != nil {
		t.Fatal(err)
	}
	content, err := p.goMod()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(findCheckout(t).Root, filepath.FromSlash(model), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	required := func(content []byte) (lines []string) {
		for _, line := range regexp.MustCompile(`(?m)^\t(\S+ v\S+)`).FindAllStringSubmatch(string(content), -1) {
			lines = append(lines, line[1])
		}
		slices.Sort(lines)
		return lines
	}
	if diff := cmp.Diff(required(want), required(content)); diff != "" || len(required(want)) < 10 {
		t.Errorf("modules (-lab +project):\n%s", diff)
	}
	if !strings.HasPrefix(string(content), "module lva.io/webapp\n") {
		t.Errorf("go.mod begins with %.60q", content)
	}
}

func TestMakefileFindsLabCommand(t *testing.T) {
	t.Parallel()
	root := filepath.FromSlash("/course")
	for _, test := range []struct{ name, dir, want string }{
		{
			"inside the checkout", "/course/mine/webapp",
			"$(or $(wildcard ../../.cache/bin/lab),$(shell command -v lab 2>/dev/null))",
		},
		{"outside", "/elsewhere/webapp", "$(shell command -v lab 2>/dev/null)"},
	} {
		if got := lab(root, filepath.FromSlash(test.dir)); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// You can extend a project with kubebuilder: go install sigs.k8s.io/kubebuilder/v4@v4.16.0. It downloads modules, so
// this test needs a network.
func TestKubebuilderExtendsProject(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	kubebuilder, err := exec.LookPath("kubebuilder")
	if err != nil {
		t.Skip("kubebuilder is not on PATH")
	}
	p, _ := create(t, "webapp", nil)
	controllerGen, err := findCheckout(t).ControllerGen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"create", "api", "--group=apps", "--version=v1beta1", "--kind=Cart", "--resource", "--controller", "--make=false"},
		{
			"create", "webhook", "--group=apps", "--version=v1alpha1", "--kind=WebApp",
			"--defaulting", "--programmatic-validation", "--make=false",
		},
	} {
		run(t, p.Dir, kubebuilder, args...)
		if err := generate(t.Context(), p.Dir, controllerGen); err != nil {
			t.Fatal(err)
		}
		run(t, p.Dir, "go", slices.Concat([]string{"vet"}, gobuild.Flags, []string{"./..."})...)
	}
	after := contents(t, p.Dir)
	for name, want := range map[string]string{
		"cmd/main.go":                              "controller.CartReconciler{",
		"config/crd/kustomization.yaml":            "- bases/apps.lva.io_carts.yaml",
		"config/default/kustomization.yaml":        "\n- ../webhook\n",
		"config/webhook/manifests.yaml":            "/validate-apps-lva-io-v1alpha1-webapp",
		"config/samples/kustomization.yaml":        "- apps_v1beta1_cart.yaml",
		"internal/controller/suite_test.go":        "RunSpecs",
		"config/network-policy/kustomization.yaml": "allow-webhook-traffic.yaml",
	} {
		if !strings.Contains(after[name], want) {
			t.Errorf("%s lacks %q:\n%s", name, want, after[name])
		}
	}
	for _, replaced := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		if !strings.Contains(after["config/default/kustomization.yaml"], "\n         kind: "+replaced) {
			t.Errorf("the authority is not injected into the %s", replaced)
		}
	}
}
