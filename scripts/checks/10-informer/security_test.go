// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/checks/admission"
	"lva.io/operators/scripts/checks/check"
)

// These are the files that the student writes, and the group whose members may decide who can log in.
const (
	roleFile   = "config/rbac/authorizedkey_editor_role.yaml"
	policyFile = "config/policy/policy.yaml"
	admins     = "key-admins"
)

// file reads a file of the submission.
func (v *visit) file(path, expected string) []byte {
	v.t.Helper()
	content, err := v.Submission.File(v.ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		v.Fail(v.t, expected, "there is no such file")
	}
	v.OK(v.t, "reading "+path, err)
	return content
}

// account creates a user with these rights.
func (v *visit) account(rules []rbacv1.PolicyRule) *existing.Account {
	v.t.Helper()
	account, err := existing.NewAccount(v.ctx, v.Config, rules)
	v.OK(v.t, "making a user", err)
	return account
}

// as returns a client for a user in these groups.
func (v *visit) as(config *rest.Config, groups ...string) *admission.Client {
	v.t.Helper()
	config = rest.CopyConfig(config)
	config.Impersonate.Groups = append(slices.Clone(config.Impersonate.Groups), groups...)
	client, err := admission.NewClient(config)
	v.OK(v.t, "making a client", err)
	return client
}

// named returns a client for a user with this name, in these groups. The user is always in system:masters as well, so
// that RBAC does not refuse its requests.
func (v *visit) named(config *rest.Config, user string, groups ...string) *admission.Client {
	v.t.Helper()
	config = rest.CopyConfig(config)
	config.Impersonate.UserName, config.Impersonate.Groups = user, nil
	return v.as(config, append(groups, "system:masters")...)
}

// user returns a client for a user with these rights.
func (v *visit) user(rules []rbacv1.PolicyRule) *admission.Client {
	v.t.Helper()
	return v.as(v.account(rules).Config)
}

// nothing is a right that does not concern AuthorizedKeys.
var nothing = []rbacv1.PolicyRule{{
	APIGroups: []string{"example.com"},
	Resources: []string{"things"},
	Verbs:     []string{"get"},
}}

// everything is the right that an administrator's wildcard grants.
var everything = []rbacv1.PolicyRule{{
	APIGroups: []string{keysResource.Group},
	Resources: []string{"*"},
	Verbs:     []string{"*"},
}}

// ask sends a request as a user, and fails the check unless the answer is as wanted.
func (v *visit) ask(by *admission.Client, what string, want admission.Verdict,
	request admission.Request,
) admission.Answer {
	v.t.Helper()
	answer, err := by.Ask(v.ctx, request)
	v.OK(v.t, what, err)
	if answer.Verdict != want {
		v.Fail(v.t, fmt.Sprintf("%s is %s", what, want), answer.String(), "judged by "+roleFile+" and "+policyFile)
	}
	return answer
}

var dry = []string{metav1.DryRunAll}

func creating(name, text string) admission.Request {
	return func(ctx context.Context, client dynamic.Interface) (*unstructured.Unstructured, error) {
		return client.Resource(keysResource).Create(ctx, object(name, text), metav1.CreateOptions{DryRun: dry})
	}
}

func patching(name, patch string, subresources ...string) admission.Request {
	return func(ctx context.Context, client dynamic.Interface) (*unstructured.Unstructured, error) {
		return client.Resource(keysResource).Patch(ctx, name, apitypes.MergePatchType, []byte(patch),
			metav1.PatchOptions{DryRun: dry}, subresources...)
	}
}

func deleting(name string) admission.Request {
	return func(ctx context.Context, client dynamic.Interface) (*unstructured.Unstructured, error) {
		return nil, client.Resource(keysResource).Delete(ctx, name, metav1.DeleteOptions{DryRun: dry})
	}
}

func editorRole() types.Feature {
	const expected = roleFile + " is a ClusterRole with what an editor of AuthorizedKeys needs: " +
		"create, delete, get, list, patch, update and watch"
	return features.New("the editor's role").
		Assess("lets its users write keys, and nothing else", check.Assess(assess(func(v *visit) {
			var role rbacv1.ClusterRole
			if err := yaml.Unmarshal(v.file(roleFile, expected), &role); err != nil || role.Kind != "ClusterRole" {
				v.Fail(v.t, expected, fmt.Sprintf("it is no ClusterRole (kind %q): %v", role.Kind, err))
			}
			var verbs []string
			for _, rule := range role.Rules {
				keys := slices.Equal(rule.Resources, []string{"authorizedkeys"})
				readStatus := slices.Equal(rule.Resources, []string{"authorizedkeys/status"}) &&
					slices.Equal(rule.Verbs, []string{"get"})
				if !slices.Equal(rule.APIGroups, []string{keysResource.Group}) || !keys && !readStatus ||
					slices.Contains(rule.Verbs, "*") || len(rule.ResourceNames) > 0 {
					v.Fail(v.t, expected+", and nothing else (but get of authorizedkeys/status)",
						fmt.Sprintf("it has the rule %s", strings.Join(strings.Fields(rule.String()), " ")))
				}
				if keys {
					verbs = append(verbs, rule.Verbs...)
				}
			}
			slices.Sort(verbs)
			if want := []string{
				"create", "delete", "get", "list", "patch", "update", "watch",
			}; !slices.Equal(slices.Compact(verbs), want) {
				v.Fail(v.t, expected, "the verbs are "+english.WordSeries(verbs, "and"))
			}
			ada := v.addWritten("ada")
			editor, stranger := v.user(role.Rules), v.user(nothing)
			v.ask(editor, "a key of an editor", admission.Accepted, creating(v.drawName("edsger"), v.drawKey()))
			v.ask(editor, "a change of a key by an editor",
				admission.Accepted, patching(ada, `{"metadata":{"labels":{"shift":"night"}}}`))
			v.ask(editor, "the status that an editor writes",
				admission.Refused, patching(ada, `{"status":{"conditions":[]}}`, "status"))
			v.ask(stranger, "a key of a user without the role",
				admission.Refused, creating(v.drawName("mallory"), v.drawKey()))
			v.ask(stranger, "a deletion by a user without the role", admission.Refused, deleting(ada))
		}))).Feature()
}

func policy() types.Feature {
	var by *admission.Client
	var installed *admission.Policy
	return features.New("the policy").
		Assess("decides who writes keys, and what", check.Assess(assess(func(v *visit) {
			expected := policyFile + " holds a ValidatingAdmissionPolicy and its ValidatingAdmissionPolicyBinding"
			read, err := admission.ReadPolicy(v.file(policyFile, expected))
			if err != nil {
				v.Fail(v.t, expected, fmt.Sprintf("it is no YAML: %v", err))
			}
			for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
				if !read.Has(kind) {
					v.Fail(v.t, expected, "it holds no "+kind)
				}
			}
			if beyond := read.Beyond(keysResource.Group); len(beyond) > 0 {
				v.Fail(v.t, expected+" for the API group "+keysResource.Group+", and nothing else",
					"it holds "+english.WordSeries(beyond, "and"))
			}
			ada, old := v.add("ada"), v.drawName("old")
			v.create(old, "hello")
			v.holds("an AuthorizedKey was created")
			by, err = admission.NewClient(v.Config)
			v.OK(v.t, "making a client", err)
			installed = read
			answer, refused, err := by.Install(v.ctx, read)
			v.OK(v.t, "installing "+policyFile, err)
			if refused != "" {
				v.Fail(v.t, "the API server accepts "+policyFile, fmt.Sprintf("%s: %s", refused, answer))
			}
			account := v.account(everything).Config
			drawn := fmt.Sprintf("%x", v.Seed)
			// The group may be at any position in the list.
			admin, helper := v.as(account, "shift-"+drawn, admins, "helpdesk"), v.as(account, "helpdesk")
			similar := []string{admins + "-" + drawn, drawn + "-" + admins, strings.ToUpper(admins)}
			namesake := v.as(account, similar...)
			named := rest.CopyConfig(account)
			named.Impersonate.UserName = admins
			master := v.as(named, "system:masters")
			key := v.drawKey()
			right := map[string]string{
				"a key as an id_ed25519.pub has it": key + " ada@laptop\n", "a key without a comment": key,
				"a key whose comment has several words": key + " the laptop of ada",
			}
			for _, algorithm := range ordinaryTypes {
				right["a key of the type "+algorithm] = v.drawKeyOf(algorithm)
			}
			for what, text := range right {
				v.ask(admin, what+", of a member of "+admins+",", admission.Accepted, creating(v.drawName("edsger"), text))
			}
			for what, text := range map[string]string{
				"a key with an option":                        `command="/bin/sh" ` + key,
				"a key with restrictions":                     "no-pty " + key,
				"a key with a limit of time":                  `expiry-time="20261224" ` + key,
				"a key of an authority":                       "cert-authority " + key,
				"a key with an option that looks like a type": `command="ssh-ed25519 AAAA" ` + key,
				"an indented key with an option":              "  restrict " + key,
				"what is two keys":                            key + "\n" + v.drawKey(),
				"a key behind a comment line":                 "# mine\n" + key,
				"what is no key":                              "hello",
				"a key before a comment line":                 key + "\n# mine",
				"what is two keys, one with an option":        key + " mine\nno-pty " + v.drawKey() + "\n",
				"an empty text":                               "",
				"a comment":                                   "# " + key,
			} {
				v.ask(admin, what+", of a member of "+admins+",", admission.DeniedByPolicy, creating(v.drawName("mallory"), text))
				v.ask(admin, "a change into "+what,
					admission.DeniedByPolicy, patching(ada, fmt.Sprintf(`{"data":{"key":%q}}`, text)))
			}
			denied := v.ask(helper, "a right key of a user who is not a member of "+admins+", whatever the roles say,",
				admission.DeniedByPolicy, creating(v.drawName("mallory"), key))
			if !strings.Contains(denied.Message, admins) {
				v.Fail(v.t, "who is denied since they are no member of "+admins+" reads so in the message", denied.String())
			}
			v.ask(helper, "a change of a key by a user who is not a member of "+admins,
				admission.DeniedByPolicy, patching(ada, fmt.Sprintf(`{"data":{"key":%q}}`, key)))
			change := patching(ada, fmt.Sprintf(`{"data":{"key":%q}}`, key))
			for user, by := range map[string]*admission.Client{
				"a member of system:masters whose user name, and no group, is " + admins + ",": master,
				"a member of " + english.WordSeries(similar, "and") + ",":                      namesake,
				"a node": v.named(account, "system:node:worker-"+drawn,
					"system:nodes", "system:authenticated"),
				"the account of this controller": v.named(account, v.OperatorUser(),
					"system:serviceaccounts", "system:authenticated"),
				"a controller of the control plane": v.named(account, "system:serviceaccount:kube-system:generic-garbage-collector",
					"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
				"the controller manager": v.named(account, "system:kube-controller-manager", "system:authenticated"),
				"an administrator of the cluster": v.named(account, "kubernetes-admin", "kubeadm:cluster-admins",
					"system:authenticated"),
				"a member of all groups of the control plane": v.as(account, "system:nodes", "system:bootstrappers",
					"system:monitoring", "system:serviceaccounts", "kubeadm:cluster-admins"),
			} {
				v.ask(by, "a right key of "+user, admission.DeniedByPolicy, creating(v.drawName("mallory"), key))
				v.ask(by, "a change of a key by "+user, admission.DeniedByPolicy, change)
			}
			v.ask(admin, "a change of a key by a member of "+admins,
				admission.Accepted, patching(ada, fmt.Sprintf(`{"data":{"key":%q}}`, key)))
			const label = `{"metadata":{"labels":{"shift":"night"}}}`
			v.ask(helper, "a label by a user who is not a member of "+admins+", which leaves the key as it is,",
				admission.Accepted, patching(ada, label))
			for what, name := range map[string]string{
				"an AuthorizedKey": ada,
				"an old AuthorizedKey whose key was never right": old,
			} {
				v.ask(helper, "a new finalizer of "+what,
					admission.Accepted, patching(name, `{"metadata":{"finalizers":["example.com/shift"]}}`))
				v.ask(helper, "a new status of "+what, admission.Accepted, patching(name, `{"status":{"conditions":[]}}`, "status"))
			}
			v.ask(helper, "a right key for the old AuthorizedKey by a user who is not a member of "+admins,
				admission.DeniedByPolicy, patching(old, fmt.Sprintf(`{"data":{"key":%q}}`, key)))
			v.ask(admin, "a right key for the old AuthorizedKey by a member of "+admins,
				admission.Accepted, patching(old, fmt.Sprintf(`{"data":{"key":%q}}`, key)))
			v.ask(helper, "a label of an old AuthorizedKey whose key was never right", admission.Accepted, patching(old, label))
			v.ask(helper, "a deletion, which only roles decide,", admission.Accepted, deleting(ada))
			v.patch(ada, `{"metadata":{"labels":{"policy":"installed"}}}`)
		}))).
		Teardown(check.Teardown(func(ctx context.Context, _ *check.Check) error {
			if installed == nil {
				return nil
			}
			nodeOf(ctx).withdrawn = by.AwaitPolicies
			return by.Uninstall(ctx, installed)
		})).Feature()
}
