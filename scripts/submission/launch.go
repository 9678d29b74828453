// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// launch is what the submission's own Deployment starts the program with, as far as it means something outside of a Pod.
type launch struct {
	// command names a command of the program, as in `manager start`. Flags are not taken: they name files and ports of a Pod.
	command []string
	// environment is NAME=value.
	environment []string
}

// deploymentFiles are where kubebuilder and operator-sdk of old put the operator's Deployment.
var deploymentFiles = []string{"config/manager/*.yaml", "deploy/operator.yaml"}

// commandWord is an argument that is no flag, no path and no value.
var commandWord = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// podFields are the fields of its Pod by which a Deployment usually tells the operator where it runs.
var podFields = map[string]string{
	"metadata.namespace": operatorNamespace, "metadata.name": "controller-manager-0", "spec.serviceAccountName": operatorAccount,
}

// launch reads the Deployment. One that is missing or can't be read says nothing.
func (s *Submission) launch() (found launch) {
	for _, pattern := range deploymentFiles {
		objects, err := s.readYAML(pattern)
		if err != nil {
			continue
		}
		for _, object := range objects {
			deployment := &appsv1.Deployment{}
			if object.GetKind() != "Deployment" || runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment) != nil {
				continue
			}
			if container, err := operatorOf(&deployment.Spec.Template.Spec); err == nil {
				return newLaunch(container)
			}
		}
	}
	return found
}

func newLaunch(container *corev1.Container) (found launch) {
	words := container.Args
	if len(container.Command) > 0 { // otherwise the image names the program
		words = slices.Concat(container.Command[1:], container.Args)
	}
	for _, word := range words {
		if !commandWord.MatchString(word) {
			break
		}
		found.command = append(found.command, word)
	}
	for _, variable := range container.Env {
		value := variable.Value
		if from := variable.ValueFrom; from != nil && from.FieldRef != nil {
			value = podFields[from.FieldRef.FieldPath]
		}
		// What comes from a Secret or a ConfigMap is not there, and Kubernetes' own variables lead to the Pod's API server.
		if value == "" || strings.Contains(value, "$(") || strings.HasPrefix(variable.Name, "KUBERNETES_") {
			continue
		}
		found.environment = append(found.environment, variable.Name+"="+value)
	}
	return found
}

// merged is an environment in which later variables replace earlier ones of the same name.
func merged(environments ...[]string) (all []string) {
	for _, variable := range slices.Concat(environments...) {
		name, _, _ := strings.Cut(variable, "=")
		all = append(slices.DeleteFunc(all, func(other string) bool { return strings.HasPrefix(other, name+"=") }), variable)
	}
	return all
}
