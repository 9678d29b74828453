// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"lva.io/operators/clusters/certificates"
)

// certificateFolder is where controller-runtime looks for a serving certificate, below the folder for temporary files.
const certificateFolder = "k8s-webhook-server/serving-certs"

var servicesResource = schema.GroupVersionResource{Version: "v1", Resource: "services"}

// served is what serves a submission's webhooks while its operator runs.
type served struct {
	leader  leader // nil: there is nothing to register
	claims  []*claim
	ca      *certificates.Authority
	host    string      // that the serving certificate is for
	targets map[int]int // the port at which a Service expects the operator, and where it listens
	closed  bool
}

// close ends it. Closing it again does nothing.
func (s *served) close() (err error) {
	if s.closed {
		return nil
	}
	s.closed = true
	if s.leader != nil {
		err = s.leader.Close()
	}
	for _, c := range s.claims {
		err = errors.Join(err, c.Close())
	}
	return err
}

// PrepareWebhooks makes what the operator needs so that its webhooks can listen: a serving certificate, and a port. It
// registers none, so nobody will ask them. Of a program that insists on its port, only one is run at a time on this machine:
// it waits for its turn, as long as the context allows. That the port is another program's is no *Problem.
//
// StartOperator comes afterwards; what it returns gives the port back, and is for when the operator has ended.
func (w *Workshop) PrepareWebhooks(ctx context.Context, manifests *Manifests) (end func() error, err error) {
	s, err := w.prepareWebhooks(ctx, manifests)
	if err != nil {
		return nil, err
	}
	return s.close, nil
}

func (w *Workshop) prepareWebhooks(ctx context.Context, manifests *Manifests) (*served, error) {
	s := &served{targets: map[int]int{}}
	w.webhookFlags, w.webhooks = nil, nil
	if err := w.claimPorts(ctx, s, manifests); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := w.certify(s, manifests); err != nil {
		return nil, errors.Join(err, s.close())
	}
	w.webhooks = s
	return s, nil
}

// ServeWebhooks does what PrepareWebhooks does, and brings the submission's webhooks into a cluster whose API server gets to
// this machine by the way: their Services and their configurations, as kustomize would put them together. It leads the
// Services to the operator.
//
// What it returns ends that; the webhooks stay registered, and fail as their failure policy says. A configuration that the
// API server refuses is a *Problem. Without webhooks there is nothing to register.
func (w *Workshop) ServeWebhooks(
	ctx context.Context, config *rest.Config, access Access, way Way, manifests *Manifests,
) (end func() error, err error) {
	if !manifests.HasWebhooks() {
		return w.PrepareWebhooks(ctx, manifests)
	}
	if err := access.mayDecide(manifests.webhooks); err != nil {
		return nil, err
	}
	// First, since who finds it taken need not wait for a port.
	leader, err := way.open()
	if err != nil {
		return nil, err
	}
	s, err := w.prepareWebhooks(ctx, manifests)
	if err != nil {
		return nil, errors.Join(err, leader.Close())
	}
	s.leader = leader
	if err := s.register(ctx, config, manifests); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s.close, nil
}

// register makes the Services and the configurations.
func (s *served) register(ctx context.Context, config *rest.Config, manifests *Manifests) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for _, service := range manifests.services {
		if err := s.lead(ctx, client, service); err != nil {
			return err
		}
	}
	for _, configuration := range manifests.webhooks {
		configuration = manifests.connected(configuration, operatorNamespace, s.ca.PEM)
		if _, err := apply(ctx, client.Resource(configurations[configuration.GetKind()]), configuration, s.leader.shared()); err != nil {
			return err
		}
	}
	return nil
}

// apply makes an object that the submission brings, or brings it up to date. In a shared cluster it only makes it.
func apply(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured, shared bool) (*unstructured.Unstructured, error) {
	if object.GetName() == "" {
		return nil, &Problem{Reason: fmt.Sprintf("a %s of the submission has no name: give it one under metadata", object.GetKind())}
	}
	object = object.DeepCopy()
	object.SetLabels(withOurLabel(object.GetLabels()))
	object.SetManagedFields(nil) // of a file that was taken from some cluster
	var made *unstructured.Unstructured
	var err error
	if shared {
		made, err = client.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
		if apierrors.IsAlreadyExists(err) {
			return nil, &InTheWayError{"the " + nameOf(object)}
		}
	} else {
		made, err = client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	}
	if err != nil {
		return nil, installing("the "+nameOf(object), err)
	}
	return made, nil
}

// claimPorts claims where the operator listens: anywhere, if it can be told, else where its Services say. Of an operator
// that brings no webhooks nobody knows whether it listens at all.
func (w *Workshop) claimPorts(ctx context.Context, s *served, manifests *Manifests) error {
	for _, service := range manifests.services {
		ports, _ := portsOf(service) // one that can't be read is refused where it is made
		for _, target := range ports {
			s.targets[target] = target
		}
	}
	if len(s.targets) == 0 && (manifests.HasWebhooks() || w.takesWebhookPort) {
		s.targets[defaultWebhookPort] = defaultWebhookPort
	}
	if w.takesWebhookPort {
		c, err := claimAny()
		if err != nil {
			return err
		}
		s.claims = append(s.claims, c)
		for target := range s.targets {
			s.targets[target] = c.port
		}
		w.webhookFlags = []string{fmt.Sprintf("--%s=%d", webhookPortFlag, c.port)}
		return nil
	}
	waits := w.Waits
	if waits == nil {
		waits = func(string) {}
	}
	// Always in the same order, so that no two wait for each other.
	for _, target := range slices.Sorted(maps.Keys(s.targets)) {
		c, err := claimPort(ctx, target, portPatience, waits)
		if err != nil {
			return err
		}
		s.claims = append(s.claims, c)
	}
	return nil
}

// certify makes the serving certificate and puts it where the operator looks for it.
func (w *Workshop) certify(s *served, manifests *Manifests) error {
	var err error
	if s.ca, err = certificates.NewAuthority("operator-labs-webhooks"); err != nil {
		return err
	}
	var hosts []string
	for _, service := range manifests.services {
		host := service.GetName() + "." + operatorNamespace + ".svc"
		hosts = append(hosts, host, host+".cluster.local")
	}
	if len(hosts) == 0 {
		hosts = []string{defaultService + "." + operatorNamespace + ".svc"}
	}
	s.host = hosts[0]
	pair, err := s.ca.Server(s.host, hosts)
	if err != nil {
		return err
	}
	dir := filepath.Join(w.temporary(), filepath.FromSlash(certificateFolder))
	if err := errors.Join(
		os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "tls.key"), pair.Key, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.crt"), pair.Certificate, 0o600),
	); err != nil {
		return fmt.Errorf("writing the serving certificate of the webhooks: %w", err)
	}
	return nil
}

// lead makes a Service and leads it to the operator.
func (s *served) lead(ctx context.Context, client dynamic.Interface, service *unstructured.Unstructured) error {
	ports, err := portsOf(service)
	if err != nil {
		return err
	}
	for port, target := range ports {
		ports[port] = s.targets[target]
	}
	service = service.DeepCopy()
	service.SetNamespace(operatorNamespace)
	s.leader.adapt(service)
	made, err := apply(ctx, client.Resource(servicesResource).Namespace(operatorNamespace), service, s.leader.shared())
	if err != nil {
		return err
	}
	return s.leader.lead(ctx, client, made, ports)
}

func localAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// connected is a configuration as kustomize and a CA injector would leave it: its webhooks lead to the Services in the
// namespace, and trust the authority. One that names a URL is left as it is.
func (m *Manifests) connected(configuration *unstructured.Unstructured, namespace string, ca []byte) *unstructured.Unstructured {
	configuration = configuration.DeepCopy()
	for _, webhook := range webhooksOf(configuration) {
		client, reference := serviceOf(webhook)
		if reference == nil {
			continue
		}
		reference["namespace"] = namespace
		if service := m.service(reference["name"]); service != nil {
			reference["name"] = service.GetName()
		}
		client["caBundle"] = base64.StdEncoding.EncodeToString(ca)
	}
	return configuration
}

// WebhooksListen waits until the operator that was started answers where the API server will ask it, as long as the context
// allows. There is nothing to wait for if ServeWebhooks has registered none.
func (w *Workshop) WebhooksListen(ctx context.Context) error {
	if w.webhooks == nil || w.webhooks.leader == nil {
		return nil
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(w.webhooks.ca.PEM)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: trusted, ServerName: w.webhooks.host}}
	tick := time.NewTicker(portPoll)
	defer tick.Stop()
	for _, port := range w.webhooks.targets {
		for {
			connection, err := dialer.DialContext(ctx, "tcp", localAddress(port))
			if err == nil {
				connection.Close()
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("waiting until the operator's webhooks listen at port %d: %w", port, context.Cause(ctx))
			}
		}
	}
	return nil
}
