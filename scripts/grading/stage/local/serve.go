// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"

	"lva.io/operators/clusters/certificates"
	"lva.io/operators/clusters/removal"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/submission"
)

// register creates the Services, and the webhook configurations if webhooks is true.
func (o *operator) register(ctx context.Context, webhooks bool) error {
	client, err := dynamic.NewForConfig(o.target.Config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	for _, service := range o.Manifests.Services {
		if _, err := o.createService(ctx, client, service); err != nil {
			return err
		}
	}
	if !webhooks {
		return nil
	}
	for _, configuration := range o.Manifests.Webhooks {
		configuration = install.WithClientConfig(o.Manifests, configuration, submission.AccountNamespace, o.ca.PEM)
		if _, err := o.target.Apply(ctx,
			client.Resource(submission.Configurations[configuration.GetKind()]), configuration); err != nil {
			return err
		}
	}
	return nil
}

// maxPorts is the maximum number of target ports that an operator may insist on. Every one is claimed, and other runs
// on this machine need some as well.
const maxPorts = 16

// claimPorts claims the ports at which the operator listens: any port if a flag sets it, and otherwise the target ports
// of its Services. It is unknown whether an operator without webhooks listens at all.
func (o *operator) claimPorts(ctx context.Context, onWait func(reason string)) error {
	takes := o.Launch.WebhookPort != ""
	for _, service := range o.Manifests.Services {
		ports, _ := portsOf(service) // a Service that can't be read is refused when it is created
		for _, target := range ports {
			o.targets[target] = target
		}
	}
	if len(o.targets) == 0 && (o.Manifests.HasWebhooks() || o.Manifests.Converts() || takes) {
		o.targets[submission.DefaultWebhookPort] = submission.DefaultWebhookPort
	}
	if takes {
		c, err := claimAny()
		if err != nil {
			return err
		}
		o.claims = append(o.claims, c)
		for target := range o.targets {
			o.targets[target] = c.port
		}
		o.flags = []string{fmt.Sprintf("%s=%d", o.Launch.WebhookPort, c.port)}
		return nil
	}
	if len(o.targets) > maxPorts {
		return &submission.Problem{Reason: fmt.Sprintf("the Services of the webhooks have %d different target ports, "+
			"but at most %d are allowed: name only those at which the operator listens", len(o.targets), maxPorts)}
	}
	// Always in the same order, so that no two operators wait for each other.
	for _, target := range slices.Sorted(maps.Keys(o.targets)) {
		c, err := claimPort(ctx, target, portPatience, onWait)
		if err != nil {
			return err
		}
		o.claims = append(o.claims, c)
	}
	return nil
}

// certify issues the serving certificate and writes it into the folder in which the operator expects it.
func (o *operator) certify() error {
	var err error
	if o.ca, err = certificates.NewAuthority("operator-labs-webhooks"); err != nil {
		return err
	}
	hosts := hostsOf(o.Manifests.Services)
	o.host = hosts[0]
	pair, err := o.ca.Server(o.host, hosts)
	if err != nil {
		return err
	}
	if err := o.fillFolder(submission.CertificateFolder, func(folder *os.Root) error {
		return errors.Join(folder.WriteFile("tls.key", pair.Key, 0o600), folder.WriteFile("tls.crt", pair.Certificate, 0o600))
	}); err != nil {
		return fmt.Errorf("writing the serving certificate of the webhooks: %w", err)
	}
	return nil
}

// fillFolder creates a folder in the operator's home, and fills it. It replaces everything that the program has left
// there, which may be a link to a file of the user, a pipe without a reader, or a folder without permissions.
func (o *operator) fillFolder(folder string, fill func(*os.Root) error) error {
	if err := errors.Join(os.MkdirAll(o.Home(), 0o700), os.Chmod(o.Home(), 0o700)); err != nil {
		return err
	}
	home, err := os.OpenRoot(o.Home())
	if err != nil {
		return err
	}
	defer home.Close()
	first, _, _ := strings.Cut(folder, "/")
	if err := errors.Join(
		removal.All(filepath.Join(o.Home(), first)), home.MkdirAll(filepath.FromSlash(folder), 0o700),
	); err != nil {
		return err
	}
	inside, err := home.OpenRoot(filepath.FromSlash(folder))
	if err != nil {
		return err
	}
	return errors.Join(fill(inside), inside.Close())
}

// hostsOf returns the host names of Services in the operator's namespace, or that of the default Service if there are
// none. It leaves out invalid names, which a certificate might not be able to hold. The API server refuses such
// Services when they are created.
func hostsOf(services []*unstructured.Unstructured) (hosts []string) {
	for _, service := range services {
		if len(validation.IsDNS1123Label(service.GetName())) > 0 {
			continue
		}
		host := service.GetName() + "." + submission.AccountNamespace + ".svc"
		hosts = append(hosts, host, host+".cluster.local")
	}
	if len(hosts) == 0 {
		hosts = []string{submission.DefaultService + "." + submission.AccountNamespace + ".svc"}
	}
	return hosts
}

// createService creates a Service and routes its requests to the operator.
func (o *operator) createService(
	ctx context.Context, client dynamic.Interface, service *unstructured.Unstructured,
) (made *unstructured.Unstructured, err error) {
	ports, err := portsOf(service)
	if err != nil {
		return nil, err
	}
	for port, target := range ports {
		ports[port] = o.targets[target]
	}
	service = service.DeepCopy()
	service.SetNamespace(submission.AccountNamespace)
	o.router.adapt(service)
	made, err = o.target.Apply(ctx, client.Resource(install.Services).Namespace(submission.AccountNamespace), service)
	if err != nil {
		return nil, err
	}
	return made, o.router.route(ctx, client, made, ports)
}

// portsOf returns the ports of a Service, each with the port at which the operator listens, unless a flag sets another.
func portsOf(service *unstructured.Unstructured) (map[int32]int, error) {
	content, err := json.Marshal(service.Object)
	if err != nil {
		return nil, err
	}
	var typed corev1.Service
	if err := json.Unmarshal(content, &typed); err != nil {
		return nil, &submission.Problem{Reason: fmt.Sprintf("the Service %s can't be read: %v", service.GetName(), err)}
	}
	ports := map[int32]int{}
	for _, port := range typed.Spec.Ports {
		switch {
		case port.TargetPort.Type == intstr.String: // a port of the Deployment, which no scaffold ever changed
			ports[port.Port] = submission.DefaultWebhookPort
		case port.TargetPort.IntVal == 0:
			ports[port.Port] = int(port.Port)
		default:
			ports[port.Port] = int(port.TargetPort.IntVal)
		}
	}
	return ports, nil
}

func localAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
