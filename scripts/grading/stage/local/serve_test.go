// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/await"
	"lva.io/operators/clusters/egress"
	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/clusters/socket"
	"lva.io/operators/scripts/grading/stage/stagetest"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/grading/submission/samples"
)

func TestWebhooksOfOldScaffoldsAreCalled(t *testing.T) {
	longtest.Proof(t)
	for _, test := range []struct{ name, portFlag, files, version string }{
		{"of 2025, with a flag for its port", anyPort, samples.Webhook + samples.Service, "v1"},
		{
			"of 2023, which insists on 9443", fixedPort,
			strings.Replace(samples.Webhook, "  - v1\n  client", "  - v1\n  - v1beta1\n  client", 1) + samples.Service, "v1",
		},
		{
			"of 2021, whose webhook knows v1beta1 only", fixedPort,
			strings.Replace(samples.Webhook, "  - v1\n  client", "  - v1beta1\n  client", 1), "v1beta1",
		},
		{"of 2019", fixedPort, samples.OldWebhook + samples.Service, "v1beta1"},
		{
			"with kustomize's prefix", anyPort,
			strings.Replace(samples.Webhook, "name: webhook", "name: shop-webhook", 1) + samples.Service + samples.Prefix, "v1",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			o, end := f.operate(operatorWith(test.portFlag, test.files))
			f.becomes("vanilla", `failed calling webhook "vicecream.kb.io"`)
			f.becomes("vanilla", "which serves ")
			kill := f.start(o)
			f.becomes("vanilla", "")
			if err := f.ask("matcha"); err == nil ||
				!strings.Contains(err.Error(), `admission webhook "vicecream.kb.io" denied the request: `+
					"no matcha, says webhook-service.operator-system.svc/validate-icecream to admission.k8s.io/"+test.version) {
				t.Errorf("matcha: error = %v, want that it is denied", err)
			}
			kill()
			f.becomes("vanilla", "does the operator run?") // the API server may first find its old connection closed
			f.start(o)
			if err := f.ask("vanilla"); err != nil {
				t.Errorf("vanilla after a restart: error = %v", err)
			}
			end()
			if err := f.ask("vanilla"); err == nil || !strings.Contains(err.Error(), "no such file or directory") {
				t.Errorf("vanilla after the end of the operator: error = %v", err)
			}
		})
	}
}

// Pods of a node reach the operator by endpoints of the Service. The node forwards their connections through the
// socket, as the API server does.
func TestPodsReachThePreparedOperator(t *testing.T) {
	longtest.Proof(t)
	f := newFixture(t)
	onNode := f.installWithRoute(ByNode(f.Egress, embedded.MachineIP),
		operatorWith(anyPort, samples.Webhook+samples.Service))
	prepared, err := onNode.Prepare(t.Context(), f.failOnWait)
	if err != nil {
		t.Fatal(err)
	}
	o := prepared.(*operator)
	defer func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}()
	f.start(o)
	f.becomes("matcha", "no matcha")

	slices := kubernetes.NewForConfigOrDie(f.Config()).DiscoveryV1().EndpointSlices(submission.AccountNamespace)
	name := submission.DefaultService + "-operator-labs"
	slice, err := slices.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if slice.Labels["kubernetes.io/service-name"] != submission.DefaultService ||
		len(slice.Ports) != 1 || len(slice.Endpoints) != 1 ||
		strings.Join(slice.Endpoints[0].Addresses, " ") != embedded.MachineIP {
		t.Fatalf("got endpoints %+v of %v", slice.Endpoints, slice.Labels)
	}
	connection, err := socket.Dial(t.Context(), f.Egress)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprintf(connection, "CONNECT %s:%d HTTP/1.1\r\nHost: node\r\n\r\n", embedded.MachineIP, *slice.Ports[0].Port)
	if answer, err := bufio.NewReader(connection).ReadString('\n'); err != nil ||
		!strings.HasPrefix(answer, "HTTP/1.1 200 ") {
		t.Errorf("a connection to the endpoint got %q, error = %v", answer, err)
	}

	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if _, err := slices.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("Get() of the endpoints after Close: error = %v, want not found", err)
	}
}

func TestWebhookWithFailurePolicyIgnore(t *testing.T) {
	f := newFixture(t)
	o, end := f.operate(operatorWith(anyPort, strings.Replace(samples.Webhook, "Policy: Fail", "Policy: Ignore", 1)))
	kill := f.start(o)
	f.becomes("matcha", "no matcha") // it is registered
	kill()
	if err := f.ask("matcha"); err != nil {
		t.Errorf("matcha while no webhook listens: error = %v", err)
	}
	end()
	if err := f.ask("matcha"); err != nil {
		t.Errorf("matcha after the end of the operator: error = %v", err)
	}
}

// The API server rejects a certificate of another authority. In this test it belongs to an operator of an earlier
// installation.
func TestCertificateOfAnotherAuthorityIsNotTrusted(t *testing.T) {
	longtest.Proof(t)
	f := newFixture(t)
	o, end := f.operate(operatorWith(anyPort, samples.Webhook))
	f.start(o)
	f.becomes("vanilla", "")
	end()
	again, _ := f.operate(operatorWith(anyPort, samples.Webhook))
	for _, target := range again.targets {
		for _, earlier := range o.targets {
			if target == earlier {
				t.Fatal("the port was claimed twice while a program listens there")
			}
		}
	}
	client := kubernetes.NewForConfigOrDie(f.Config())
	service, err := client.CoreV1().Services(submission.AccountNamespace).
		Get(t.Context(), submission.DefaultService, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	again.router.(egressRouter).Route(net.JoinHostPort(service.Spec.ClusterIP, "443"),
		localAddress(o.targets[submission.DefaultWebhookPort]))
	f.becomes("vanilla", "x509: certificate signed by unknown authority")
}

func TestInstallRemovesWebhooksOfThePreviousSubmission(t *testing.T) {
	longtest.Proof(t)
	f := newFixture(t)
	client := kubernetes.NewForConfigOrDie(f.Config()).AdmissionregistrationV1()
	// Of both kinds, and under the same name.
	mutating := strings.Replace(samples.Webhook, "-- config/webhook/manifests.yaml --\n", "", 1)
	mutating = strings.NewReplacer("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"vicecream", "micecream").Replace(mutating)
	f.operate(operatorWith(anyPort, samples.Webhook+mutating))
	f.becomes("vanilla", "failed calling webhook")
	// A policy with the grader's label is deleted too, and other objects are kept.
	for _, policy := range []metav1.ObjectMeta{
		{Name: "of-a-lab", Labels: map[string]string{existing.Label: "true"}},
		{Name: "of-a-student"},
	} {
		if _, err := client.ValidatingAdmissionPolicies().Create(t.Context(),
			&admissionregistrationv1.ValidatingAdmissionPolicy{
				ObjectMeta: policy,
				Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
					MatchConstraints: &admissionregistrationv1.MatchResources{
						ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
							RuleWithOperations: admissionregistrationv1.RuleWithOperations{
								Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
								Rule: admissionregistrationv1.Rule{
									APIGroups: []string{"demo.lva.io"}, APIVersions: []string{"v1"}, Resources: []string{"icecreams"},
								},
							},
						}},
					},
					Validations: []admissionregistrationv1.Validation{{Expression: "true"}},
				},
			}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	names := func() string {
		t.Helper()
		var all []string
		validating, err := client.ValidatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
		for _, one := range validating.Items {
			all = append(all, "validating "+one.Webhooks[0].Name)
		}
		mutating, mutatingErr := client.MutatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
		for _, one := range mutating.Items {
			all = append(all, "mutating "+one.Webhooks[0].Name)
		}
		policies, policiesErr := client.ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{})
		for _, one := range policies.Items {
			all = append(all, one.Name)
		}
		if err := errors.Join(err, mutatingErr, policiesErr); err != nil {
			t.Fatal(err)
		}
		return strings.Join(all, ", ")
	}
	for _, test := range []struct{ name, files, want string }{
		{
			"the same again, without a gap", samples.Webhook + mutating,
			"validating vicecream.kb.io, mutating micecream.kb.io, of-a-student",
		},
		{"a submission without mutating webhooks", samples.Webhook, "validating vicecream.kb.io, of-a-student"},
		{"a submission without webhooks", "", "of-a-student"},
	} {
		f.install(operatorWith(anyPort, test.files))
		if got := names(); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	f.becomes("vanilla", "")
	if err := client.ValidatingAdmissionPolicies().
		Delete(t.Context(), "of-a-student", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func TestRefusedWebhooksAreTheSubmissionsProblem(t *testing.T) {
	longtest.Proof(t)
	for _, test := range []struct{ name, files, want string }{
		{
			"an unknown policy", strings.Replace(samples.Webhook, "Policy: Fail", "Policy: Maybe", 1) + samples.Service,
			"the API server refuses the ValidatingWebhookConfiguration validating-webhook-configuration: ",
		},
		{
			"an unknown field", strings.Replace(samples.Webhook, "failurePolicy", "failurepolicy", 1) + samples.Service,
			"the API server refuses the ValidatingWebhookConfiguration validating-webhook-configuration: ",
		},
		{
			"side effects that are not allowed",
			strings.Replace(samples.Webhook, "sideEffects: None", "sideEffects: Some", 1) + samples.Service,
			"the API server refuses the ValidatingWebhookConfiguration validating-webhook-configuration: ",
		},
		{
			"webhooks that are not a list",
			samples.Webhook[:strings.Index(samples.Webhook, "webhooks:\n")] + "webhooks: none\n" + samples.Service,
			"the API server refuses the ValidatingWebhookConfiguration validating-webhook-configuration: ",
		},
		{
			"a configuration without a name",
			strings.Replace(samples.Webhook, "  name: validating-webhook-configuration", "  labels: {app: shop}", 1),
			"a ValidatingWebhookConfiguration of the submission has no name: give it one under metadata",
		},
		{
			"an invalid port", samples.Webhook + strings.Replace(samples.Service, "port: 443\n", "port: 443443\n", 1),
			"the API server refuses the Service webhook-service: ",
		},
		{
			"a port that is not a number", samples.Webhook + strings.Replace(samples.Service, "port: 443\n", "port: https\n", 1),
			"the Service webhook-service can't be read: ",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			_, err := f.install(operatorWith(fixedPort, test.files)).Prepare(t.Context(), f.failOnWait)
			if problem := stagetest.ProblemOf(t, err); !strings.HasPrefix(problem.Reason, test.want) {
				t.Errorf("got %q, want the prefix %q", problem.Reason, test.want)
			}
			// The failed attempt does not block the next one.
			router, err := egress.Listen(f.Egress)
			if err != nil {
				t.Fatal(err)
			}
			router.Close()
			claimable(t, submission.DefaultWebhookPort)
		})
	}
}

// A Service determines the port at which the operator listens, unless a flag sets another one.
func TestPortsOfAService(t *testing.T) {
	t.Parallel()
	for targets, want := range map[string]map[int32]int{
		"targetPort: 9443": {443: 9443},
		"targetPort: webhook-server\n  - port: 8443\n    targetPort: 9444\n  - port: 80": {443: 9443, 8443: 9444, 80: 80},
	} {
		file := strings.Replace(samples.Service, "targetPort: 9443", targets, 1)
		_, content, _ := strings.Cut(file, "\n")
		got, err := portsOf(stagetest.Objects(t, content)[0])
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("portsOf() = %v, want %v, error = %v", got, want, err)
		}
	}
}

// A Service of that name from an earlier submission does not count.
func TestAPIServerNamesTheMissingService(t *testing.T) {
	f := newFixture(t)
	_, end := f.operate(operatorWith(anyPort, samples.Webhook+samples.Service))
	end()
	o, _ := f.operate(operatorWith(anyPort,
		samples.Webhook+strings.Replace(samples.Service, "name: webhook", "name: web", 1)))
	f.start(o)
	f.becomes("vanilla", `service "webhook-service" not found`)
}

func TestEgressSocketIsUsedByOneOperator(t *testing.T) {
	longtest.Proof(t)
	f := newFixture(t)
	o, _ := f.operate(operatorWith(anyPort, samples.Webhook))
	f.start(o)
	f.becomes("vanilla", "")
	if _, err := f.install(operatorWith(fixedPort, samples.Webhook)).
		Prepare(t.Context(), f.failOnWait); !errors.Is(err, egress.ErrTaken) {
		t.Errorf("second Prepare() error = %v, want egress.ErrTaken", err)
	}
	if err := f.ask("vanilla"); err != nil {
		t.Errorf("the first operator fails: error = %v", err)
	}
}

// Even if webhooks are not registered, their server must be able to listen. Otherwise it would end the operator.
func TestUnregisteredWebhooksCanListen(t *testing.T) {
	longtest.Proof(t)
	for _, portFlag := range []string{anyPort, fixedPort} {
		t.Run(portFlag, func(t *testing.T) {
			f := newFixture(t)
			f.install(operatorWith(portFlag, "")) // removes the webhooks of other tests
			made := f.install(operatorWith(portFlag, samples.Webhook))
			made.Webhooks = false
			prepared, err := made.Prepare(t.Context(), f.failOnWait)
			if err != nil {
				t.Fatal(err)
			}
			started, err := prepared.Start(os.Stderr)
			if err != nil {
				t.Fatal(err)
			}
			listens := localAddress(prepared.(*operator).targets[submission.DefaultWebhookPort])
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				connection, err := net.Dial("tcp", listens)
				if err == nil {
					connection.Close()
					break
				}
				select {
				case <-tick.C:
				case <-started.Done():
					t.Fatalf("the operator ended: %v", started.Err())
				}
			}
			f.becomes("matcha", "")
			if registered, err := kubernetes.NewForConfigOrDie(f.Config()).AdmissionregistrationV1().
				ValidatingWebhookConfigurations().
				Get(t.Context(), "validating-webhook-configuration", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("got registration %v, error = %v, want not found", registered, err)
			}
			if err := errors.Join(started.Kill(), prepared.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// listenSomewhere listens at a port like a program outside of the run.
func listenSomewhere(t *testing.T) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}

func serviceAt(port int) string {
	return strings.Replace(samples.Service, "9443", strconv.Itoa(port), 1)
}

func TestTakenPortIsAnEnvironmentError(t *testing.T) {
	t.Parallel()
	port := listenSomewhere(t)
	_, err := generated(t, operatorWith(fixedPort, samples.Webhook+serviceAt(port))).Prepare(t.Context(), func(string) {})
	if _, wrong := errors.AsType[*submission.Problem](err); wrong || err == nil {
		t.Fatalf("got error %v, want one that is not a problem of the submission", err)
	}
	want := fmt.Sprintf("port %d, at which this operator's webhooks listen, is used by another program on this machine: "+
		"stop it (`ss -ltnp` shows it)", port)
	if !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %q, want the prefix %q", err, want)
	}
	claimable(t, port)
}

// claimable fails the test unless the port is free, or will be in a moment: a process that another test starts holds
// a copy of a claim until it runs its own program.
func claimable(t *testing.T, port int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := await.Until(ctx, portPoll, "the claim to be given back",
		func(context.Context) (objection string, err error) {
			c, err := tryClaim(port)
			if errors.Is(err, errClaimed) {
				return err.Error(), nil
			}
			if err != nil {
				return "", err
			}
			c.Close()
			return "", nil
		}); err != nil {
		t.Fatal(err)
	}
}
