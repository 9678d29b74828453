// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Gaps lists what the submission's own deployment may have, and an operator that is graded as a process of this machine
// does not have: manifests in places where they are not read, and changes that kustomize makes to them. operator is
// true if the operator runs. Otherwise only its API is graded. converted is true if its webhook converts between
// versions.
func (b *Builder) Gaps(m *Manifests, operator, converted bool) (notices []string) {
	if len(m.Definitions) == 0 && len(m.APIServices) == 0 {
		notices = append(notices, "it defines no kind: neither do markers above its Go types, "+
			"nor YAML files in config/crd/bases"+
			b.elsewhere("; %s has a CustomResourceDefinition: copy it into config/crd/bases to have it installed",
				DefinitionKind))
	}
	for _, definition := range m.Definitions {
		strategy, _, _ := unstructured.NestedString(definition.Object, "spec", "conversion", "strategy")
		if versions := ServedVersions(definition); len(versions) > 1 && strategy != "Webhook" && !converted {
			notices = append(notices, fmt.Sprintf("%s has the versions %s, and no webhook converts them here: "+
				"the API server changes nothing but the apiVersion", definition.GetName(), strings.Join(versions, ", ")))
		}
	}
	if operator && len(m.ClusterRoles)+len(m.Roles) == 0 {
		notices = append(notices, "it may do nothing: "+
			"there are neither +kubebuilder:rbac markers nor a config/rbac/role.yaml"+
			b.elsewhere("; %s has a role: copy it to config/rbac/role.yaml to have it granted", "ClusterRole", "Role"))
	}
	if !operator && b.generatorOptions()["crd"]["maxDescLen"] == "0" {
		notices = append(notices, "its own `make manifests` leaves out all descriptions (crd:maxDescLen=0), "+
			"and so does grading: `kubectl explain` has none to show")
	}
	return notices
}

// ServedVersions returns the names of the served versions of a definition.
func ServedVersions(definition *unstructured.Unstructured) (names []string) {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		if version, ok := version.(map[string]any); ok && version["served"] == true {
			names = append(names, fmt.Sprint(version["name"]))
		}
	}
	return names
}

// searched is the maximum number of YAML files that are searched for manifests in other places.
const searched = 500

// elsewhere formats the text with the name of the first YAML file of the submission that has an object of one of these
// kinds. It returns an empty string if there is none.
func (b *Builder) elsewhere(text string, kinds ...string) string {
	kind := regexp.MustCompile(`(?m)^kind: ["']?(` + strings.Join(kinds, "|") + `)["']?\s*$`)
	found, read := "", 0
	// Files that can't be read are ignored.
	_ = b.walk(".", func(root *os.Root, name string, entry fs.DirEntry) error {
		switch {
		case found != "" || read == searched:
			return fs.SkipAll
		case entry.IsDir() && name != "." && (ignored(entry.Name()) || isModule(root, name)):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".yaml" && path.Ext(name) != ".yml":
			return nil
		}
		read++
		if content, err := b.ReadFile(name); err == nil && kind.Match(content) {
			found = fmt.Sprintf(text, name)
		}
		return nil
	})
	return found
}
