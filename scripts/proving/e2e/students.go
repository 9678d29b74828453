// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"lva.io/operators/clusters/images"
)

// These are the two students of the roster. The first one does the work, and tries forbidden requests.
const (
	worker, other = "ada", "bob"
	workerSpace   = "student-" + worker
	otherSpace    = "student-" + other
)

func (r *runner) roster() (string, error) {
	file := filepath.Join(r.scope.Dir, "roster.csv")
	return file, os.WriteFile(file, []byte("name,email\n"+worker+",ada@example.org\n"+other+"\n"), 0o600)
}

func (r *runner) kubeconfigs() string { return filepath.Join(r.scope.Dir, "class") }

func (r *runner) invite(ctx context.Context) error {
	roster, err := r.roster()
	if err != nil {
		return err
	}
	wrong := filepath.Join(r.scope.Dir, "wrong.csv")
	if err := os.WriteFile(wrong, []byte("ada\nBob!\n"), 0o600); err != nil {
		return err
	}
	if err := r.cluster(ctx, "invite", wrong, "--out", r.kubeconfigs()); err == nil || ctx.Err() != nil {
		return errors.Join(errors.New("a wrong roster was accepted"), err)
	}
	for range 2 { // the second run changes nothing
		if err := r.cluster(ctx, "invite", roster, "--out", r.kubeconfigs(), "--days", "1"); err != nil {
			return err
		}
	}
	return nil
}

// student is a client with only a student's kubeconfig.
type student struct {
	*kubernetes.Clientset
	dynamic dynamic.Interface
}

func (r *runner) student(name string) (*student, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(r.kubeconfigs(), name+".kubeconfig"))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", name, err)
	}
	// A beginner's Pods have no security context, and the API server warns of each.
	config.WarningHandler = rest.NoWarnings{}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(config)
	return &student{Clientset: typed, dynamic: untyped}, err
}

// probeImage returns the reference of the course's own image, which is loaded into every cluster.
func probeImage() (string, error) {
	catalogue, err := images.Load()
	if err != nil {
		return "", err
	}
	for _, image := range catalogue.Set("course") {
		if strings.Contains(image.Reference, "/probe:") {
			return image.Reference, nil
		}
	}
	return "", errors.New("the catalogue has no probe in its set course")
}

func probe(name, image string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "probe", Image: image, Args: args, ImagePullPolicy: corev1.PullIfNotPresent}},
		},
	}
}

// ended runs a Pod to its end and returns whether it succeeded and what it printed.
func (s *student) ended(
	ctx context.Context, namespace string, pod *corev1.Pod,
) (succeeded bool, log string, err error) {
	pods := s.CoreV1().Pods(namespace)
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return false, "", err
	}
	err = poll(ctx, time.Minute, func(ctx context.Context) error {
		have, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		succeeded = have.Status.Phase == corev1.PodSucceeded
		if !succeeded && have.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("the Pod %s is %s", pod.Name, have.Status.Phase)
		}
		return nil
	})
	if err != nil {
		return false, "", err
	}
	content, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil {
		return false, "", err
	}
	return succeeded, string(content), pods.Delete(ctx, pod.Name, metav1.DeleteOptions{})
}

// tryAllowed does a student's work: a server, its Service and NodePort, its log, a name that resolves, and access to
// the API server. It also tests the network policies, which keep the other student out.
func (r *runner) tryAllowed(ctx context.Context) error {
	ada, err := r.student(worker)
	if err != nil {
		return err
	}
	bob, err := r.student(other)
	if err != nil {
		return err
	}
	image, err := probeImage()
	if err != nil {
		return err
	}
	if _, err := ada.CoreV1().Pods(workerSpace).
		Create(ctx, probe("web", image, "serve"), metav1.CreateOptions{}); err != nil {
		return err
	}
	service, err := ada.CoreV1().Services(workerSpace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Port: 8080}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	err = poll(ctx, time.Minute, func(ctx context.Context) error {
		web, err := ada.CoreV1().Pods(workerSpace).Get(ctx, "web", metav1.GetOptions{})
		if err == nil && web.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("the Pod web is %s", web.Status.Phase)
		}
		return err
	})
	if err != nil {
		return err
	}
	const url = "http://web." + workerSpace + ".svc.cluster.local:8080"
	if ok, log, err := ada.ended(ctx, workerSpace, probe("own", image, "get", "-n", "3", url)); err != nil || !ok {
		return errors.Join(fmt.Errorf("a Pod does not reach one of the same student: %s", log), err)
	}
	r.println("a Pod reaches a Service of the same student, by its name")
	if ok, log, err := bob.ended(ctx, otherSpace, probe("other", image, "get", "-t", "3s", url)); err != nil || ok {
		return errors.Join(fmt.Errorf("the other student's Pod was not blocked: %s", log), err)
	}
	r.println("a Pod of the other student does not reach it")
	// The request uses plain HTTP, which the API server answers with 400. This answer is enough to show that the network
	// path works.
	if _, log, err := ada.ended(ctx, workerSpace,
		probe("api", image, "get", "http://kubernetes.default.svc:443")); err != nil || !strings.Contains(log, "400") {
		return errors.Join(fmt.Errorf("a Pod does not reach the API server: %s", log), err)
	}
	r.println("a Pod reaches the API server")
	return r.nodePort(ctx, service.Spec.Ports[0].NodePort)
}

// nodePort sends a request to each node, as a browser on this machine would.
func (r *runner) nodePort(ctx context.Context, port int32) error {
	config, err := r.admin()
	if err != nil {
		return err
	}
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	nodes, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	browser := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, node := range nodes.Items {
		for _, address := range node.Status.Addresses {
			if address.Type != corev1.NodeInternalIP || strings.Contains(address.Address, ":") {
				continue
			}
			err := poll(ctx, 30*time.Second, func(ctx context.Context) error {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet,
					fmt.Sprintf("http://%s:%d", address.Address, port), nil)
				if err != nil {
					return err
				}
				answer, err := browser.Do(request)
				if err != nil {
					return err
				}
				defer answer.Body.Close()
				_, err = io.Copy(io.Discard, answer.Body)
				return err
			})
			if err != nil {
				return fmt.Errorf("the NodePort does not answer at the node %s: %w", node.Name, err)
			}
		}
	}
	r.println("its NodePort answers at each node")
	return nil
}

func (r *runner) println(what string) { fmt.Fprintf(r.Out, "%s\n", what) }

func object(version, kind, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name},
	}}
}

// tryForbidden tries requests that must be refused. The whole list is in the tests of package class. This function has
// the most dangerous ones and those that depend on the kind of cluster.
func (r *runner) tryForbidden(ctx context.Context) error {
	ada, err := r.student(worker)
	if err != nil {
		return err
	}
	image, err := probeImage()
	if err != nil {
		return err
	}
	create, list := metav1.CreateOptions{}, metav1.ListOptions{}
	resource := func(group, resource string) dynamic.NamespaceableResourceInterface {
		return ada.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource})
	}
	host := probe("host", image)
	host.Spec.HostNetwork = true
	privileged := probe("privileged", image)
	privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	attempts := []struct {
		what string
		do   func() error
	}{
		{"read another's Secrets", func() error { _, err := ada.CoreV1().Secrets(otherSpace).List(ctx, list); return err }},
		{"run a Pod in another's namespace", func() error {
			_, err := ada.CoreV1().Pods(otherSpace).Create(ctx, probe("x", image), create)
			return err
		}},
		{"read the system's Secrets", func() error {
			_, err := ada.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, list)
			return err
		}},
		{"list all namespaces", func() error {
			_, err := ada.CoreV1().Namespaces().List(ctx, list)
			return err
		}},
		{"create a namespace", func() error {
			_, err := resource("", "namespaces").Create(ctx, object("v1", "Namespace", "x"), create)
			return err
		}},
		{"run a privileged Pod", func() error {
			_, err := ada.CoreV1().Pods(workerSpace).Create(ctx, privileged, create)
			return err
		}},
		{"use the host's network", func() error {
			_, err := ada.CoreV1().Pods(workerSpace).Create(ctx, host, create)
			return err
		}},
		{"delete the network policy", func() error {
			return ada.NetworkingV1().NetworkPolicies(workerSpace).DeleteCollection(ctx, metav1.DeleteOptions{}, list)
		}},
		{"delete Cilium's policy", func() error {
			return ada.dynamic.Resource(schema.GroupVersionResource{
				Group: "cilium.io", Version: "v2", Resource: "ciliumnetworkpolicies",
			}).Namespace(workerSpace).Delete(ctx, "student", metav1.DeleteOptions{})
		}},
		{"raise the quota", func() error {
			return ada.CoreV1().ResourceQuotas(workerSpace).DeleteCollection(ctx, metav1.DeleteOptions{}, list)
		}},
		{"install a kind", func() error {
			_, err := resource("apiextensions.k8s.io", "customresourcedefinitions").Create(ctx,
				object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "x.example.org"), create)
			return err
		}},
		{"register a webhook", func() error {
			_, err := resource("admissionregistration.k8s.io", "mutatingwebhookconfigurations").Create(ctx,
				object("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "x"), create)
			return err
		}},
		{"extend their own access", func() error {
			_, err := ada.CoreV1().ServiceAccounts("operator-labs-class").
				CreateToken(ctx, worker, &authenticationv1.TokenRequest{}, create)
			return err
		}},
		{"become an administrator", func() error {
			_, err := ada.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "x"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			}, create)
			return err
		}},
	}
	var problems []error
	for _, attempt := range attempts {
		if err := attempt.do(); !apierrors.IsForbidden(err) {
			problems = append(problems, notRefused("to "+attempt.what, err))
			continue
		}
		r.println("refused: " + attempt.what)
	}
	return errors.Join(problems...)
}

func notRefused(what string, err error) error {
	if err == nil {
		return fmt.Errorf("%s was allowed", what)
	}
	return fmt.Errorf("%s was not refused, but failed: %w", what, err)
}

func (r *runner) revoke(ctx context.Context) error {
	ada, err := r.student(worker)
	if err != nil {
		return err
	}
	roster, err := r.roster()
	if err != nil {
		return err
	}
	if err := r.cluster(ctx, "revoke", roster, "--out", r.kubeconfigs()); err != nil {
		return err
	}
	// The API server caches a token's authentication for ten seconds.
	err = poll(ctx, time.Minute, func(ctx context.Context) error {
		if _, err := ada.CoreV1().Pods(workerSpace).List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			return notRefused("the revoked kubeconfig", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	config, err := r.admin()
	if err != nil {
		return err
	}
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, namespace := range []string{workerSpace, otherSpace, "operator-labs-class"} {
		if _, err := admin.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(fmt.Errorf("the namespace %s is still there", namespace), err)
		}
	}
	return nil
}
