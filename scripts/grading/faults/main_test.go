// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/services/freezer"
)

// TestMain runs the tests. If the variables below are set, it runs the program that the tests kill.
func TestMain(m *testing.M) {
	if host := os.Getenv(hostVariable); host != "" {
		fmt.Fprintln(os.Stderr, count(host, os.Getenv(caVariable), os.Getenv(tokenVariable), os.Getenv(nameVariable)))
		os.Exit(1)
	}
	code := m.Run()
	if cluster != nil {
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is the time limit for what must happen, even on the slowest machine. long is the duration of what must not
// end by itself.
const (
	patience = 30 * time.Second
	long     = time.Hour
)

// cluster is shared by all tests. It is nil until a test needs it.
var (
	cluster      *embedded.Cluster
	startCluster = sync.OnceValue(func() error {
		repo, err := checkout.Find()
		if err != nil {
			return err
		}
		if err := repo.EnsureControlPlane(context.Background()); err != nil {
			return err
		}
		cluster, err = embedded.Start(context.Background(), repo.ControlPlane)
		return err
	})
)

// bench is an injector in front of a real API server and a freezer, and clients that bypass the injector.
type bench struct {
	*Injector
	// operator is the configuration of the operator under test: a token, and the address of the injector.
	operator *rest.Config
	// direct is the administrator's client, which bypasses the injector.
	direct *kubernetes.Clientset
	// namespace is for this test alone.
	namespace string
	freezer   *freezer.Client // through the injector
	url       string          // of the freezer
	inventory *freezer.Client // past the injector
	past      *Injector       // used by inventory
}

// newBench starts a bench. kill may be nil.
func newBench(t *testing.T, kill func() error) *bench {
	t.Helper()
	if err := startCluster(); err != nil {
		t.Fatal(err)
	}
	direct, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := direct.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := newFreezerBench(t, kill)
	host, ca, err := b.ProxyAPI(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	b.direct, b.namespace = direct, namespace.Name
	b.operator = &rest.Config{
		Host: host, BearerToken: b.Exchange(b.account(t)), QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	}
	return b
}

// newFreezerBench starts a bench with a freezer only, for behaviour that does not differ between services.
func newFreezerBench(t *testing.T, kill func() error) *bench {
	t.Helper()
	b := &bench{Injector: New(kill)}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	service := freezer.New()
	var err error
	if b.url, err = b.Proxy(freezer.Service, service); err != nil {
		t.Fatal(err)
	}
	b.freezer = freezer.NewClient(b.url)
	b.past = New(nil)
	t.Cleanup(func() { b.past.Close() })
	url, err := b.past.Proxy(freezer.Service, service)
	if err != nil {
		t.Fatal(err)
	}
	b.inventory = freezer.NewClient(url)
	return b
}

// account creates a ServiceAccount that may do what the tests do, and returns its token.
func (b *bench) account(t *testing.T) string {
	t.Helper()
	ctx, all := t.Context(), []string{"*"}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "faults"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}},
	}
	if _, err := b.direct.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "operator"}}
	if _, err := b.direct.CoreV1().ServiceAccounts(b.namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: b.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: b.namespace}},
	}
	if _, err := b.direct.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := b.direct.CoreV1().ServiceAccounts(b.namespace).CreateToken(ctx, account.Name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// client returns the operator's client.
func (b *bench) client(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(b.operator)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// create creates a ConfigMap past the injector.
func (b *bench) create(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	made, err := b.direct.CoreV1().ConfigMaps(b.namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// value returns the entry "value" that a ConfigMap of the API server has now.
func (b *bench) value(t *testing.T, name string) string {
	t.Helper()
	got, err := b.direct.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got.Data["value"]
}

func (b *bench) arm(t *testing.T, faults ...Fault) {
	t.Helper()
	if err := b.Arm(Schedule{Faults: faults}); err != nil {
		t.Fatal(err)
	}
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("condition not met after %s: %s", patience, what)
		}
	}
}

// The program that is killed counts in a ConfigMap, with one write for each number, until it reaches goal. Then it
// waits.
const (
	hostVariable  = "FAULTS_TEST_HOST"
	caVariable    = "FAULTS_TEST_CA"
	tokenVariable = "FAULTS_TEST_TOKEN"
	nameVariable  = "FAULTS_TEST_NAMESPACE"
	goal          = 5
)

func count(host, ca, token, namespace string) error {
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(ca)},
	})
	if err != nil {
		return err
	}
	ctx := context.Background()
	for {
		counter, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, "counter", metav1.GetOptions{})
		if err != nil {
			return err
		}
		reached, _ := strconv.Atoi(counter.Data["value"])
		if reached == goal {
			select {} // its work is done, and a real operator would watch
		}
		counter.Data = map[string]string{"value": strconv.Itoa(reached + 1)}
		if _, err := client.CoreV1().ConfigMaps(namespace).Update(ctx, counter, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
}

// victim runs that program in a process of its own.
type victim struct {
	t       *testing.T
	bench   *bench
	mutex   sync.Mutex
	process *exec.Cmd
	kills   int
}

func (v *victim) start() error {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.process = exec.Command(os.Args[0])
	v.process.Env = append(os.Environ(),
		hostVariable+"="+v.bench.operator.Host, caVariable+"="+string(v.bench.operator.CAData),
		tokenVariable+"="+v.bench.operator.BearerToken, nameVariable+"="+v.bench.namespace)
	v.process.Stderr = os.Stderr
	if err := v.process.Start(); err != nil {
		return err
	}
	v.bench.Note("started")
	return nil
}

func (v *victim) stop() error {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if err := v.process.Process.Kill(); err != nil {
		return fmt.Errorf("killing the program: %w", err)
	}
	var ended *exec.ExitError
	if err := v.process.Wait(); err != nil && !errors.As(err, &ended) {
		return err
	}
	v.bench.Note("killed")
	return nil
}

func (v *victim) kill() error {
	v.kills++ // one at a time
	return errors.Join(v.stop(), v.start())
}

// lone is an HTTP client with connections of its own.
func lone(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
