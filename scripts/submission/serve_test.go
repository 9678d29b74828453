// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"errors"
	"fmt"
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

	"lva.io/operators/clusters/egress"
)

func TestScaffoldsOfAllYearsAreAskedByTheirService(t *testing.T) {
	for _, test := range []struct{ name, portFlag, files, version string }{
		{"of 2025, which can be told its port", anyPort, webhookFile + serviceFile, "v1"},
		{"of 2023, which insists on 9443", fixedPort, strings.Replace(webhookFile, "  - v1\n  client", "  - v1\n  - v1beta1\n  client", 1) + serviceFile, "v1"},
		{"of 2021, whose webhook knows v1beta1 only", fixedPort, strings.Replace(webhookFile, "  - v1\n  client", "  - v1beta1\n  client", 1), "v1beta1"},
		{"of 2019", fixedPort, oldWebhookFile + serviceFile, "v1beta1"},
		{"with kustomize's prefix", anyPort, strings.Replace(webhookFile, "name: webhook", "name: shop-webhook", 1) + serviceFile + prefixFile, "v1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlace(t)
			w, end := p.install(operatorWith(test.portFlag, test.files))
			p.becomes("vanilla", `failed calling webhook "vicecream.kb.io"`)
			p.becomes("vanilla", "which serves ")
			kill := p.start(w)
			p.becomes("vanilla", "")
			if err := p.ask("matcha"); err == nil || !strings.Contains(err.Error(), `admission webhook "vicecream.kb.io" denied the request: `+
				"no matcha, says webhook-service.operator-system.svc/validate-icecream to admission.k8s.io/"+test.version) {
				t.Errorf("matcha is answered with %v", err)
			}
			kill()
			p.becomes("vanilla", "does the operator run?") // at first it may find its old connection dead
			p.start(w)
			if err := p.ask("vanilla"); err != nil {
				t.Errorf("after a restart, vanilla is answered with %v", err)
			}
			end()
			if err := p.ask("vanilla"); err == nil || !strings.Contains(err.Error(), "no such file or directory") {
				t.Errorf("all has ended, and vanilla is answered with %v", err)
			}
		})
	}
}

func TestAWebhookThatMayBeIgnoredIs(t *testing.T) {
	p := newPlace(t)
	w, end := p.install(operatorWith(anyPort, strings.Replace(webhookFile, "Policy: Fail", "Policy: Ignore", 1)))
	kill := p.start(w)
	p.becomes("matcha", "no matcha") // it is registered
	kill()
	if err := p.ask("matcha"); err != nil {
		t.Errorf("nobody is there to decide, and matcha is answered with %v", err)
	}
	end()
	if err := p.ask("matcha"); err != nil {
		t.Errorf("all has ended, and matcha is answered with %v", err)
	}
}

// A certificate of another authority is of no use, whoever presents it: here an operator of an earlier installation.
func TestOnlyTheAuthorityOfThisInstallationCounts(t *testing.T) {
	p := newPlace(t)
	w, end := p.install(operatorWith(anyPort, webhookFile))
	p.start(w)
	p.becomes("vanilla", "")
	end()
	again, manifests := p.prepare(operatorWith(anyPort, webhookFile))
	stop, err := again.ServeWebhooks(t.Context(), p.Config(), Access{}, ByEgress(p.Egress), manifests)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	for _, target := range again.webhooks.targets {
		for _, earlier := range w.webhooks.targets {
			if target == earlier {
				t.Fatal("the port was claimed twice while somebody listens there")
			}
		}
	}
	client := kubernetes.NewForConfigOrDie(p.Config())
	service, err := client.CoreV1().Services(operatorNamespace).Get(t.Context(), defaultService, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	again.webhooks.leader.(routed).Route(net.JoinHostPort(service.Spec.ClusterIP, "443"), localAddress(w.webhooks.targets[defaultWebhookPort]))
	p.becomes("vanilla", "x509: certificate signed by unknown authority")
}

func TestInstallingAnotherSubmissionRemovesTheWebhooksOfTheOneBefore(t *testing.T) {
	p := newPlace(t)
	client := kubernetes.NewForConfigOrDie(p.Config()).AdmissionregistrationV1()
	// Of both kinds, and under the same name.
	mutating := strings.Replace(webhookFile, "-- config/webhook/manifests.yaml --\n", "", 1)
	mutating = strings.NewReplacer("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "vicecream", "micecream").Replace(mutating)
	p.install(operatorWith(anyPort, webhookFile+mutating))
	p.becomes("vanilla", "failed calling webhook")
	// A policy of ours goes too, somebody else's objects stay.
	for _, policy := range []metav1.ObjectMeta{{Name: "of-a-lab", Labels: withOurLabel(nil)}, {Name: "of-a-student"}} {
		if _, err := client.ValidatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: policy,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{"demo.lva.io"}, APIVersions: []string{"v1"}, Resources: []string{"icecreams"}},
					},
				}}},
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
		{"the same again: there is no moment at which nobody decides", webhookFile + mutating, "validating vicecream.kb.io, mutating micecream.kb.io, of-a-student"},
		{"one that has no mutating ones", webhookFile, "validating vicecream.kb.io, of-a-student"},
		{"one without webhooks", "", "of-a-student"},
	} {
		p.prepare(operatorWith(anyPort, test.files))
		if got := names(); got != test.want {
			t.Errorf("%s: there are %s, and must be %s", test.name, got, test.want)
		}
	}
	p.becomes("vanilla", "")
	if err := client.ValidatingAdmissionPolicies().Delete(t.Context(), "of-a-student", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func TestWhatTheAPIServerRefusesIsTheSubmissions(t *testing.T) {
	for _, test := range []struct{ name, files, want string }{
		{
			"an unknown policy", strings.Replace(webhookFile, "Policy: Fail", "Policy: Maybe", 1) + serviceFile,
			"the API server refuses the ValidatingWebhookConfiguration validating-webhook-configuration: ",
		},
		{
			"a field that there is not", strings.Replace(webhookFile, "failurePolicy", "failurepolicy", 1) + serviceFile,
			"the API server refuses the ValidatingWebhookConfiguration validating-webhook-configuration: ",
		},
		{
			"side effects that nobody may have", strings.Replace(webhookFile, "sideEffects: None", "sideEffects: Some", 1) + serviceFile,
			"the API server refuses the ValidatingWebhookConfiguration validating-webhook-configuration: ",
		},
		{
			"webhooks that are no list", webhookFile[:strings.Index(webhookFile, "webhooks:\n")] + "webhooks: none\n" + serviceFile,
			"the API server refuses the ValidatingWebhookConfiguration validating-webhook-configuration: ",
		},
		{
			"a configuration without a name", strings.Replace(webhookFile, "  name: validating-webhook-configuration", "  labels: {app: shop}", 1),
			"a ValidatingWebhookConfiguration of the submission has no name: give it one under metadata",
		},
		{
			"a port that is none", webhookFile + strings.Replace(serviceFile, "port: 443\n", "port: 443443\n", 1),
			"the API server refuses the Service webhook-service: ",
		},
		{
			"a port that is no number", webhookFile + strings.Replace(serviceFile, "port: 443\n", "port: https\n", 1),
			"the Service webhook-service can't be read: ",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlace(t)
			w, manifests := p.prepare(operatorWith(anyPort, test.files))
			_, err := w.ServeWebhooks(t.Context(), p.Config(), Access{}, ByEgress(p.Egress), manifests)
			if problem := problemOf(t, err); !strings.HasPrefix(problem.Reason, test.want) {
				t.Errorf("it says %q, and must begin %q", problem.Reason, test.want)
			}
			// Nothing of the attempt stands in the way of the next one.
			router, err := egress.Listen(p.Egress)
			if err != nil {
				t.Fatal(err)
			}
			router.Close()
			if w.webhooks != nil && len(w.webhooks.claims) > 0 {
				if _, err := tryClaim(w.webhooks.claims[0].port); err != nil {
					t.Errorf("its port is claimed: %v", err)
				}
			}
		})
	}
}

// That an earlier submission had one of that name does not help.
func TestAServiceThatIsNotThereIsNamedByTheAPIServer(t *testing.T) {
	p := newPlace(t)
	_, end := p.install(operatorWith(anyPort, webhookFile+serviceFile))
	end()
	w, _ := p.install(operatorWith(anyPort, webhookFile+strings.Replace(serviceFile, "name: webhook", "name: web", 1)))
	p.start(w)
	p.becomes("vanilla", `service "webhook-service" not found`)
}

func TestOneClusterHasOneWayOut(t *testing.T) {
	p := newPlace(t)
	w, _ := p.install(operatorWith(anyPort, webhookFile))
	p.start(w)
	p.becomes("vanilla", "")
	second, manifests := p.prepare(operatorWith(fixedPort, webhookFile))
	if _, err := second.ServeWebhooks(t.Context(), p.Config(), Access{}, ByEgress(p.Egress), manifests); !errors.Is(err, egress.ErrTaken) {
		t.Errorf("the second one gets %v", err)
	}
	if err := p.ask("vanilla"); err != nil {
		t.Errorf("the first one is harmed: %v", err)
	}
}

// Where webhooks are not registered, their server must be able to listen all the same: it would end the operator.
func TestWebhooksThatNobodyAsksCanListen(t *testing.T) {
	for _, portFlag := range []string{anyPort, fixedPort} {
		t.Run(portFlag, func(t *testing.T) {
			p := newPlace(t)
			p.prepare(operatorWith(portFlag, "")) // out with those of other tests
			w, manifests := p.prepare(operatorWith(portFlag, webhookFile))
			stop, err := w.PrepareWebhooks(t.Context(), manifests)
			if err != nil {
				t.Fatal(err)
			}
			operator, err := w.StartOperator("/nowhere", os.Stderr)
			if err != nil {
				t.Fatal(err)
			}
			listens := localAddress(w.webhooks.targets[defaultWebhookPort])
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
				case <-operator.Done():
					t.Fatalf("it ended: %v", operator.Err())
				}
			}
			p.becomes("matcha", "")
			if registered, err := kubernetes.NewForConfigOrDie(p.Config()).AdmissionregistrationV1().ValidatingWebhookConfigurations().
				Get(t.Context(), "validating-webhook-configuration", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("%v is registered: %v", registered, err)
			}
			operator.Kill()
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// listenSomewhere is a program that is none of ours.
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
	return strings.Replace(serviceFile, "9443", strconv.Itoa(port), 1)
}

func TestAPortOfAnotherProgramIsNotTheSubmissionsFault(t *testing.T) {
	t.Parallel()
	port := listenSomewhere(t)
	w := workshop(t, lay(t, operatorWith(fixedPort, webhookFile+serviceAt(port))))
	manifests, err := w.Generate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.PrepareWebhooks(t.Context(), manifests)
	if _, wrong := errors.AsType[*Problem](err); wrong || err == nil {
		t.Fatalf("it must be an error of ours, and is %v", err)
	}
	want := fmt.Sprintf("port %d, at which this operator's webhooks listen, is another program's on this machine: end that (`ss -ltnp` names it)", port)
	if !strings.HasPrefix(err.Error(), want) {
		t.Errorf("it says %q, and must begin %q", err, want)
	}
	if c, err := tryClaim(port); err != nil {
		t.Errorf("the claim was not given back: %v", err)
	} else {
		c.Close()
	}
}
