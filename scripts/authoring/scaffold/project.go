// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package scaffold

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gobuffalo/flect"
	"golang.org/x/mod/module"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Options describe the project that a user asks for.
type Options struct {
	// Dir is the folder of the project. It must be missing or empty, except for the folder of a Git repository (.git).
	Dir string
	// Domain and Group form the API group, GROUP.DOMAIN. Together with Version and Kind they identify the first kind.
	Domain, Group, Version, Kind string
	// Module is the path of the Go module. Empty: DOMAIN/NAME, where NAME is the name of the folder.
	Module string
	// Webhook adds a defaulting and a validating webhook.
	Webhook bool
}

// Project has the values that are inserted into the templates.
type Project struct {
	Options
	// Name is the project's name. It is the prefix of all deployed objects and of their namespace.
	Name string
	// APIGroup is GROUP.DOMAIN. PathGroup is the same with dashes instead of dots, as in the path of a webhook.
	APIGroup, PathGroup string
	// KindLower is the kind in lower case. Plural is the name of the resource, as controller-gen derives it.
	KindLower, Plural string
	// Alias is the name under which the API's package is imported.
	Alias string
	// Lab is the value of the Makefile's LAB, which finds the lab command.
	Lab string
	// Pins are the versions of the tools and libraries that build the project.
	Pins
}

var (
	versionForm = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)
	kindForm    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
)

// longestName is the maximum length of a project's name, in bytes. The longest derived name is that of the Service
// NAME-controller-manager-metrics-service.
const longestName = validation.DNS1035LabelMaxLength - len("-controller-manager-metrics-service")

// taken lists the names that the package of the API already declares.
var taken = []string{"AddToScheme", "GroupVersion", "SchemeBuilder", "SchemeGroupVersion"}

// New validates the options. Its errors are sentences for the user, each about one argument. root is the checkout whose
// solutions pin the versions.
func New(root string, options Options) (*Project, error) {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("finding the folder %s: %w", options.Dir, err)
	}
	options.Dir = dir
	p := &Project{Options: options, Name: strings.ToLower(filepath.Base(dir))}
	for _, check := range []func() error{
		p.checkDir, p.checkName, p.checkDomain, p.checkGroup, p.checkVersion, p.checkKind, p.checkModule,
	} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	p.APIGroup = p.Group + "." + p.Domain
	if len(p.APIGroup) > validation.DNS1123SubdomainMaxLength {
		return nil, fmt.Errorf("the API's group %s has more than %d characters: shorten --group or --domain",
			p.APIGroup, validation.DNS1123SubdomainMaxLength)
	}
	// The API server rejects definitions in these groups that Kubernetes' maintainers have not approved.
	// (k8s.io/enhancements, KEP-1111)
	for _, protected := range []string{"k8s.io", "kubernetes.io"} {
		if p.Domain == protected || strings.HasSuffix(p.Domain, "."+protected) {
			return nil, fmt.Errorf("--domain %s is reserved for Kubernetes, and the API server would refuse the CRD: "+
				"take a domain of your own", p.Domain)
		}
	}
	p.PathGroup = strings.ReplaceAll(p.APIGroup, ".", "-")
	p.Alias = strings.NewReplacer("-", "", ".", "").Replace(p.Group) + p.Version
	if p.Alias == "webhook"+p.Version {
		p.Alias = "webhookapi" + p.Version // the package of the webhooks has the shorter name
	}
	p.Lab = lab(root, dir)
	if p.Pins, err = readPins(root); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Project) checkName() error {
	if problems := validation.IsDNS1035Label(p.Name); len(problems) > 0 || len(p.Name) > longestName {
		return fmt.Errorf("the project would be called %q, after its folder: "+
			"call the folder by at most %d small letters, digits and -, "+
			"with a letter first and no - last", p.Name, longestName)
	}
	return nil
}

func (p *Project) checkDomain() error {
	if p.Domain == "" {
		return errors.New("--domain is missing: add the domain of the API's group, as in --domain lva.io")
	}
	if len(validation.IsDNS1123Subdomain(p.Domain)) > 0 {
		return fmt.Errorf("--domain %q is no domain: "+
			"write small letters, digits and - with dots between them, as in --domain lva.io", p.Domain)
	}
	return nil
}

func (p *Project) checkGroup() error {
	if p.Group == "" {
		return errors.New("--group is missing: add the part of the API's group before the domain, as in --group apps")
	}
	if len(validation.IsDNS1123Subdomain(p.Group)) > 0 || p.Group[0] < 'a' {
		return fmt.Errorf("--group %q can't be a group: "+
			"write small letters, digits and -, with a letter first, as in --group apps", p.Group)
	}
	return nil
}

func (p *Project) checkVersion() error {
	if p.Version == "" {
		return errors.New("--version is missing: add the version of the API, as in --version v1alpha1")
	}
	if !versionForm.MatchString(p.Version) {
		return fmt.Errorf("--version %q is no version of an API: "+
			"write v1, v1alpha1 or v1beta1, or the like with other numbers", p.Version)
	}
	return nil
}

func (p *Project) checkKind() error {
	if p.Kind == "" {
		return errors.New("--kind is missing: add the name of the kind, as in --kind WebApp")
	}
	if !kindForm.MatchString(p.Kind) {
		return fmt.Errorf("--kind %q can't be a kind: "+
			"write letters and digits, with a capital letter first, as in --kind WebApp", p.Kind)
	}
	if slices.Contains(taken, p.Kind) {
		return fmt.Errorf("--kind %s is the name of something else in the package of the API: choose another one", p.Kind)
	}
	p.KindLower = strings.ToLower(p.Kind)
	p.Plural = flect.Pluralize(p.KindLower)
	if len(p.Plural) > validation.DNS1035LabelMaxLength {
		return fmt.Errorf("--kind %s is too long: its plural may have %d letters and digits",
			p.Kind, validation.DNS1035LabelMaxLength)
	}
	return nil
}

func (p *Project) checkModule() error {
	if p.Module == "" {
		p.Module = p.Domain + "/" + p.Name
	}
	if err := module.CheckImportPath(p.Module); err != nil {
		return fmt.Errorf("--repo %q can't be the path of a Go module: "+
			"write one such as --repo %s/%s", p.Module, p.Domain, p.Name)
	}
	return nil
}

// lab returns the command with which the Makefile of a project finds the lab command: on PATH, and also in the checkout
// if the project is inside of it. It is not an absolute path, since users move projects.
func lab(root, dir string) string {
	const onPath = "$(shell command -v lab 2>/dev/null)"
	inside, err := filepath.Rel(root, dir)
	if err != nil || !filepath.IsLocal(inside) {
		return onPath
	}
	back, err := filepath.Rel(dir, filepath.Join(root, ".cache", "bin", "lab"))
	if err != nil {
		return onPath
	}
	return "$(or $(wildcard " + filepath.ToSlash(back) + ")," + onPath + ")"
}
