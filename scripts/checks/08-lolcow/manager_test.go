// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/grading/audit"
	"lva.io/operators/scripts/grading/protocol"
)

// objectName is the name, or the prefix of the name, of the objects that the checks of the manager create. Their label
// is used to find and remove them.
const objectName = "lolcow-checks"

func objectMeta(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: objectName, Namespace: namespace, Labels: map[string]string{existing.Label: "true"}}
}

// account returns the namespace and the name of the operator's ServiceAccount.
func (v visit) account() rbacv1.Subject {
	v.t.Helper()
	parts := strings.Split(v.OperatorUser(), ":") // system:serviceaccount:NAMESPACE:NAME
	if len(parts) != 4 {
		v.Skip(v.t, "the operator's account is no ServiceAccount")
	}
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: parts[2], Name: parts[3]}
}

// restartAs restarts the operator with more flags.
func (v visit) restartAs(options protocol.Start) {
	v.t.Helper()
	v.OK(v.t, "stopping the operator", v.Operator.Stop(v.ctx))
	err := v.Operator.StartAs(v.ctx, options)
	switch {
	case errors.Is(err, check.ErrNotAdjustable):
		v.Skip(v.t, protocol.NeedsProcess)
	case errors.Is(err, check.ErrNoSuchFlag):
		v.Fail(v.t, "the operator's program has the flags of its task: "+strings.Join(options.Flags, " "), err.Error())
	}
	v.OK(v.t, "starting the operator with "+strings.Join(options.Flags, " "), err)
}

// restartWithDefaults restarts the operator with its usual flags.
func restartWithDefaults(ctx context.Context, c *check.Check) error {
	return errors.Join(c.Operator.Stop(ctx), c.Operator.Start(ctx))
}

// roleOf reads the rules of a role that kubebuilder scaffolds next to the one of the markers.
func (v visit) roleOf(file string) []rbacv1.PolicyRule {
	v.t.Helper()
	content, err := v.Submission.File(v.ctx, file)
	if errors.Is(err, fs.ErrNotExist) {
		v.Fail(v.t, "the submission has "+file, "there is no such file")
	}
	v.OK(v.t, "reading "+file, err)
	var role rbacv1.ClusterRole
	if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096).Decode(&role); err != nil {
		v.Fail(v.t, file+" is a role in YAML", err.Error())
	}
	return role.Rules
}

// grant gives an account a role for the whole cluster.
func (v visit) grant(rules []rbacv1.PolicyRule, to rbacv1.Subject) {
	v.t.Helper()
	name := objectMeta("")
	name.Name += "-" + to.Name
	_, err := v.herd.Client.RbacV1().ClusterRoles().Create(v.ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules},
		metav1.CreateOptions{})
	v.OK(v.t, "making a role", ignoreAlreadyExists(err))
	_, err = v.herd.Client.RbacV1().ClusterRoleBindings().Create(v.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, Subjects: []rbacv1.Subject{to},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
	}, metav1.CreateOptions{})
	v.OK(v.t, "binding a role", ignoreAlreadyExists(err))
}

// withdraw removes all rights that grant gave.
func withdraw(ctx context.Context, h *herd) error {
	ours := metav1.ListOptions{LabelSelector: existing.Label + "=true"}
	bindings, err := h.Client.RbacV1().ClusterRoleBindings().List(ctx, ours)
	if err != nil {
		return fmt.Errorf("asking for bindings: %w", err)
	}
	for _, binding := range bindings.Items {
		if !strings.HasPrefix(binding.Name, objectName+"-") {
			continue
		}
		err = errors.Join(err,
			workload.IgnoreGone(h.Client.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, deleteNow)),
			workload.IgnoreGone(h.Client.RbacV1().ClusterRoles().Delete(ctx, binding.Name, deleteNow)))
	}
	return err
}

func ignoreAlreadyExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// token creates an account, and a token for it.
func (v visit) token(name string) (string, rbacv1.Subject) {
	v.t.Helper()
	accounts := v.herd.Client.CoreV1().ServiceAccounts(stable)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{existing.Label: "true"},
	}}
	_, err := accounts.Create(v.ctx, account, metav1.CreateOptions{})
	v.OK(v.t, "making an account", ignoreAlreadyExists(err))
	answer, err := accounts.CreateToken(v.ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	v.OK(v.t, "making a token", err)
	return answer.Status.Token, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: stable, Name: name}
}

const (
	// leaseSeconds is how long another operator holds the Lease, unless it releases the Lease.
	leaseSeconds = 60
	// leasePatience is how long an operator may take to request its Lease, and to acquire a free one. It tries every 2 to
	// 4.4 s (k8s.io/client-go/tools/leaderelection, JitterFactor), and fills its cache after that.
	leasePatience = 20 * time.Second
)

// leader makes the check act as another replica, which holds the Lease.
func leader() types.Feature {
	return features.New("of two operators one works").
		Assess("while another one holds the Lease, it waits", check.Assess(assess(func(v visit) {
			v.prepare()
			// Their Pods start while the operator waits for its Lease, which takes some seconds.
			v.asSpecified(v.herd.withPods()...)
			account := v.account()
			flags := []string{"--leader-elect", "--leader-election-namespace=" + account.Namespace}
			rules := v.roleOf("config/rbac/leader_election_role.yaml")
			v.grant(rules, account)
			leases := v.herd.Client.CoordinationV1().Leases(account.Namespace)
			began := v.Audit.Now()
			v.restartAs(protocol.Start{Flags: flags})
			asks := func(since audit.Mark) []audit.Event {
				return v.Audit.Since(since, v.ByOperator().And(audit.On("coordination.k8s.io", "leases")))
			}
			name := ""
			v.EventuallyWithin(v.ctx, v.t, "with --leader-elect the operator takes a Lease in its namespace",
				leasePatience, v.Audit.Changed, func() (string, bool) {
					all := asks(began)
					for _, e := range all {
						if audit.Denied(e) {
							return "it is refused: " + e.Message, false
						}
						if audit.Writes(e) && e.Code < http.StatusMultipleChoices {
							name = e.Name
							return "", true
						}
					}
					return fmt.Sprintf("it has sent %d requests about Leases", len(all)), false
				})
			v.StopQuietly(v.ctx, v.t)
			v.hold(leases.Get, leases.Update, name, "another-operator")
			again := v.Audit.Now()
			// An operator for one namespace still has its Lease in its own namespace.
			v.OK(v.t, "starting the operator",
				v.Operator.StartAs(v.ctx, protocol.Start{Flags: append(flags, "--namespace="+paddock), KeepLeases: true}))
			v.EventuallyWithin(v.ctx, v.t, "the operator asks for its Lease, also with --namespace",
				leasePatience, v.Audit.Changed, func() (string, bool) {
					return "it has not", len(asks(again)) > 0
				})
			c := v.create(v.herd.draw(paddock))
			v.Pause(v.ctx, v.t, idle)
			if left, none := v.herd.remainingChildren(c); !none {
				v.Fail(v.t, fmt.Sprintf("while another operator holds the Lease nothing is made for %s", c.Name), left)
			}
			v.hold(leases.Get, leases.Update, name, "")
			v.asSpecifiedWithin(leasePatience, c)
		}))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error {
			return errors.Join(restartWithDefaults(ctx, c), withdraw(ctx, herdOf(ctx)))
		})).Feature()
}

// idle is how long an operator without the Lease is observed.
const idle = time.Second

// hold assigns the Lease to a holder. If holder is empty, the Lease is free.
func (v visit) hold(
	get func(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error),
	update func(context.Context, *coordinationv1.Lease, metav1.UpdateOptions) (*coordinationv1.Lease, error),
	name, holder string,
) {
	v.t.Helper()
	lease, err := get(v.ctx, name, metav1.GetOptions{})
	v.OK(v.t, "reading the Lease", err)
	now := metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, new(int32(leaseSeconds))
	lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
	_, err = update(v.ctx, lease, metav1.UpdateOptions{})
	v.OK(v.t, "holding the Lease", err)
}
