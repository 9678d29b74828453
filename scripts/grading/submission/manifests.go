// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/build"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/limited"
)

const (
	generateTimeout = 2 * time.Minute
	// generatedLimit is the maximum size of controller-gen's output, in bytes. Each kind that contains the template of a
	// Pod takes 0.5 MB.
	generatedLimit = 32 << 20
)

// versionAnnotation is the annotation with controller-gen's version.
const versionAnnotation = "controller-gen.kubebuilder.io/version"

// Manifests are the objects of a submission that are installed in a cluster before it runs.
type Manifests struct {
	// Notices describe differences between the files committed in config/ and the manifests from the markers.
	Notices []string

	// Definitions are CustomResourceDefinitions. Committed are those of config/crd/bases if the generated ones are used.
	Definitions, Committed []*unstructured.Unstructured
	ClusterRoles           []rbacv1.ClusterRole
	Roles                  []rbacv1.Role // a Role without a namespace applies to the operator's own
	// Webhooks are webhook configurations of both kinds. Services are the Services by which they are reached.
	Webhooks, Services []*unstructured.Unstructured

	// APIServices register an aggregated API server, APIServers are the Services by which it is reached, and Delegations
	// the bindings that allow it to delegate authentication and authorization to the API server.
	APIServices, APIServers, Delegations []*unstructured.Unstructured

	namePrefix string // the prefix that kustomize would add to all names
	// whole holds the definitions before versions were held back. It is nil if none were. conversions holds the patches
	// that configure how versions are converted.
	whole, conversions []*unstructured.Unstructured
}

// Generate generates the manifests from the submission's markers. Manifests that were committed below config/ are used
// only if the markers generate nothing. If the two differ, a notice says so. An error of the submission is a *Problem.
func (b *Builder) Generate(ctx context.Context) (*Manifests, error) {
	committed, committedErr := b.committed()
	notices, err := b.markerNotices(ctx)
	if err != nil {
		return nil, err
	}
	generators := []string{"rbac", "crd", "webhook"}
	if committedErr == nil && len(committed.APIServices) > 0 {
		generators = []string{"rbac"} // its server may use numbers that a CustomResourceDefinition can't define
	}
	generated, message, err := b.generate(ctx, generators...)
	if _, wrong := errors.AsType[*Problem](err); wrong && committedErr == nil {
		if replacement := b.fallback(ctx, committed, message); replacement != nil {
			generated, err = replacement, nil
		}
	} else if err == nil {
		if committedErr != nil {
			generated.Notice("config/ holds YAML that can't be read: %v", committedErr)
		} else {
			generated.compare(committed)
		}
		generated.completeWebhooks()
	}
	if err != nil {
		return nil, err
	}
	generated.Notices = slices.Concat(notices, b.copyNotices(), generated.Notices)
	return generated, nil
}

// generate runs generators of controller-gen on the packages of the module, without nested modules. If it fails,
// message is the first line of its output.
func (b *Builder) generate(
	ctx context.Context, generators ...string,
) (generated *Manifests, message string, err error) {
	options := b.generatorOptions()
	var args []string
	for _, generator := range generators {
		args = append(args, options.argument(generator))
	}
	packages := b.packages()
	if len(packages) == 0 {
		return &Manifests{}, "", nil
	}
	for _, folder := range packages {
		args = append(args, "paths="+folder)
	}
	// It writes to its standard output, because file names come from the markers and might point anywhere.
	args = append(args, "output:stdout")
	kept := b.keptManifests(args)
	if content, err := os.ReadFile(kept); err == nil {
		generated, err = b.parseGenerated(content)
		return generated, "", err
	}
	content := limited.NewOutput(generatedLimit)
	output, err := b.tool(ctx, tool{
		path:        b.ControllerGen,
		args:        args,
		environment: offline(),
		timeout:     generateTimeout,
		stdout:      content,
	})
	if err := problem(err, output, "no manifests can be generated from its markers",
		fmt.Sprintf("generating manifests took longer than %s", generateTimeout)); err != nil {
		return nil, firstLine(output), err
	}
	if content.Full() {
		tooMuch := fmt.Sprintf("its markers generate more than %d MB of manifests: "+
			"leave out descriptions, with crd:maxDescLen=0 in its Makefile", generatedLimit>>20)
		return nil, tooMuch, &Problem{Reason: tooMuch}
	}
	if generated, err = b.parseGenerated(content.Bytes()); err != nil {
		return nil, "", err
	}
	return generated, "", environmentError(keepManifests(kept, content.Bytes()))
}

// parseGenerated parses the manifests that controller-gen has printed.
func (b *Builder) parseGenerated(printed []byte) (*Manifests, error) {
	objects, err := decodeYAML(bytes.NewReader(printed))
	if err != nil {
		return nil, fmt.Errorf("reading the output of controller-gen: %w", err)
	}
	generated := &Manifests{}
	if err := generated.add(objects); err != nil {
		return nil, fmt.Errorf("reading the output of controller-gen: %w", err)
	}
	b.generated = objects
	return generated, nil
}

// packages returns the module's packages as arguments of the go command, without those that exist only for tests or for
// another system.
func (b *Builder) packages() (packages []string) {
	for _, folder := range b.sources.folders() {
		// controller-gen reports other errors of a package.
		if pkg, err := b.imported(folder); errors.As(err, new(*build.NoGoError)) || err == nil && len(pkg.GoFiles) == 0 {
			continue
		}
		packages = append(packages, inModule(folder))
	}
	return packages
}

// fallback returns the manifests that are used when controller-gen fails on the markers. The syntax of webhook markers
// has changed since 2020: if all other markers can be read, only the webhooks are taken from the committed files.
// fallback returns nil if nothing is committed, or if a marker with today's syntax is wrong, because the committed
// files do not reflect such a marker.
func (b *Builder) fallback(ctx context.Context, committed *Manifests, message string) *Manifests {
	if len(committed.Webhooks) > 0 && message != "" {
		if generated, _, err := b.generate(ctx, "rbac", "crd"); err == nil {
			if !lacksArguments(message) {
				return nil
			}
			generated.Notice("controller-gen fails on the markers of the webhooks, "+
				"so config/webhook/manifests.yaml was used: %s", message)
			generated.compare(committed)
			generated.completeWebhooks()
			return generated
		}
	}
	// The types of an aggregated API server are not custom resources. controller-gen can't process its floats or its
	// generated OpenAPI.
	if len(committed.Definitions) == 0 && len(committed.APIServices) == 0 {
		return nil
	}
	committed.Notice("controller-gen fails on the markers, so what is committed in config/ was used: %s", message)
	committed.completeWebhooks()
	return committed
}

// lacksArguments reports whether controller-gen complains about missing arguments of a marker. Before 2020 these had
// defaults, so such a marker is old and not wrong.
func lacksArguments(message string) bool {
	return strings.Contains(message, "missing argument") || strings.Contains(message, "is required for creating v1")
}

// Groups returns the API groups of the kinds that the submission defines.
func (m *Manifests) Groups() (groups []string) {
	for _, definition := range m.Definitions {
		group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
		groups = append(groups, group)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// Notice adds a notice.
func (m *Manifests) Notice(format string, args ...any) {
	m.Notices = append(m.Notices, fmt.Sprintf(format, args...))
}

// compare adds committed manifests where the markers generate none, and adds notices where the two differ.
func (m *Manifests) compare(committed *Manifests) {
	if len(m.Definitions) == 0 {
		m.Definitions = committed.Definitions
	} else {
		m.Committed = committed.Definitions
	}
	for _, definition := range m.Definitions {
		old := Find(committed.Definitions, definition.GetName())
		if old != nil && old.GetAnnotations()[versionAnnotation] == definition.GetAnnotations()[versionAnnotation] &&
			!reflect.DeepEqual(old.Object["spec"], definition.Object["spec"]) {
			m.Notice("config/crd/bases is older than the types: run `make manifests` (the types were graded)")
		}
	}
	if m.rights() == nil {
		m.ClusterRoles, m.Roles = committed.ClusterRoles, committed.Roles
	} else if committed.rights() != nil && !slices.Equal(m.rights(), committed.rights()) {
		m.Notice("config/rbac/role.yaml is not what the +kubebuilder:rbac markers say: " +
			"run `make manifests` (the markers were graded)")
	}
	m.APIServices, m.APIServers, m.Delegations = committed.APIServices, committed.APIServers, committed.Delegations
	m.conversions = committed.conversions
	m.compareWebhooks(committed)
}

// Find returns the object with a name, or nil if there is none.
func Find(objects []*unstructured.Unstructured, name string) *unstructured.Unstructured {
	for _, object := range objects {
		if object.GetName() == name {
			return object
		}
	}
	return nil
}

// Rules returns the rules of the roles. A Role without a namespace applies to the operator's own.
func (m *Manifests) Rules() audit.Rules {
	rules := audit.Rules{}
	for _, role := range m.ClusterRoles {
		rules[""] = append(rules[""], role.Rules...)
	}
	for _, role := range m.Roles {
		namespace := cmp.Or(role.Namespace, AccountNamespace)
		rules[namespace] = append(rules[namespace], role.Rules...)
	}
	return rules
}

// rights returns the permissions that the roles grant, independent of how their rules are grouped.
func (m *Manifests) rights() []string {
	var all []string
	add := func(namespace string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			for _, verb := range rule.Verbs {
				for _, url := range rule.NonResourceURLs {
					all = append(all, verb+" "+url)
				}
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						all = append(all, strings.Join(append([]string{verb, group, resource, namespace}, rule.ResourceNames...), " "))
					}
				}
			}
		}
	}
	for _, role := range m.ClusterRoles {
		add("", role.Rules)
	}
	for _, role := range m.Roles {
		add(role.Namespace, role.Rules)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// committed reads the manifests below config/: CustomResourceDefinitions, roles and webhooks. Only the manager's roles
// count: kubebuilder writes other roles beside them, for people and for metrics. A folder may be missing.
func (s *Submission) committed() (*Manifests, error) {
	m := &Manifests{}
	if err := errors.Join(m.readWebhooks(s), m.readConversions(s), m.readAPIServices(s)); err != nil {
		return nil, err
	}
	definitions, err := s.readYAML("config/crd/bases/*.yaml")
	if err != nil {
		return nil, err
	}
	roles, err := s.readYAML("config/rbac/role.yaml")
	if err != nil {
		return nil, err
	}
	definitions = slices.DeleteFunc(definitions, func(o *unstructured.Unstructured) bool {
		return o.GetKind() != DefinitionKind
	})
	return m, m.add(append(definitions, roles...))
}

// DefinitionKind is the kind of objects that define kinds.
const DefinitionKind = "CustomResourceDefinition"

// add adds definitions, roles and webhooks to the manifests.
func (m *Manifests) add(objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		var err error
		switch object.GetKind() {
		case DefinitionKind:
			m.Definitions = append(m.Definitions, object)
		case "ClusterRole":
			var role rbacv1.ClusterRole
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role)
			m.ClusterRoles = append(m.ClusterRoles, role)
		case "Role":
			var role rbacv1.Role
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role)
			m.Roles = append(m.Roles, role)
		default:
			if _, ok := Configurations[object.GetKind()]; ok {
				m.addWebhook(object)
			}
		}
		if err != nil {
			return fmt.Errorf("reading the role %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// decodeYAML reads documents until the end. Empty ones are left out.
func decodeYAML(reader io.Reader) (objects []*unstructured.Unstructured, err error) {
	documents := yaml.NewYAMLOrJSONDecoder(reader, 4096)
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
