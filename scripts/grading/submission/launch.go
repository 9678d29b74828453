// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Launch describes how a program is started outside of a Pod. It is started as in the submission's own Deployment, as
// far as that makes sense outside of a Pod. It must not listen at a fixed port of this machine, because another
// submission may be graded at the same time.
type Launch struct {
	// Command names a subcommand of the program, as in `manager start`. Flags of the Deployment are not used, because they
	// name files and ports of a Pod.
	Command []string
	// Flags are the flags that keep the program from listening.
	Flags []string
	// Environment has the variables that the Deployment sets, as NAME=value.
	Environment []string
	// Known are the names of all flags in the program's help.
	Known []string
	// WebhookPort and Kubeconfig are its flags for the port of its webhooks and for the kubeconfig file. A flag that it
	// does not have is empty.
	WebhookPort, Kubeconfig string
	// SecurePort, Certificate, CertificateKey, DataDir and EtcdServers are the flags of an aggregated API server. A flag
	// that it does not have is empty.
	SecurePort, Certificate, CertificateKey, DataDir, EtcdServers string
	// DelegationKubeconfigs are the flags of a server built on k8s.io/apiserver for the kubeconfig files of the cluster to
	// which it delegates authentication and authorization.
	DelegationKubeconfigs []string
}

// deploymentFiles lists the files into which kubebuilder and old versions of operator-sdk write the operator's
// Deployment.
var deploymentFiles = []string{"config/manager/*.yaml", "deploy/operator.yaml"}

// commandWord matches an argument that is neither a flag, nor a path, nor a value.
var commandWord = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// podFields maps the fields of the Pod that a Deployment usually passes to the operator to their values on this
// machine.
var podFields = map[string]string{
	"metadata.namespace":      AccountNamespace,
	"metadata.name":           "controller-manager-0",
	"spec.serviceAccountName": AccountName,
}

// deployed reads the Deployment. It returns an empty Launch if the Deployment is missing or can't be read.
func (s *Submission) deployed() (found Launch) {
	for _, pattern := range deploymentFiles {
		objects, err := s.readYAML(pattern)
		if err != nil {
			continue
		}
		for _, object := range objects {
			deployment := &appsv1.Deployment{}
			if object.GetKind() != "Deployment" ||
				runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment) != nil {
				continue
			}
			if container, err := OperatorOf(&deployment.Spec.Template.Spec); err == nil {
				return newLaunch(container)
			}
		}
	}
	return found
}

// launchLimit is the maximum size of the command and of the variables that are taken from a Deployment, in bytes. It is
// far below the limits of execve(2), which also apply to flags and to the supervisor's arguments. Each entry counts
// entryOverhead more than its text.
const launchLimit, entryOverhead = 32 << 10, 16

// ownVariable matches the variables that also control the grader's own program which starts the operator: those of Go's
// runtime and of the dynamic linker.
var ownVariable = regexp.MustCompile(`^(GOGC|GOMEMLIMIT|GODEBUG|GOMAXPROCS|GOTRACEBACK|GOCOVERDIR|LD_.*|GLIBC_.*)$`)

func newLaunch(container *corev1.Container) (found Launch) {
	left := launchLimit
	fits := func(text string) bool {
		size := len(text) + entryOverhead
		if size > left || strings.Contains(text, "\x00") {
			return false
		}
		left -= size
		return true
	}
	words := container.Args
	if len(container.Command) > 0 { // otherwise the image names the program
		words = slices.Concat(container.Command[1:], container.Args)
	}
	for _, word := range words {
		if !commandWord.MatchString(word) || !fits(word) {
			break
		}
		found.Command = append(found.Command, word)
	}
	for _, variable := range container.Env {
		value := variable.Value
		if from := variable.ValueFrom; from != nil && from.FieldRef != nil {
			value = podFields[from.FieldRef.FieldPath]
		}
		// Values from a Secret or a ConfigMap are not available, and Kubernetes' own variables point to the Pod's API server.
		if value == "" || strings.Contains(value, "$(") || strings.HasPrefix(variable.Name, "KUBERNETES_") ||
			strings.Contains(variable.Name, "=") || ownVariable.MatchString(variable.Name) {
			continue
		}
		if entry := variable.Name + "=" + value; fits(entry) {
			found.Environment = append(found.Environment, entry)
		}
	}
	return found
}

// OperatorOf finds the operator's container, which scaffolds call manager.
func OperatorOf(pod *corev1.PodSpec) (*corev1.Container, error) {
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == "manager" })
	switch {
	case i >= 0:
	case len(pod.Containers) == 1:
		i = 0
	default:
		return nil, &Problem{Reason: "no container in config/manager is called manager: " +
			"give this name to the operator's container"}
	}
	return &pod.Containers[i], nil
}

// Variables returns the environment of the program as a process of this machine: the variables of its Deployment, those
// of every operator, and more, as NAME=value. Later ones replace earlier ones of the same name. The only variable of
// the user's environment is PATH: the program gets no home folder, no other kubeconfig and no proxy.
func (b *Builder) Variables(kubeconfig string, more ...string) (all []string) {
	home := b.Home()
	for _, variable := range slices.Concat(b.Launch.Environment,
		[]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "KUBECONFIG=" + kubeconfig}, more) {
		name, _, _ := strings.Cut(variable, "=")
		all = append(slices.DeleteFunc(all, func(other string) bool { return strings.HasPrefix(other, name+"=") }), variable)
	}
	return all
}

// Exchange returns a folder in which the operator and the checks of its lab may write.
func (b *Builder) Exchange() string { return filepath.Join(b.Scope.Dir, "exchange") }

// Home returns the operator's home folder, which is its folder for temporary files as well.
func (b *Builder) Home() string { return filepath.Join(b.Scope.Dir, "tmp") }

// Data returns the folder in which an aggregated API server stores its objects by default.
func (b *Builder) Data() string { return filepath.Join(b.Scope.Dir, "server-data") }

// Writable returns the folders of the run in which the submission's program may write.
func (b *Builder) Writable() []string { return []string{b.Home(), b.Exchange(), b.Data()} }
