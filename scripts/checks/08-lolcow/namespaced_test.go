// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/limited"
)

// namespacedFolder is the kustomization that deploys the operator for one namespace.
const namespacedFolder = "config/namespaced"

// copyKustomization copies a kustomization of the submission, with all its parts, into a folder. It copies a
// kustomization that includes itself only once.
func (v visit) copyKustomization(folder, target string) {
	v.t.Helper()
	if _, err := os.Stat(filepath.Join(target, filepath.FromSlash(folder), "kustomization.yaml")); err == nil {
		return
	}
	expected := namespacedFolder + " can be put together by kustomize, from files of the submission"
	copied := func(file string) []byte {
		v.t.Helper()
		if !filepath.IsLocal(file) {
			v.Fail(v.t, expected, file+" is none of them")
		}
		content, err := v.Submission.File(v.ctx, file)
		if errors.Is(err, fs.ErrNotExist) {
			v.Fail(v.t, expected, "there is no "+file)
		}
		v.OK(v.t, "reading "+file, err)
		to := filepath.Join(target, filepath.FromSlash(file))
		v.OK(v.t, "making a folder", os.MkdirAll(filepath.Dir(to), 0o750))
		v.OK(v.t, "writing "+file, os.WriteFile(to, content, 0o600))
		return content
	}
	var parts struct {
		Resources []string
		Patches   []struct{ Path string }
	}
	file := path.Join(folder, "kustomization.yaml")
	if err := yaml.Unmarshal(copied(file), &parts); err != nil {
		v.Fail(v.t, expected, file+": "+err.Error())
	}
	for _, patch := range parts.Patches {
		if patch.Path != "" {
			copied(path.Join(folder, patch.Path))
		}
	}
	for _, resource := range parts.Resources {
		if part := path.Join(folder, resource); path.Ext(part) == ".yaml" || path.Ext(part) == ".yml" {
			copied(part)
		} else {
			v.copyKustomization(part, target)
		}
	}
}

const (
	// kustomizeTimeout is the time limit of kustomize, which takes a tenth of a second.
	kustomizeTimeout = 20 * time.Second
	// renderedLimit is the maximum size of the manifests, and mistakesLimit that of kustomize's error messages, in bytes.
	renderedLimit = 16 << 20
	mistakesLimit = 64 << 10
)

// noNetwork returns an environment in which kustomize can't download anything that a submission names: it finds no git,
// and no proxy that answers.
func noNetwork(home string) []string {
	const unreachable = "http://127.0.0.1:0"
	return []string{"HOME=" + home, "HTTP_PROXY=" + unreachable, "HTTPS_PROXY=" + unreachable}
}

// rendered builds the objects that deploy the operator for one namespace.
func (v visit) rendered() (all []*unstructured.Unstructured) {
	v.t.Helper()
	if v.Kubectl == "" {
		v.Skip(v.t, "there is no kubectl, which puts manifests together")
	}
	folder := v.t.TempDir()
	v.copyKustomization(namespacedFolder, folder)
	ctx, cancel := context.WithTimeoutCause(v.ctx, kustomizeTimeout,
		fmt.Errorf("kustomize took longer than %s", kustomizeTimeout))
	defer cancel()
	command := exec.CommandContext(ctx, v.Kubectl,
		"kubectl", "kustomize", filepath.Join(folder, filepath.FromSlash(namespacedFolder)))
	command.Env = noNetwork(folder)
	output, mistakes := limited.NewOutput(renderedLimit), limited.NewOutput(mistakesLimit)
	command.Stdout, command.Stderr = output, mistakes
	if err := command.Run(); err != nil {
		v.Fail(v.t, namespacedFolder+" can be put together by kustomize",
			strings.ReplaceAll(strings.TrimSpace(mistakes.String()), folder+"/", "")+": "+err.Error())
	}
	if output.Full() {
		v.Fail(v.t, namespacedFolder+" can be put together by kustomize",
			fmt.Sprintf("it comes to more than %d MB of manifests", renderedLimit>>20))
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(output.Bytes()), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			v.Fail(v.t, namespacedFolder+" comes to objects of Kubernetes", err.Error())
		}
		all = append(all, object)
	}
}

// grantsOnlyRole checks which rights the manifests grant: a Role with the operator's rights, bound to its account. They
// must grant nothing for the whole cluster, except authenticating clients, which only a ClusterRole can allow.
func (v visit) grantsOnlyRole() {
	v.t.Helper()
	expected := namespacedFolder +
		" gives the operator's account a Role, by a RoleBinding, and no right in other namespaces"
	roles := map[string]rbacv1.ClusterRole{} // by kind and name: a Role has the same fields
	bindings := map[string]rbacv1.ClusterRoleBinding{}
	for _, object := range v.rendered() {
		var err error
		name := object.GetKind() + " " + object.GetName()
		switch object.GetKind() {
		case "Role", "ClusterRole":
			var role rbacv1.ClusterRole
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role)
			roles[name] = role
		case "RoleBinding", "ClusterRoleBinding":
			var binding rbacv1.ClusterRoleBinding
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding)
			bindings[name] = binding
		}
		v.OK(v.t, "reading the "+name, err)
	}
	works := false
	for name, binding := range bindings {
		role := roles[binding.RoleRef.Kind+" "+binding.RoleRef.Name]
		inGroups := func(groups ...string) func(rbacv1.PolicyRule) bool {
			return func(rule rbacv1.PolicyRule) bool {
				return slices.ContainsFunc(rule.APIGroups, func(group string) bool { return slices.Contains(groups, group) })
			}
		}
		if !strings.HasPrefix(name, "ClusterRoleBinding ") {
			works = works || slices.ContainsFunc(role.Rules, inGroups(kind.Group)) &&
				slices.ContainsFunc(role.Rules, inGroups("apps"))
			continue
		}
		asks := inGroups("authentication.k8s.io", "authorization.k8s.io")
		if len(role.Rules) == 0 || slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return !asks(rule) }) {
			v.Fail(v.t, expected, fmt.Sprintf("it has the %s, which gives the %s %s in all namespaces",
				name, binding.RoleRef.Kind, binding.RoleRef.Name))
		}
	}
	if !works {
		v.Fail(v.t, expected, fmt.Sprintf("of its %s none gives rights to Lolcows and Deployments",
			workload.Counted(len(bindings), "binding")))
	}
}

// otherImage is the image in the operator's flag --image.
const otherImage = "operator-labs/lolcow:v2"

// namespaced restricts the operator's role to one namespace.
func namespaced() types.Feature {
	var taken []rbacv1.ClusterRoleBinding
	return features.New("one namespace is enough").
		Assess("by the manifests for it", check.Assess(assess(visit.grantsOnlyRole))).
		Assess("with a Role there, and no right elsewhere", check.Assess(assess(func(v visit) {
			account := v.account()
			bindings, err := v.herd.Client.RbacV1().ClusterRoleBindings().List(v.ctx, metav1.ListOptions{})
			v.OK(v.t, "asking for the operator's bindings", err)
			v.StopQuietly(v.ctx, v.t)
			for _, binding := range bindings.Items {
				if len(binding.Subjects) != 1 ||
					binding.Subjects[0].Name != account.Name || binding.Subjects[0].Namespace != account.Namespace {
					continue
				}
				local := objectMeta(paddock)
				local.Name += "-" + binding.Name
				_, err := v.herd.Client.RbacV1().RoleBindings(paddock).Create(v.ctx, &rbacv1.RoleBinding{
					ObjectMeta: local, Subjects: binding.Subjects, RoleRef: binding.RoleRef,
				}, metav1.CreateOptions{})
				v.OK(v.t, "giving the operator its role in one namespace", ignoreAlreadyExists(err))
				taken = append(taken, binding)
				v.OK(v.t, "taking the operator's role away elsewhere",
					v.herd.Client.RbacV1().ClusterRoleBindings().Delete(v.ctx, binding.Name, deleteNow))
			}
			token := v.scraper()
			began := v.Audit.Now()
			scraped := v.serveMetrics("--namespace="+paddock, "--image="+otherImage)
			inside, outside := v.create(v.herd.draw(paddock)), v.create(v.herd.draw(stable))
			expected := fmt.Sprintf("with --namespace=%s the operator asks about that namespace only, "+
				"where it has its rights", paddock)
			everywhere := func() []audit.Event {
				return v.Audit.Since(began, v.ByOperator().And(func(e audit.Event) bool {
					return e.Resource != "" && (e.Verb == "list" || e.Verb == "watch") &&
						e.Namespace != paddock && e.Resource != "leases"
				}))
			}
			v.Eventually(v.ctx, v.t, fmt.Sprintf("%s; %s has its children", expected, inside.Name), v.herd.Changed,
				func() (string, bool) {
					if beyond := everywhere(); len(beyond) > 0 {
						v.Fail(v.t, expected, "it asked about all namespaces: "+beyond[0].String(), audit.Lines(beyond)...)
					}
					wrong := v.herd.wrong(inside)
					return wrong, wrong == ""
				})
			v.Settle(v.ctx, v.t)
			deployment, _ := v.herd.deployment(inside)
			if !slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
				return c.Image == otherImage
			}) {
				v.Fail(v.t, "with --image="+otherImage+" the container has that image",
					"no container of the Deployment "+inside.Name+" has it")
			}
			if left, none := v.herd.remainingChildren(outside); !none {
				v.Fail(v.t, "a Lolcow of another namespace is not touched", left)
			}
			v.scrapes(fmt.Sprintf("with --namespace=%s the operator serves its metrics", paddock),
				func() (int, string, error) { return scraped(token) }, func(string) string { return "" })
			if beyond := everywhere(); len(beyond) > 0 {
				v.Fail(v.t, expected, "when the metrics were read, it asked about all namespaces: "+beyond[0].String(),
					audit.Lines(beyond)...)
			}
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			h := herdOf(ctx)
			// While the API server knows only one of the two bindings, a running operator would be denied requests that it may
			// send.
			problems := []error{c.Operator.Stop(ctx)}
			for _, binding := range taken {
				binding.ObjectMeta = metav1.ObjectMeta{Name: binding.Name, Labels: binding.Labels, Annotations: binding.Annotations}
				_, err := h.Client.RbacV1().ClusterRoleBindings().Create(ctx, &binding, metav1.CreateOptions{})
				problems = append(problems, ignoreAlreadyExists(err),
					workload.IgnoreGone(h.Client.RbacV1().RoleBindings(paddock).Delete(ctx, objectName+"-"+binding.Name, deleteNow)))
			}
			return errors.Join(append(problems, withdraw(ctx, h), c.Operator.Start(ctx))...)
		})).Feature()
}
