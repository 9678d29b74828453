// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package grade

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd/api"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/faults"
	"lva.io/operators/scripts/grading/limited"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/stage"
)

const (
	// rescuer is the ServiceAccount that the scripts of a submission use at the API server.
	rescuer, rescuerNamespace = "rescuer", "operator-system"
	rescuerUser               = "system:serviceaccount:" + rescuerNamespace + ":" + rescuer
	// tokenSeconds is the lifetime of its token: longer than a run takes.
	tokenSeconds = 60 * 60
	// scriptTimeout is the time for a script that sends some requests, or that waits until cert-manager checks a
	// challenge again, on a quiet machine. A busy machine extends it by the processor time that it withholds.
	scriptTimeout = 45 * time.Second
	outputLimit   = 64 << 10 // bytes of a script's output that are kept
)

// rescuerRules are the permissions of an administrator who frees a custom resource of these API groups by hand: to
// read and change it and to read Leases, which name its controller, but not to delete its kind or to touch other
// objects.
func rescuerRules(groups []string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{
			APIGroups: groups, Resources: []string{rbacv1.ResourceAll},
			Verbs: []string{"get", "list", "watch", "update", "patch", "delete"},
		},
		{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			Verbs: []string{"get", "list"},
		},
	}
}

// watcherRules are the permissions of scripts in a lab whose checks deploy the submission: to read kinds of these API
// groups and the workloads, and to change nothing. They can't read Secrets.
func watcherRules(groups []string) []rbacv1.PolicyRule {
	look := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		{APIGroups: groups, Resources: []string{rbacv1.ResourceAll}, Verbs: look},
		{APIGroups: []string{""}, Resources: []string{"pods", "services", "events"}, Verbs: look},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses"}, Verbs: look},
	}
}

// scripts runs shell scripts of the submission, also several at a time.
type scripts struct {
	*subject
	machine *machine
	kubectl string
	proxy   *faults.Injector // a proxy to the API server, if requests have to be recorded
	timeout time.Duration    // of one script. Default: scriptTimeout

	preparing sync.Mutex
	port      int // of the API server
}

// limit is how long one script may take.
func (s *scripts) limit() time.Duration { return cmp.Or(s.timeout, scriptTimeout) }

// close closes what the scripts used.
func (s *scripts) close() {
	if s.proxy != nil {
		_ = s.proxy.Close()
	}
}

// run runs a shell script of the submission in a folder of its own, with kubectl and the rescuer's access.
func (s *scripts) run(ctx context.Context, path string, args []string) (*protocol.Output, error) {
	content, err := s.builder.ReadFile(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.builder.Scope.Dir, "script")
	if err := s.prepare(ctx, dir); err != nil {
		return nil, err
	}
	own, err := os.MkdirTemp(dir, "run-")
	if err != nil {
		return nil, fmt.Errorf("creating a folder for %s: %w", path, err)
	}
	file := filepath.Join(own, "script.sh")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return nil, fmt.Errorf("copying %s: %w", path, err)
	}
	output := limited.NewOutput(outputLimit)
	p, err := s.builder.Scope.Start(process.Spec{
		Name: path, Path: "/bin/sh", Args: append([]string{file}, args...), Dir: own,
		Stdout: output, Stderr: output, Contained: true,
		Walls: s.builder.Walls([]string{dir, s.kubectl}, []int{s.port}),
		Env: []string{
			"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + own, "TMPDIR=" + own,
			"KUBECONFIG=" + filepath.Join(dir, "kubeconfig"), "KUBECACHEDIR=" + os.DevNull,
		},
	})
	if err != nil {
		return nil, err
	}
	err = s.wait(ctx, p)
	result := &protocol.Output{Text: output.String()}
	_, endless := errors.AsType[endlessError](err)
	switch exit, failed := errors.AsType[process.ExitError](err); {
	case endless:
		result.Exit, result.Problem = -1, err.Error()
	case ctx.Err() != nil:
		result.Exit, result.Problem = -1, "the script did not end, and was killed when its check timed out"
	case failed:
		result.Exit = exit.ExitCode()
	case err != nil:
		return nil, err
	}
	windows, lines := bytes.Count(content, []byte("\r\n")), bytes.Count(content, []byte("\n"))
	if windows > 0 && (windows == lines || result.Exit > 0) {
		result.Problem = fmt.Sprintf("the script has Windows line endings (CRLF), and sh treats the CR as part of "+
			"each line: save it with LF, as `sed -i 's/\\r$//' %s` does", path)
	}
	return result, nil
}

// endlessError is the error of a script that was killed after this time.
type endlessError time.Duration

func (e endlessError) Error() string {
	return fmt.Sprintf("the script did not end, and was killed after %s", time.Duration(e).Round(time.Second))
}

// wait waits until a script has ended, or kills it when its time is over.
func (s *scripts) wait(ctx context.Context, p *process.Process) error {
	began, elapsed := time.Now(), s.machine.stopwatch()
	waiting, end := context.WithCancel(ctx)
	defer end()
	select {
	case <-p.Done():
		return p.Err()
	case <-s.machine.after(waiting, s.limit()):
		p.Kill()
		return endlessError(time.Since(began))
	case <-ctx.Done():
		// On a quiet machine, the script may have to end with its check, too.
		if elapsed() < min(s.limit(), time.Since(began)/2) {
			s.machine.cutShort()
		}
		p.Kill()
		return context.Cause(ctx)
	}
}

// prepare creates the folder in which scripts run, with kubectl and the rescuer's kubeconfig.
func (s *scripts) prepare(ctx context.Context, dir string) error {
	s.preparing.Lock()
	defer s.preparing.Unlock()
	if err := os.Mkdir(dir, 0o700); errors.Is(err, os.ErrExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("creating a folder for scripts: %w", err)
	}
	token, err := s.makeRescuer(ctx)
	if err != nil {
		return fmt.Errorf("creating the rescuer's account: %w", err)
	}
	host, ca := s.cluster.Config.Host, s.cluster.Config.CAData
	if recorder := s.cluster.Recorder; recorder != nil {
		s.proxy = faults.New(nil)
		s.proxy.API = func(next http.RoundTripper) http.RoundTripper {
			return recorder.Transport(rescuerUser, s.groups, next)
		}
		if host, ca, err = s.proxy.ProxyAPI(s.cluster.Config); err != nil {
			return err
		}
	}
	ports, err := stage.Gateway{Host: host}.Ports()
	if err != nil {
		return err
	}
	s.port = ports[0]
	kubeconfig, err := embedded.Kubeconfig(host, ca, api.AuthInfo{Token: token})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), kubeconfig, 0o600); err != nil {
		return fmt.Errorf("writing the rescuer's kubeconfig: %w", err)
	}
	if err := os.Symlink(s.kubectl, filepath.Join(dir, "kubectl")); err != nil {
		return fmt.Errorf("linking kubectl: %w", err)
	}
	return nil
}

// makeRescuer creates a separate account for scripts, and a token for it. An administrator's certificate that
// impersonates the rescuer would let the scripts impersonate any user.
func (s *scripts) makeRescuer(ctx context.Context) (token string, err error) {
	client, err := kubernetes.NewForConfig(s.cluster.Config)
	if err != nil {
		return "", err
	}
	name := metav1.ObjectMeta{Name: rescuer, Labels: map[string]string{existing.Label: "true"}}
	accounts := client.CoreV1().ServiceAccounts(rescuerNamespace)
	rules := rescuerRules(s.groups)
	if s.delivery != nil {
		rules = watcherRules(s.groups)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: rescuer},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: rescuerNamespace, Name: rescuer}},
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: rescuerNamespace, Labels: name.Labels}}
	for _, create := range []func() error{
		func() error {
			_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: name}, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
			return err
		},
	} {
		if err := create(); err != nil && !apierrors.IsAlreadyExists(err) {
			return "", err
		}
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))},
	}
	answer, err := accounts.CreateToken(ctx, rescuer, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return answer.Status.Token, nil
}
