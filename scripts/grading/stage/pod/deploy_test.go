// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package pod

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/stagetest"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/grading/submission/samples"
)

// solution returns a lab's solution with its manifests, and the program that runs kubectl.
func solution(t *testing.T, number string) (b *submission.Builder, manifests *submission.Manifests, kubectl string) {
	t.Helper()
	repo, err := checkout.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.EnsureControlPlane(t.Context()); err != nil { // kubectl is part of it
		t.Fatal(err)
	}
	lab, err := repo.Labs.Lab(number)
	if err != nil {
		t.Fatal(err)
	}
	b = stagetest.Builder(t, repo.SolutionDir(lab))
	if manifests, err = b.Generate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b, manifests, repo.ControlPlane.Path
}

// The test renders the solution of the lab with webhooks, as `make deploy` does.
func TestDeployedSolution(t *testing.T) {
	b, manifests, kubectl := solution(t, "4")
	d, err := Render(t.Context(), kubectl, b, manifests)
	if err != nil {
		t.Fatal(err)
	}
	if d.Namespace != "icecream-system" || d.Name != "icecream-controller-manager" || d.Container != "manager" ||
		d.User != "system:serviceaccount:icecream-system:icecream-controller-manager" ||
		d.Selector["control-plane"] != "controller-manager" {
		t.Errorf("Render() = %+v", d)
	}
	if d.webhooks == nil {
		t.Error("its webhooks are not registered")
	}
	content, err := d.Content("cone:v7")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"image: cone:v7", "kind: CustomResourceDefinition", "name: icecream-manager-role", "kind: ServiceAccount",
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("Content() lacks %q", want)
		}
	}
	manager := d.manager.DeepCopy()
	options := installOptions{reference: "cone:v8", gateway: stage.Gateway{
		Host: "https://172.18.0.1:40000", Environment: []string{"FREEZER_URL=http://172.18.0.1:40001"},
	}}
	if err := adapt(manager, options, true); err != nil {
		t.Fatal(err)
	}
	wantAdapted(t, manager)
}

// A Deployment may name its account in the older field, which the API server treats the same.
func TestDeprecatedServiceAccountFieldIsRead(t *testing.T) {
	t.Parallel()
	objects := stagetest.Objects(t, strings.Replace(manager, "serviceAccountName:", "serviceAccount:", 1))
	d, err := newDeployment(objects, &submission.Manifests{})
	if err != nil {
		t.Fatal(err)
	}
	delivered, err := setImage(objects, "cone:v7")
	if err != nil {
		t.Fatal(err)
	}
	const want = "system:serviceaccount:reach-system:manager"
	if d.User != want || delivered != want {
		t.Errorf("got user %s, and %s from setImage()", d.User, delivered)
	}
}

func wantAdapted(t *testing.T, manager *appsv1.Deployment) {
	t.Helper()
	pod := manager.Spec.Template.Spec
	container := pod.Containers[0]
	if *manager.Spec.Replicas != 0 || container.Image != "cone:v8" || container.ImagePullPolicy != corev1.PullNever {
		t.Errorf("got %d replicas of %s with policy %s", *manager.Spec.Replicas, container.Image, container.ImagePullPolicy)
	}
	environment := map[string]string{}
	for _, variable := range container.Env {
		environment[variable.Name] = variable.Value
	}
	if environment["KUBERNETES_SERVICE_HOST"] != "172.18.0.1" || environment["KUBERNETES_SERVICE_PORT"] != "40000" ||
		environment["FREEZER_URL"] != "http://172.18.0.1:40001" {
		t.Errorf("got environment %v", environment)
	}
	mounts := map[string]string{}
	for _, mount := range container.VolumeMounts {
		mounts[mount.MountPath] = mount.Name
	}
	if *pod.AutomountServiceAccountToken || mounts[accountFolder] != accessName || mounts[servingFolder] != servingName {
		t.Errorf("got mounts %v", mounts)
	}
	if container.ReadinessProbe.PeriodSeconds != 1 || !*container.SecurityContext.ReadOnlyRootFilesystem {
		t.Error("the readiness probe or the security context is wrong")
	}
}

// Lab 06 has two Deployments of one program, so that neither is the operator, and lab 10 has a DaemonSet and a
// Deployment.
func TestSeveralWorkloadsGetTheImageForThePlaceholder(t *testing.T) {
	longtest.Proof(t)
	for _, test := range []struct {
		lab                     string
		deployments, daemonSets int
	}{{"6", 2, 0}, {"10", 1, 1}} {
		b, manifests, kubectl := solution(t, test.lab)
		content, err := Content(t.Context(), kubectl, b, manifests, "cone:v7")
		if err != nil {
			t.Fatal(err)
		}
		count := func(text string) int { return strings.Count(string(content), text) }
		if got, want := count("image: cone:v7\n"), test.deployments+test.daemonSets; got != want ||
			count("image: controller") > 0 ||
			count("\nkind: Deployment\n") != test.deployments || count("\nkind: DaemonSet\n") != test.daemonSets {
			t.Errorf("lab %s: %d containers have the image, want %d, and none the placeholder:\n%s",
				test.lab, got, want, content)
		}
	}
}

func TestUndeployableSubmissions(t *testing.T) {
	t.Parallel()
	deployment := func(name string, containers ...string) string {
		object := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name}}
		var list []any
		for _, container := range containers {
			list = append(list, map[string]any{"name": container})
		}
		object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"containers": list}}}
		content, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return "---\n" + string(content)
	}
	for name, test := range map[string]struct{ rendered, want string }{
		"nothing":        {"", "config/default contains 0 Deployments"},
		"two":            {deployment("a", "manager") + deployment("b", "manager"), "config/default contains 2 Deployments"},
		"no manager":     {deployment("a", "cook", "waiter"), "no container in config/manager is called manager"},
		"no Deployment":  {"---\nkind: Deployment\nspec: cone\n", "the Deployment  can't be read"},
		"a sidecar":      {deployment("a", "proxy", "manager"), ""},
		"another's name": {deployment("a", "cook"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newDeployment(stagetest.Objects(t, test.rendered), &submission.Manifests{})
			problem, wrong := errors.AsType[*submission.Problem](err)
			if (test.want != "") != wrong || wrong && !strings.Contains(problem.Reason, test.want) {
				t.Errorf("got error %v, want one that contains %q", err, test.want)
			}
		})
	}
}

func TestWithoutConfigNothingIsDeployed(t *testing.T) {
	t.Parallel()
	b := stagetest.Builder(t, samples.Lay(t, samples.Module+"-- main.go --\n"+samples.Program))
	_, err := Render(t.Context(), "/nowhere/kubectl", b, &submission.Manifests{})
	if _, wrong := errors.AsType[*submission.Problem](err); !wrong ||
		!strings.Contains(err.Error(), "there is no config/default") {
		t.Errorf("Render() error = %v", err)
	}
}
