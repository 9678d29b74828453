// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const generateTimeout = 2 * time.Minute

// versionAnnotation is where controller-gen says which it is.
const versionAnnotation = "controller-gen.kubebuilder.io/version"

// Manifests are what a submission brings into a cluster before it runs.
type Manifests struct {
	// Notices say where what is committed in config/ differs from what the markers say.
	Notices []string

	definitions  []*unstructured.Unstructured // CustomResourceDefinitions
	clusterRoles []rbacv1.ClusterRole
	roles        []rbacv1.Role
	webhooks     []*unstructured.Unstructured // configurations, of both kinds
	services     []*unstructured.Unstructured // by which webhooks are reached
	namePrefix   string                       // which kustomize would put before all names
}

// Generate makes the manifests from the submission's markers. What it committed below config/ is used only where the
// markers give nothing; where the two differ, a notice says so. What is wrong with the submission is a *Problem.
func (w *Workshop) Generate(ctx context.Context) (*Manifests, error) {
	committed, committedErr := readManifests(filepath.Join(w.Dir, "config"), filepath.Join("crd", "bases"))
	generated, message, err := w.generate(ctx, "rbac:roleName=manager-role", "crd", "webhook")
	if _, wrong := errors.AsType[*Problem](err); wrong && committedErr == nil {
		if used := w.instead(ctx, committed, message); used != nil {
			return used, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if committedErr != nil {
		generated.notice("config/ holds YAML that can't be read: %v", committedErr)
		generated.completeWebhooks()
		return generated, nil
	}
	generated.compare(committed)
	generated.completeWebhooks()
	return generated, nil
}

// generate runs generators of controller-gen. message is the first line of what it said if it failed.
func (w *Workshop) generate(ctx context.Context, generators ...string) (generated *Manifests, message string, err error) {
	out := filepath.Join(w.Scope.Dir, "manifests", strconv.Itoa(len(generators)))
	args := append(slices.Clone(generators), "paths=./...")
	for _, generator := range generators {
		kind, _, _ := strings.Cut(generator, ":")
		args = append(args, "output:"+kind+":dir="+filepath.Join(out, kind))
	}
	output, err := w.tool(ctx, generateTimeout, offline(), w.ControllerGen, args...)
	if err := problem(err, output, "no manifests can be generated from its markers",
		fmt.Sprintf("generating manifests took longer than %s", generateTimeout)); err != nil {
		return nil, firstLine(output), err
	}
	if generated, err = readManifests(out, "crd"); err != nil {
		return nil, "", fmt.Errorf("reading what controller-gen made: %w", err)
	}
	w.generated = out
	return generated, "", nil
}

// instead is what is used when controller-gen fails on the markers. Those of webhooks are another language than they were
// in 2020: where all others can be read, only the webhooks are taken from what is committed. nil: nothing is there.
func (w *Workshop) instead(ctx context.Context, committed *Manifests, message string) *Manifests {
	if len(committed.webhooks) > 0 && message != "" {
		if generated, _, err := w.generate(ctx, "rbac:roleName=manager-role", "crd"); err == nil {
			generated.notice("controller-gen fails on the markers of the webhooks, so config/webhook/manifests.yaml was used: %s", message)
			generated.compare(committed)
			generated.completeWebhooks()
			return generated
		}
	}
	if len(committed.definitions) == 0 {
		return nil
	}
	committed.notice("controller-gen fails on the markers, so what is committed in config/ was used: %s", message)
	committed.completeWebhooks()
	return committed
}

func (m *Manifests) notice(format string, args ...any) {
	m.Notices = append(m.Notices, fmt.Sprintf(format, args...))
}

// compare fills what the markers do not give from what is committed, and says where the two differ.
func (m *Manifests) compare(committed *Manifests) {
	if len(m.definitions) == 0 {
		m.definitions = committed.definitions
	}
	for _, definition := range m.definitions {
		old := find(committed.definitions, definition.GetName())
		if old != nil && old.GetAnnotations()[versionAnnotation] == definition.GetAnnotations()[versionAnnotation] &&
			!reflect.DeepEqual(old.Object["spec"], definition.Object["spec"]) {
			m.notice("config/crd/bases is older than the types: run `make manifests` (the types were graded)")
		}
	}
	if m.rights() == nil {
		m.clusterRoles, m.roles = committed.clusterRoles, committed.roles
	} else if committed.rights() != nil && !slices.Equal(m.rights(), committed.rights()) {
		m.notice("config/rbac/role.yaml is not what the +kubebuilder:rbac markers say: run `make manifests` (the markers were graded)")
	}
	m.compareWebhooks(committed)
}

func find(objects []*unstructured.Unstructured, name string) *unstructured.Unstructured {
	for _, object := range objects {
		if object.GetName() == name {
			return object
		}
	}
	return nil
}

// rights are what the roles allow, however their rules are grouped.
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
	for _, role := range m.clusterRoles {
		add("", role.Rules)
	}
	for _, role := range m.roles {
		add(role.Namespace, role.Rules)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// readManifests reads what lies below a folder like config/: CustomResourceDefinitions, roles and webhooks. Of the roles
// only the manager's count: kubebuilder puts others beside them, for people and for metrics. A folder may be missing.
func readManifests(config, definitionsDir string) (*Manifests, error) {
	m := &Manifests{}
	if err := m.readWebhooks(config); err != nil {
		return nil, err
	}
	definitions, err := readYAML(filepath.Join(config, definitionsDir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, object := range definitions {
		if object.GetKind() == "CustomResourceDefinition" {
			m.definitions = append(m.definitions, object)
		}
	}
	roles, err := readYAML(filepath.Join(config, "rbac", "role.yaml"))
	if err != nil {
		return nil, err
	}
	for _, object := range roles {
		switch object.GetKind() {
		case "ClusterRole":
			var role rbacv1.ClusterRole
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role)
			m.clusterRoles = append(m.clusterRoles, role)
		case "Role":
			var role rbacv1.Role
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role)
			m.roles = append(m.roles, role)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the role %s: %w", object.GetName(), err)
		}
	}
	return m, nil
}

func readYAML(pattern string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		read, err := decodeYAML(bytes.NewReader(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		objects = append(objects, read...)
	}
	return objects, nil
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
