// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pod

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/submission"
)

// allowedKinds lists the kinds of Kubernetes itself that config/default may contain, by group. Other kinds of these
// groups can bypass the operator's roles, as PersistentVolumes do for the node and CertificateSigningRequests for the
// API server, or are not needed. Kinds of all other groups are allowed.
var allowedKinds = map[string][]string{
	"": {
		"ConfigMap", "LimitRange", "Namespace", "PersistentVolumeClaim",
		"Pod", "ResourceQuota", "Secret", "Service", "ServiceAccount",
	},
	"admissionregistration.k8s.io": {
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
	},
	"apiextensions.k8s.io":       {submission.DefinitionKind},
	submission.APIServices.Group: {"APIService"},
	"apps":                       {"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"},
	"autoscaling":                {"HorizontalPodAutoscaler"},
	"batch":                      {"CronJob", "Job"},
	"coordination.k8s.io":        {"Lease"},
	"networking.k8s.io":          {"Ingress", "IngressClass", "NetworkPolicy"},
	"policy":                     {"PodDisruptionBudget"},
	rbacv1.GroupName:             {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"},
	"scheduling.k8s.io":          {"PriorityClass"},
}

// clusterNamespaces holds the namespaces of clusters and their add-ons, besides those that begin with kube-. They
// contain accounts with many rights.
var clusterNamespaces = sets.New("cert-manager", "cilium-secrets", "local-path-storage")

// reviews holds the rights for protected metrics, as kubebuilder's config/rbac grants them.
var reviews = []rbacv1.PolicyRule{
	{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
	{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
}

// leaderElection holds the rights for --leader-elect in the operator's own namespace, as the scaffolds of all years
// grant them.
var leaderElection = []rbacv1.PolicyRule{
	{
		APIGroups: []string{"", "coordination.k8s.io"}, Resources: []string{"configmaps", "leases"},
		Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
	},
	{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
}

// confinement checks the objects of a submission's config/default.
type confinement struct {
	objects []*unstructured.Unstructured
	// gated is true if the operator reaches the API server through a gateway, and must have no other access to it.
	gated     bool
	manifests *submission.Manifests
	// namespaces holds the namespaces in config/default, and default. home holds those in which its Pods run. accounts
	// holds the ServiceAccounts of its Pods, as namespace/name.
	namespaces, home, accounts sets.Set[string]
}

// confine returns a *submission.Problem if an object in config/default grants the operator more than the submission's
// markers, or grants anything to anyone else. Besides the rights of its markers, an operator may elect a leader in its
// own namespace and create reviews of tokens and access, as in kubebuilder's scaffolds. An aggregated API server may
// also read the front proxy's authority.
func confine(objects []*unstructured.Unstructured, manifests *submission.Manifests, gated bool) error {
	c := &confinement{
		objects: objects, gated: gated, manifests: manifests,
		namespaces: sets.New(metav1.NamespaceDefault), home: sets.New[string](), accounts: sets.New[string](),
	}
	for _, object := range objects {
		if object.GetKind() == "Namespace" {
			c.namespaces.Insert(object.GetName())
		}
		if template, err := templateOf(object); err != nil {
			return err
		} else if template != nil {
			account, namespace := accountOf(&template.Spec), cmp.Or(object.GetNamespace(), metav1.NamespaceDefault)
			if account != "default" && !c.contains("ServiceAccount", namespace, account) {
				return &submission.Problem{Reason: fmt.Sprintf("config/default contains no ServiceAccount %s, which its %s "+
					"references", account, submission.NameOf(object))}
			}
			c.home.Insert(namespace)
			c.accounts.Insert(namespace + "/" + account)
		}
	}
	for _, object := range objects {
		if err := c.object(object); err != nil {
			return err
		}
	}
	return nil
}

// contains reports whether config/default has an object of a kind in a namespace.
func (c *confinement) contains(kind, namespace, name string) bool {
	return slices.ContainsFunc(c.objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == kind && o.GetName() == name && cmp.Or(o.GetNamespace(), metav1.NamespaceDefault) == namespace
	})
}

// exceeds returns a *submission.Problem about an object of config/default.
func exceeds(object *unstructured.Unstructured, format string, args ...any) error {
	return &submission.Problem{
		Reason: "config/default contains the " + submission.NameOf(object) + ", " + fmt.Sprintf(format, args...),
	}
}

func (c *confinement) object(object *unstructured.Unstructured) error {
	group, kind := object.GroupVersionKind().Group, object.GetKind()
	kinds, listed := allowedKinds[group]
	if (listed || scheme.Scheme.IsGroupRegistered(group)) && !slices.Contains(kinds, kind) {
		return exceeds(object, "a kind that can bypass the operator's RBAC markers, and that config/default must not "+
			"contain: remove it")
	}
	if err := c.checkNamespace(object); err != nil {
		return err
	}
	template, err := templateOf(object)
	switch {
	case err != nil:
		return err
	case template != nil:
		return c.pod(object, template)
	case kind == "Secret":
		return c.secret(object)
	case group == rbacv1.GroupName && strings.HasSuffix(kind, "Binding"):
		return c.binding(object)
	case group == rbacv1.GroupName:
		if name := object.GetName(); strings.HasPrefix(name, "system:") ||
			name == frontProxyReader && object.GetNamespace() == metav1.NamespaceSystem ||
			slices.Contains([]string{"admin", "cluster-admin", "edit", "view"}, name) {
			return exceeds(object, "which is one of Kubernetes' own: choose another name for your role, for example with "+
				"kustomize's namePrefix")
		}
	case strings.HasPrefix(kind, "Mutating"):
		return c.mutating(object)
	}
	return nil
}

// checkNamespace returns an error for an object in a namespace that config/default does not contain.
func (c *confinement) checkNamespace(object *unstructured.Unstructured) error {
	namespace := object.GetNamespace()
	if object.GetKind() == "Namespace" {
		namespace = object.GetName()
	}
	if strings.HasPrefix(namespace, "kube-") || clusterNamespaces.Has(namespace) {
		if delegates(object) || c.marked(object) {
			return nil
		}
		return exceeds(object, "and the namespace %s belongs to the cluster: set your own with `namespace:` in "+
			"config/default/kustomization.yaml", namespace)
	}
	if namespace == "" || c.namespaces.Has(namespace) || c.marked(object) {
		return nil
	}
	return exceeds(object, "but not its namespace %s: add the Namespace, or use the operator's", namespace)
}

// marked reports whether an object is a role, or binds one, in a namespace for which the markers have rights.
func (c *confinement) marked(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().Group == rbacv1.GroupName &&
		slices.ContainsFunc(c.manifests.Roles, func(r rbacv1.Role) bool { return r.Namespace == object.GetNamespace() })
}

// secret returns an error for a Secret that is a credential for the API server.
func (c *confinement) secret(object *unstructured.Unstructured) error {
	kind, _, _ := unstructured.NestedString(object.Object, "type")
	switch corev1.SecretType(kind) {
	case corev1.SecretTypeServiceAccountToken, "bootstrap.kubernetes.io/token":
		return exceeds(object, "of the type %s, with which it can reach the API server under an account that the grader "+
			"does not see: remove it; your operator finds "+
			"its token where every Pod does", kind)
	}
	return nil
}

// powerful lists the resources whose objects give access, by group. Nil means all resources of the group. A changed
// role or binding grants rights, a changed Pod can have a volume with a token of its own, and a changed Secret can
// become a token. A provisioner's PersistentVolume, changed into hostPath: /, gives a Pod the node's files through a
// claim that is allowed, and a StorageClass determines where the provisioner creates the volume. A kubelet's
// CertificateSigningRequest is approved even if its key was replaced. A changed claim gives no more access than a claim
// in config/default.
var powerful = map[string][]string{
	rbacv1.GroupName: nil, "apps": nil, "batch": nil, "certificates.k8s.io": nil, "storage.k8s.io": nil,
	"": {"persistentvolumes", "pods", "podtemplates", "replicationcontrollers", "secrets", "serviceaccounts"},
}

// mutating returns an error for a webhook or policy that mutates objects that give access. It could add rights to the
// roles of others, and could add to the operator's Pods what confine would refuse there.
func (c *confinement) mutating(object *unstructured.Unstructured) error {
	rules, _, _ := unstructured.NestedSlice(object.Object, "spec", "matchConstraints", "resourceRules")
	for _, webhook := range submission.WebhooksOf(object) {
		more, _ := webhook["rules"].([]any)
		rules = append(rules, more...)
	}
	for _, rule := range rules {
		rule, _ := rule.(map[string]any)
		groups, _, _ := unstructured.NestedStringSlice(rule, "apiGroups")
		resources, _, _ := unstructured.NestedStringSlice(rule, "resources")
		if len(resources) == 0 {
			resources = []string{"*"} // the API server refuses it
		}
		for _, group := range groups {
			for _, resource := range resources {
				if givesAccess(group, resource) {
					return exceeds(object, "which mutates objects of the API group %q (%s), and so can change rights, "+
						"or the access of Pods to their nodes: restrict its rules to the groups and resources of your own kinds",
						group, resource)
				}
			}
		}
	}
	return nil
}

// givesAccess reports whether a rule's group and resource, which may be wildcards, match a powerful resource.
func givesAccess(group, resource string) bool {
	resources, found := powerful[group]
	name, _, _ := strings.Cut(resource, "/")
	return group == "*" || found && (resources == nil || name == "*" || slices.Contains(resources, name))
}

// frontProxyReader is the Role in kube-system that allows an aggregated API server to read the front proxy's authority.
const frontProxyReader = "extension-apiserver-authentication-reader"

// delegates reports whether an object binds a role of Kubernetes with which an aggregated API server, or an operator
// that protects its metrics, authenticates its clients.
func delegates(object *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(object.Object, "roleRef", "kind")
	name, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
	switch {
	case object.GetKind() == "RoleBinding" && kind == "Role":
		return object.GetNamespace() == metav1.NamespaceSystem && name == frontProxyReader
	case object.GetKind() == "ClusterRoleBinding":
		return name == "system:auth-delegator"
	}
	return false
}

// binding returns an error for a binding that grants the operator more than its markers, or grants anything to anyone
// else.
func (c *confinement) binding(object *unstructured.Unstructured) error {
	var binding rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding); err != nil {
		return exceeds(object, "which can't be read: %v", err)
	}
	namespace := cmp.Or(binding.Namespace, metav1.NamespaceDefault)
	for _, subject := range binding.Subjects {
		if subject.Kind != rbacv1.ServiceAccountKind ||
			!c.accounts.Has(cmp.Or(subject.Namespace, namespace)+"/"+subject.Name) {
			return exceeds(object, "which grants rights to the %s %s: only the ServiceAccount of the operator's Pods may be "+
				"bound, so remove that subject from config/rbac",
				subject.Kind, strings.TrimPrefix(subject.Namespace+"/"+subject.Name, "/"))
		}
	}
	if delegates(object) {
		return nil
	}
	role, err := c.role(object, &binding)
	if err != nil {
		return err
	}
	if object.GetKind() == "ClusterRoleBinding" {
		namespace = ""
	}
	if covered, more := validation.Covers(c.granted(namespace), role.Rules); !covered {
		return exceeds(object, "whose %s %s lets the operator %s, which none of its markers allows: write %s, or "+
			"remove the rule from config/rbac",
			binding.RoleRef.Kind, binding.RoleRef.Name, describeRule(more[0]), markerOf(more[0]))
	}
	return nil
}

// role returns the role that is bound. Patches may create several roles of one name, of which the last one is kept. The
// result has the rules of all of them.
func (c *confinement) role(
	object *unstructured.Unstructured, binding *rbacv1.RoleBinding,
) (*rbacv1.ClusterRole, error) {
	ref := binding.RoleRef
	var found *rbacv1.ClusterRole // a Role has a part of its fields
	for _, other := range c.objects {
		if other.GroupVersionKind().Group != rbacv1.GroupName || other.GetKind() != ref.Kind || other.GetName() != ref.Name ||
			ref.Kind == "Role" &&
				cmp.Or(other.GetNamespace(), metav1.NamespaceDefault) != cmp.Or(binding.Namespace, metav1.NamespaceDefault) {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(other.Object, &role); err != nil {
			return nil, exceeds(other, "which can't be read: %v", err)
		}
		if role.AggregationRule != nil {
			return nil, exceeds(object, "whose ClusterRole %s aggregates the rules of other roles: write the "+
				"rights as markers instead", ref.Name)
		}
		if found != nil {
			role.Rules = slices.Concat(found.Rules, role.Rules)
		}
		found = &role
	}
	if found == nil {
		return nil, exceeds(object, "which binds the operator to the %s %s, whatever its markers say: bind only roles that "+
			"config/default contains, and write the rights as markers",
			ref.Kind, ref.Name)
	}
	return found, nil
}

// granted returns the rights that the operator may have in a namespace, or in the whole cluster if the namespace is
// empty.
func (c *confinement) granted(namespace string) (rules []rbacv1.PolicyRule) {
	rules = slices.Clone(reviews)
	for _, role := range c.manifests.ClusterRoles {
		rules = append(rules, role.Rules...)
	}
	if namespace == "" {
		return rules
	}
	home := c.home.Has(namespace)
	if home {
		rules = append(rules, leaderElection...)
	}
	for _, role := range c.manifests.Roles {
		// With `namespace:`, kustomize moves all Roles to the operator's own namespace.
		if home || role.Namespace == namespace {
			rules = append(rules, role.Rules...)
		}
	}
	return rules
}

// describeRule describes what a rule allows that was broken down to a single right.
func describeRule(rule rbacv1.PolicyRule) string {
	words := strings.Join(slices.Concat(rule.Verbs, rule.NonResourceURLs, rule.Resources, rule.ResourceNames), " ")
	if group := strings.Join(rule.APIGroups, ""); group != "" {
		words += " of " + group
	}
	return words
}

// markerOf returns the marker that allows the same as a rule that was broken down to a single right.
func markerOf(rule rbacv1.PolicyRule) string {
	if len(rule.NonResourceURLs) > 0 {
		return audit.Forbidden{Verbs: rule.Verbs, URL: rule.NonResourceURLs[0]}.Marker()
	}
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	return audit.Forbidden{
		Verbs:       rule.Verbs,
		Group:       rule.APIGroups[0],
		Resource:    resource,
		Subresource: subresource,
	}.Marker()
}

// templates maps kinds to the path of the template of their Pods.
var templates = map[string][]string{
	"Pod":         {},
	"CronJob":     {"spec", "jobTemplate", "spec", "template"},
	"Job":         {"spec", "template"},
	"Deployment":  {"spec", "template"},
	"DaemonSet":   {"spec", "template"},
	"ReplicaSet":  {"spec", "template"},
	"StatefulSet": {"spec", "template"},
}

// templateOf returns the template of an object's Pods, or nil if it has none.
func templateOf(object *unstructured.Unstructured) (*corev1.PodTemplateSpec, error) {
	path, has := templates[object.GetKind()]
	if !has || !scheme.Scheme.IsGroupRegistered(object.GroupVersionKind().Group) {
		return nil, nil //nolint:nilnil // as the comment says
	}
	content, _, err := unstructured.NestedMap(object.Object, path...)
	template := &corev1.PodTemplateSpec{}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, template)
	}
	if err != nil {
		return nil, &submission.Problem{Reason: fmt.Sprintf("the %s can't be read: %v", submission.NameOf(object), err)}
	}
	return template, nil
}

// accountOf returns the name of a Pod's ServiceAccount.
func accountOf(pod *corev1.PodSpec) string {
	return cmp.Or(pod.ServiceAccountName, pod.DeprecatedServiceAccount, "default")
}

// pod returns an error for a Pod that could escape its container, or bypass the gateway.
func (c *confinement) pod(object *unstructured.Unstructured, template *corev1.PodTemplateSpec) error {
	pod := &template.Spec
	standards, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	baseline := api.LevelVersion{Level: api.LevelBaseline, Version: api.LatestVersion()}
	if judged := policy.AggregateCheckResults(
		standards.EvaluatePod(baseline, &template.ObjectMeta, pod),
	); !judged.Allowed {
		return exceeds(object, "whose Pods could escape their containers, which the Pod Security Standard \"baseline\" "+
			"forbids (%s): remove that from config/manager",
			judged.ForbiddenDetail())
	}
	for _, volume := range pod.Volumes {
		if err := c.volume(object, volume); err != nil {
			return err
		}
	}
	if c.gated && object.GetKind() != "Deployment" &&
		(pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken) {
		return exceeds(object, "whose Pods could reach the API server without the grader's proxy: "+
			"only the operator's Deployment gets a token, "+
			"so set automountServiceAccountToken: false in its Pods, or remove it")
	}
	return nil
}

// volume returns an error for a volume that gives a Pod another credential than the grader's, or files from outside the
// cluster.
func (c *confinement) volume(object *unstructured.Unstructured, volume corev1.Volume) error {
	if volume.Projected != nil {
		for _, source := range volume.Projected.Sources {
			if source.PodCertificate != nil || source.ServiceAccountToken != nil && c.gated {
				return exceeds(object, "whose volume %s projects a credential of its own, with which it can reach the API server "+
					"without the grader's proxy: remove it; your operator "+
					"finds its token where every Pod does, in %s", volume.Name, accountFolder)
			}
		}
		return nil
	}
	if volume.ConfigMap == nil && volume.Secret == nil && volume.EmptyDir == nil && volume.DownwardAPI == nil &&
		volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil && volume.VolumeSource != (corev1.VolumeSource{}) {
		return exceeds(object, "whose volume %s comes from outside the cluster: use an emptyDir, a "+
			"PersistentVolumeClaim, a ConfigMap or a Secret", volume.Name)
	}
	return nil
}
