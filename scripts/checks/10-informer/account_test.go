// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/dustin/go-humanize/english"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"
	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/checks/check"
)

// defaultFolder is the folder that is applied to a cluster.
const defaultFolder = "config/default"

// manifests returns the objects of a folder with a kustomization, and of the folders that it names. It leaves out
// patches and prefixes: the files agree with each other before kustomize has changed anything. It also leaves out
// missing files, because the role may not be generated yet.
func (v *visit) manifests(folder string) (objects []unstructured.Unstructured) {
	v.t.Helper()
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	content, err := v.Submission.File(v.ctx, path.Join(folder, "kustomization.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	v.OK(v.t, "reading "+folder+"/kustomization.yaml", err)
	if err := yaml.Unmarshal(content, &kustomization); err != nil {
		v.Fail(v.t, folder+"/kustomization.yaml is YAML", err.Error())
	}
	for _, resource := range kustomization.Resources {
		name := path.Join(folder, resource)
		if ext := path.Ext(name); ext != ".yaml" && ext != ".yml" {
			objects = append(objects, v.manifests(name)...)
			continue
		}
		content, err := v.Submission.File(v.ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		v.OK(v.t, "reading "+name, err)
		for documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), len(content)+1); ; {
			var object unstructured.Unstructured
			err := documents.Decode(&object.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				v.Fail(v.t, name+" is YAML", err.Error())
			}
			if len(object.Object) > 0 {
				objects = append(objects, object)
			}
		}
	}
	return objects
}

// nodesRead extends a check of the role that the markers generate: the account of the DaemonSet may read
// AuthorizedKeys, and do nothing else.
func nodesRead(role types.Feature) types.Feature {
	both := features.New(role.Name())
	for _, step := range role.Steps() {
		both = both.WithStep(step.Name(), step.Level(), step.Func())
	}
	return both.Assess("and that of the nodes allows reading",
		check.Assess(func(ctx context.Context, t *testing.T, c *check.Check) {
			t.Helper()
			v := &visit{Check: c, ctx: ctx, t: t} // it needs no node, and a withdrawn policy does not affect it
			const expected = "the account of the DaemonSet in config/manager may list and watch AuthorizedKeys, and nothing else"
			objects := v.manifests(defaultFolder)
			accounts, granted := accountsOf(objects, "DaemonSet"), []string{}
			for _, account := range accounts {
				rules, elsewhere := rulesOf(objects, account)
				if len(elsewhere) > 0 {
					v.Fail(v.t, expected, fmt.Sprintf("the account %s is bound to %s, which %s does not contain",
						account, english.WordSeries(elsewhere, "and"), defaultFolder))
				}
				for _, rule := range rules {
					reads := !slices.ContainsFunc(rule.Verbs, func(verb string) bool {
						return !slices.Contains([]string{"get", "list", "watch"}, verb)
					})
					keys := slices.Equal(rule.APIGroups, []string{keysResource.Group}) && len(rule.NonResourceURLs) == 0 &&
						!slices.ContainsFunc(rule.Resources, func(resource string) bool {
							return !slices.Contains(nodeResources, resource)
						})
					if !reads || !keys {
						v.Fail(v.t, expected, fmt.Sprintf("the account %s is bound to a role that allows %s", account, words(rule)))
					}
					if slices.Contains(rule.Resources, keysResource.Resource) {
						granted = append(granted, rule.Verbs...)
					}
				}
			}
			if len(accounts) > 0 && (!slices.Contains(granted, "list") || !slices.Contains(granted, "watch")) {
				v.Fail(v.t, expected, fmt.Sprintf("the account %s lacks one of these rights", english.WordSeries(accounts, "and")))
			}
		})).Feature()
}

// nodeResources are the resources that a controller on a node may read.
var nodeResources = []string{keysResource.Resource, keysResource.Resource + "/status"}

// accountsOf returns the accounts of the Pods of workloads of a kind.
func accountsOf(objects []unstructured.Unstructured, kind string) (accounts []string) {
	for _, object := range objects {
		if object.GetKind() != kind {
			continue
		}
		account, _, _ := unstructured.NestedString(object.Object, "spec", "template", "spec", "serviceAccountName")
		if account == "" {
			account = "default"
		}
		accounts = append(accounts, account)
	}
	return accounts
}

// rulesOf returns the rules of all roles that are bound to an account, or to a group that includes it. elsewhere are
// the bound roles that are not among the objects.
func rulesOf(objects []unstructured.Unstructured, account string) (rules []rbacv1.PolicyRule, elsewhere []string) {
	for _, object := range objects {
		var binding rbacv1.ClusterRoleBinding // a RoleBinding has the same fields
		if !strings.HasSuffix(object.GetKind(), "RoleBinding") ||
			runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding) != nil {
			continue
		}
		if !slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && s.Name == account ||
				s.Kind == rbacv1.GroupKind && (strings.HasPrefix(s.Name, "system:serviceaccounts") ||
					s.Name == "system:authenticated") ||
				s.Kind == rbacv1.UserKind && strings.HasPrefix(s.Name, "system:serviceaccount:") &&
					strings.HasSuffix(s.Name, ":"+account)
		}) {
			continue
		}
		i := slices.IndexFunc(objects, func(object unstructured.Unstructured) bool {
			return object.GetKind() == binding.RoleRef.Kind && object.GetName() == binding.RoleRef.Name
		})
		var role rbacv1.ClusterRole
		if i < 0 || runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, &role) != nil {
			elsewhere = append(elsewhere, fmt.Sprintf("the %s %s", binding.RoleRef.Kind, binding.RoleRef.Name))
			continue
		}
		rules = append(rules, role.Rules...)
	}
	return rules, elsewhere
}

// words returns a rule in words.
func words(rule rbacv1.PolicyRule) string {
	return english.WordSeries(rule.Verbs, "and") + " of " +
		english.WordSeries(slices.Concat(rule.Resources, rule.NonResourceURLs), "and")
}
