// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"lva.io/operators/clusters/certificates"
	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/install"
	"lva.io/operators/scripts/grading/submission"
)

const (
	// accessName is the name of the Secret with the operator's token and the authority that it trusts, and of its volume.
	// servingName is the name of the Secret with the webhooks' certificate, and of its volume.
	accessName, servingName = "operator-labs-access", "operator-labs-serving"
	// accountFolder is the folder with the credentials of a Pod's account.
	accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"
	// servingFolder is the folder in which controller-runtime expects a serving certificate in a Pod.
	servingFolder = "/tmp/" + submission.CertificateFolder
)

// Deployment is a submission's operator in a cluster, as its own config/default deploys it.
type Deployment struct {
	// Namespace, Name and Selector are those of its Deployment. Container is the operator's container in its Pods.
	Namespace, Name, Container string
	Selector                   map[string]string
	// User is the name by which the API server knows the operator.
	User string

	objects   []*unstructured.Unstructured // all except the Deployment and the registrations
	registers []*unstructured.Unstructured // configurations of webhooks
	// apiServices register an aggregated API server.
	apiServices []*unstructured.Unstructured
	manager     *appsv1.Deployment
	manifests   *submission.Manifests
	webhooks    *submission.Manifests // not in config/default; nil if they are, or there are none
	// converting is the authority of a webhook that converts between versions, or nil if none does.
	converting *certificates.Authority
	// upgraded holds the definitions that Upgrade has applied, with all their versions.
	upgraded []*unstructured.Unstructured
}

// Render renders a submission's deployment. kubectl is as in submission.Builder.Kustomize. The error is a
// *submission.Problem if kustomize can't build the deployment, if it is not the deployment of one operator, or if it
// has more rights than the manifests' roles.
func Render(
	ctx context.Context, kubectl string, b *submission.Builder, manifests *submission.Manifests,
) (*Deployment, error) {
	objects, err := b.Kustomize(ctx, kubectl)
	if err != nil {
		return nil, err
	}
	if err := confine(objects, manifests, true); err != nil {
		return nil, err
	}
	return newDeployment(objects, manifests)
}

// Content returns the rendered config/default, as `make deploy` applies it, with the image for the operator's
// container, unless that is empty. If there are several Deployments, and so not one operator, the image replaces the
// placeholder of a scaffold. The same is true if there is a DaemonSet, because a part of the program then runs on each
// node. The result may have more rights than the markers, because it is not graded. The parameters and the other errors
// are those of Render.
func Content(
	ctx context.Context, kubectl string, b *submission.Builder, manifests *submission.Manifests, image string,
) ([]byte, error) {
	objects, err := b.Kustomize(ctx, kubectl)
	if err != nil {
		return nil, err
	}
	if len(ofKind(objects, "Deployment")) > 1 || len(ofKind(objects, "DaemonSet")) > 0 {
		if image != "" {
			if _, err := setImage(objects, image); err != nil {
				return nil, err
			}
		}
		return asYAML(objects)
	}
	deployment, err := newDeployment(objects, manifests)
	if err != nil {
		return nil, err
	}
	return deployment.Content(image)
}

func newDeployment(objects []*unstructured.Unstructured, manifests *submission.Manifests) (*Deployment, error) {
	d := &Deployment{manifests: manifests}
	var deployments []*appsv1.Deployment
	for _, object := range objects {
		_, registers := submission.Configurations[object.GetKind()]
		switch {
		case registers:
			d.registers = append(d.registers, object)
		case object.GroupVersionKind().Group == submission.APIServices.Group:
			d.apiServices = append(d.apiServices, object)
		case object.GetKind() == "Deployment":
			deployment := &appsv1.Deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
				return nil, &submission.Problem{Reason: fmt.Sprintf("the Deployment %s can't be read: %v", object.GetName(), err)}
			}
			deployments = append(deployments, deployment)
		default:
			d.objects = append(d.objects, object)
		}
	}
	if len(deployments) != 1 {
		return nil, &submission.Problem{Reason: fmt.Sprintf("config/default contains %d Deployments, "+
			"and must contain exactly one: the operator's", len(deployments))}
	}
	d.manager = deployments[0]
	d.Namespace, d.Name = cmp.Or(d.manager.Namespace, metav1.NamespaceDefault), d.manager.Name
	if d.manager.Spec.Selector != nil {
		d.Selector = d.manager.Spec.Selector.MatchLabels
	}
	pod := &d.manager.Spec.Template.Spec
	d.User = "system:serviceaccount:" + d.Namespace + ":" + accountOf(pod)
	container, err := submission.OperatorOf(pod)
	if err != nil {
		return nil, err
	}
	d.Container = container.Name
	if manifests.HasWebhooks() && len(d.registers) == 0 {
		d.webhooks = manifests
	}
	return d, nil
}

// Content returns all objects as YAML, as `make deploy` applies them, with the image for the operator's container,
// unless that is empty.
func (d *Deployment) Content(image string) ([]byte, error) {
	manager := d.manager.DeepCopy()
	container, err := submission.OperatorOf(&manager.Spec.Template.Spec)
	if err != nil {
		return nil, err
	}
	container.Image = cmp.Or(image, container.Image)
	last, err := runtime.DefaultUnstructuredConverter.ToUnstructured(manager)
	if err != nil {
		return nil, err
	}
	delete(last, "status")
	return asYAML(slices.Concat(d.objects, d.registers, d.apiServices, []*unstructured.Unstructured{{Object: last}}))
}

// installOptions describe how the operator runs in the cluster: from which image, and through which gateway.
type installOptions struct {
	reference string
	gateway   stage.Gateway
	// aggregated is true if the operator is an aggregated API server, which is registered.
	aggregated bool
}

// install installs everything in a cluster except the registrations. The operator's Deployment then exists, but does
// not run yet. register creates the registrations, after which the API server calls the operator. server is nil unless
// the operator is an aggregated API server.
func (d *Deployment) install(
	ctx context.Context, target install.Target, options installOptions,
) (register func(context.Context) error, server *apiServer, err error) {
	client, err := dynamic.NewForConfig(target.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a client: %w", err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(target.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a client: %w", err)
	}
	if err := errors.Join(target.CheckWebhooks(d.registers), target.CheckAPIServices(d.apiServices)); err != nil {
		return nil, nil, err
	}
	i := &installation{
		target: target, client: client,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer)), deployment: d,
	}
	if !slices.ContainsFunc(d.objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Namespace" && o.GetName() == d.Namespace
	}) {
		return nil, nil, &submission.Problem{Reason: fmt.Sprintf("config/default deploys the operator to the namespace %s, "+
			"and does not contain it: kubebuilder's layout has a Namespace in config/manager/manager.yaml, "+
			"and a name for it in config/default", d.Namespace)}
	}
	objects := d.objects
	converts := d.manifests.Converts()
	if options.aggregated || converts {
		objects = withoutCertManager(objects)
	}
	if err := i.createAll(ctx, objects); err != nil {
		return nil, nil, err
	}
	registers := slices.Concat(d.registers, d.apiServices)
	serving := d.webhooks != nil && !d.mounts(servingFolder)
	if d.webhooks != nil {
		if registers, err = i.createWebhooks(ctx, serving); err != nil {
			return nil, nil, err
		}
	}
	if options.aggregated {
		if server, err = i.createServer(ctx); err != nil {
			return nil, nil, err
		}
		registers = slices.Concat(d.registers, server.registers)
	}
	if converts && !options.aggregated {
		if err := i.createConverting(ctx); err != nil {
			return nil, nil, err
		}
	}
	if err := i.createAccess(ctx, options.gateway); err != nil {
		return nil, nil, err
	}
	manager := d.manager.DeepCopy()
	if err := adapt(manager, options, serving); err != nil {
		return nil, nil, err
	}
	if err := i.createTyped(ctx, manager); err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) error { return i.createAll(ctx, registers) }, server, nil
}

// createAccess creates the Secret that replaces the usual credentials of the Pod's account. It contains a token, and
// the authority to trust.
func (i *installation) createAccess(ctx context.Context, gateway stage.Gateway) error {
	client, err := kubernetes.NewForConfig(i.target.Config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	d := i.deployment
	_, account, _ := strings.Cut(d.User, d.Namespace+":")
	token, err := install.Token(ctx, client, d.Namespace, account)
	if apierrors.IsNotFound(err) {
		return &submission.Problem{Reason: fmt.Sprintf("config/default contains no ServiceAccount %s, "+
			"which its Deployment references", account)}
	}
	if err != nil {
		return err
	}
	return i.createTyped(ctx, &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: accessName},
		Data: map[string][]byte{
			"ca.crt":    gateway.CA,
			"token":     []byte(gateway.Shown(token)),
			"namespace": []byte(d.Namespace),
		},
	})
}

// mounts reports whether the operator's container mounts a volume at a folder.
func (d *Deployment) mounts(folder string) bool {
	container, err := submission.OperatorOf(&d.manager.Spec.Template.Spec)
	return err == nil && slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
		return path.Clean(m.MountPath) == folder
	})
}

// adapt changes a Deployment so that its operator reaches the API server through the gateway. It sets the replicas to
// 0.
func adapt(manager *appsv1.Deployment, options installOptions, serving bool) error {
	server, err := url.Parse(options.gateway.Host)
	if err != nil {
		return fmt.Errorf("reading the address of the gateway: %w", err)
	}
	manager.Spec.Replicas = new(int32(0))
	manager.Spec.RevisionHistoryLimit = new(int32(0))
	manager.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	pod := &manager.Spec.Template.Spec
	container, err := submission.OperatorOf(pod)
	if err != nil {
		return err
	}
	container.Image, container.ImagePullPolicy = options.reference, corev1.PullNever
	if container.ReadinessProbe != nil {
		container.ReadinessProbe.PeriodSeconds = 1 // a run that waits for the operator does not wait for the next probe
	}
	environment := append(slices.Clone(options.gateway.Environment),
		"KUBERNETES_SERVICE_HOST="+server.Hostname(), "KUBERNETES_SERVICE_PORT="+server.Port())
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		container.Env = append(slices.DeleteFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == name }),
			corev1.EnvVar{Name: name, Value: value})
	}
	// The volume is mounted as the kubelet would mount it, but with other content.
	pod.AutomountServiceAccountToken = new(false)
	pod.Volumes = append(pod.Volumes, corev1.Volume{
		Name: accessName, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: accessName}},
	})
	container.VolumeMounts = append(slices.DeleteFunc(container.VolumeMounts,
		func(m corev1.VolumeMount) bool { return path.Clean(m.MountPath) == accountFolder }),
		corev1.VolumeMount{Name: accessName, MountPath: accountFolder, ReadOnly: true})
	if serving {
		pod.Volumes = append(pod.Volumes, corev1.Volume{
			Name: servingName, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: servingName}},
		})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name:      servingName,
			MountPath: servingFolder,
			ReadOnly:  true,
		})
	}
	return nil
}

// installation is the installation of a Deployment in a cluster.
type installation struct {
	target     install.Target
	client     dynamic.Interface
	mapper     *restmapper.DeferredDiscoveryRESTMapper
	deployment *Deployment
}

func (i *installation) createAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := i.create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// create creates an object. It waits until a new kind is served, because objects of that kind may follow.
func (i *installation) create(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := i.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return &submission.Problem{Reason: fmt.Sprintf("config/default contains the %s, "+
			"a kind that the cluster does not have: %v", submission.NameOf(object), err)}
	}
	if err != nil {
		return fmt.Errorf("discovering the kinds of the cluster: %w", err)
	}
	resource := dynamic.ResourceInterface(i.client.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		// As kubectl does, and as confine assumes.
		resource = i.client.Resource(mapping.Resource).Namespace(cmp.Or(object.GetNamespace(), metav1.NamespaceDefault))
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot && !i.target.Shared {
		if err := i.checkForeign(ctx, resource, object); err != nil {
			return err
		}
	}
	if mapping.Resource == install.Definitions {
		// The versions that only config/default has are those that the manifests hold back.
		for _, version := range submission.ServedVersions(object) {
			if found := submission.Find(i.deployment.manifests.Definitions, object.GetName()); found != nil &&
				!slices.Contains(submission.ServedVersions(found), version) {
				object, _ = submission.WithoutVersion(object, version)
			}
		}
		if err := i.target.Definition(ctx, resource, object, i.deployment.manifests); err != nil {
			return err
		}
		return install.WaitDiscovered(ctx, resource, i.mapper, object)
	}
	if _, err := i.target.Apply(ctx, resource, object); err != nil {
		return err
	}
	if object.GetKind() == "Namespace" && i.target.NamespaceCreated != nil {
		return i.target.NamespaceCreated(ctx, object.GetName())
	}
	return nil
}

// checkForeign returns an error for an object that would replace one that no submission has installed, such as a
// ClusterRole to which others are bound.
func (i *installation) checkForeign(
	ctx context.Context, resource dynamic.ResourceInterface, object *unstructured.Unstructured,
) error {
	found, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("getting the %s: %w", submission.NameOf(object), err)
	case found.GetLabels()[existing.Label] == "":
		return exceeds(object, "which already exists in the cluster: "+
			"choose another name for yours, for example with kustomize's namePrefix")
	}
	return nil
}

// createTyped creates an object of the grader in the operator's namespace.
func (i *installation) createTyped(ctx context.Context, object runtime.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	delete(content, "status")
	untyped := &unstructured.Unstructured{Object: content}
	untyped.SetNamespace(i.deployment.Namespace)
	return i.create(ctx, untyped)
}

// createWebhooks creates the objects that the webhooks need and config/default does not contain. The Services select
// the operator's Pods. With serving, the operator gets a certificate. Otherwise it has its own. createWebhooks returns
// the configurations that register the webhooks.
func (i *installation) createWebhooks(
	ctx context.Context, serving bool,
) (registers []*unstructured.Unstructured, err error) {
	d := i.deployment
	ca, err := certificates.NewAuthority("operator-labs-webhooks")
	if err != nil {
		return nil, err
	}
	var hosts []string
	for _, service := range d.webhooks.Services {
		service = service.DeepCopy()
		service.SetNamespace(d.Namespace)
		// Whatever the Service selects in its file, it must select the operator here.
		selector := map[string]any{}
		for name, value := range d.Selector {
			selector[name] = value
		}
		if err := unstructured.SetNestedMap(service.Object, selector, "spec", "selector"); err != nil {
			return nil, &submission.Problem{Reason: fmt.Sprintf("the Service %s can't be read: %v", service.GetName(), err)}
		}
		if err := i.create(ctx, service); err != nil {
			return nil, err
		}
		host := service.GetName() + "." + d.Namespace + ".svc"
		hosts = append(hosts, host, host+".cluster.local")
	}
	if serving {
		pair, err := ca.Server("operator-labs-webhooks", hosts)
		if err != nil {
			return nil, err
		}
		if err := i.createTyped(ctx, &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Name: servingName}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key},
		}); err != nil {
			return nil, err
		}
	}
	for _, configuration := range d.webhooks.Webhooks {
		registers = append(registers, install.WithClientConfig(d.webhooks, configuration, d.Namespace, ca.PEM))
	}
	return registers, nil
}
