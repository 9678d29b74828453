// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webapp_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"
	frameworktypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/faults"
)

// sidecarPort is the port of an injected container.
const sidecarPort = 9090

// othersFields lets other clients set fields of the children that the spec does not determine. They are not the
// operator's: if it reset them, it would fight with their owners.
func othersFields() frameworktypes.Feature {
	return features.New("what others own is left alone").
		Assess("while image and port change", check.Assess(assess(func(v visit) {
			const contact, centre, restarted = "team.example.com/contact", "team.example.com/cost-centre",
				"team.example.com/restarted-at"
			sidecar := func(name string) corev1.Container {
				return corev1.Container{Name: name, Image: "registry.example.com/" + name + ":v1"}
			}
			a := v.planned()
			edited := v.editDeployment(a, func(d *appsv1.Deployment) {
				metav1.SetMetaDataAnnotation(&d.ObjectMeta, contact, "web-team")
				metav1.SetMetaDataLabel(&d.ObjectMeta, centre, "web")
				metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, restarted, "today")
				metav1.SetMetaDataLabel(&d.Spec.Template.ObjectMeta, centre, "web")
				pod := &d.Spec.Template.Spec
				own := &pod.Containers[ours(d, a.image)]
				own.Env = append(own.Env, corev1.EnvVar{Name: "REGION", Value: "north"})
				own.VolumeMounts = append(own.VolumeMounts, corev1.VolumeMount{Name: "team", MountPath: "/team"})
				pod.Volumes = append(pod.Volumes, corev1.Volume{
					Name: "team", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
				})
				pod.InitContainers = append(pod.InitContainers, sidecar("sunscreen"))
				parasol := sidecar("parasol")
				// A Service would forward to this port by its name.
				parasol.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: sidecarPort}}
				pod.Containers = append([]corev1.Container{parasol}, append(pod.Containers, sidecar("lantern"))...)
			})
			v.editService(a, func(s *corev1.Service) {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, contact, "web-team")
				metav1.SetMetaDataLabel(&s.ObjectMeta, centre, "web")
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			})
			lost := func() string {
				if wrong := v.town.wrong(a); wrong != "" {
					return wrong
				}
				d, _ := v.town.deployment(a)
				s, _ := v.town.service(a)
				lost := lostSidecars(d.Spec.Template.Spec.Containers, sidecar("parasol"), sidecar("lantern"))
				if len(lost) == 0 {
					lost = lostInPod(&edited.Spec.Template.Spec,
						&d.Spec.Template.Spec, &d.Spec.Template.Spec.Containers[ours(&d, a.image)])
				}
				for what, is := range map[string]bool{
					"an annotation of the Deployment is gone":                                 d.Annotations[contact] == "",
					"a label of the Deployment is gone":                                       d.Labels[centre] == "",
					"an annotation of the template (as of `kubectl rollout restart`) is gone": d.Spec.Template.Annotations[restarted] == "",
					"a label of the template is gone":                                         d.Spec.Template.Labels[centre] == "",
					"an annotation of the Service is gone":                                    s.Annotations[contact] == "",
					"a label of the Service is gone":                                          s.Labels[centre] == "",
					"the Service's sessionAffinity is no longer ClientIP":                     s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP,
				} {
					if is {
						lost = append(lost, what)
					}
				}
				slices.Sort(lost)
				return strings.Join(lost, "; ")
			}
			expected := fmt.Sprintf("what others have set in the children of %s stays: labels, annotations, "+
				"a container in front of its own and one behind it, an init container, a volume, "+
				"a variable and a mount of its own container, the session affinity", a.Name)
			v.Settle(v.ctx, v.t)
			v.eventually(0, expected, lost)
			a.before, a.image, a.port = append(a.before, a.image), v.town.drawImage(), v.town.ports.Draw()
			v.set(a)
			v.asSpecified(a)
			v.Settle(v.ctx, v.t)
			v.eventually(0, expected+", also when image and port have changed", lost)
		}))).
		Assess("also when it was set a moment ago", check.Assess(assess(editedWhileBehind))).
		Teardown(check.Teardown(func(ctx context.Context, c *check.Check) error { return c.Faults.Disarm(ctx) })).Feature()
}

// watchDelay is the delay with which the operator sees each change. editDelay is the time between a change of a WebApp
// and the edits of its children.
const (
	watchDelay = 400 * time.Millisecond
	editDelay  = 150 * time.Millisecond
)

// editedWhileBehind makes other clients edit the children of a WebApp after its spec has changed, and before the
// operator sees either change. When the operator sees the spec, its cache has the children from before the edits.
func editedWhileBehind(v visit) {
	const contact = "team.example.com/contact"
	a, b := v.planned(), v.town.draw(plans)
	v.forbidden(a)
	v.Settle(v.ctx, v.t)
	v.OK(v.t, "arming the faults", v.Faults.Arm(v.ctx, faults.Schedule{Faults: []faults.Fault{
		// The watch stays behind from the first write on.
		{Kind: faults.Stale, Class: faults.Write, Service: faults.API, For: metav1.Duration{Duration: watchDelay}},
	}}))
	v.create(b)
	v.asSpecified(b)
	a.before, a.image, a.port = append(a.before, a.image), v.town.drawImage(), v.town.ports.Draw()
	v.set(a)
	v.Pause(v.ctx, v.t, editDelay)
	lantern := corev1.Container{Name: "lantern", Image: "registry.example.com/lantern:v1"}
	v.editDeployment(a, func(d *appsv1.Deployment) {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, contact, "web-team")
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, lantern)
	})
	v.editService(a, func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, contact, "web-team") })
	v.asSpecified(a)
	v.OK(v.t, "disarming the faults", v.Faults.Disarm(v.ctx))
	v.Settle(v.ctx, v.t)
	v.asSpecified(a)
	d, _ := v.town.deployment(a)
	s, _ := v.town.service(a)
	lost := lostSidecars(d.Spec.Template.Spec.Containers, lantern)
	if d.Annotations[contact] == "" {
		lost = append(lost, "an annotation of the Deployment is gone")
	}
	if s.Annotations[contact] == "" {
		lost = append(lost, "an annotation of the Service is gone")
	}
	if len(lost) > 0 {
		v.Fail(v.t, fmt.Sprintf("what others have set in the children of %s stays, "+
			"also when the operator updates these children before its cache has the change", a.Name),
			strings.Join(lost, "; "))
	}
}

// lostInPod returns what has been lost of the fields that other clients have set in a Pod's template, apart from
// sidecars. own is the operator's container.
func lostInPod(edited, is *corev1.PodSpec, own *corev1.Container) (lost []string) {
	var before, after []string
	for _, c := range edited.Containers {
		before = append(before, c.Name)
	}
	for _, c := range is.Containers {
		after = append(after, c.Name)
	}
	if !slices.Equal(before, after) {
		lost = append(lost, fmt.Sprintf("the containers were %s, and are %s",
			strings.Join(before, ", "), strings.Join(after, ", ")))
	}
	for what, wrong := range map[string]bool{
		"the init container sunscreen, which was injected, is gone": slices.ContainsFunc(is.InitContainers,
			func(c corev1.Container) bool { return c.Name == "sunscreen" }),
		"the volume team is gone": slices.ContainsFunc(is.Volumes,
			func(volume corev1.Volume) bool { return volume.Name == "team" }),
		"the variable REGION of its own container is gone": slices.ContainsFunc(own.Env,
			func(e corev1.EnvVar) bool { return e.Name == "REGION" && e.Value == "north" }),
		"the mount of the volume in its own container is gone": slices.ContainsFunc(own.VolumeMounts,
			func(m corev1.VolumeMount) bool { return m.Name == "team" }),
	} {
		if !wrong {
			lost = append(lost, what)
		}
	}
	return lost
}

// lostSidecars returns what has been lost of injected containers.
func lostSidecars(containers []corev1.Container, injected ...corev1.Container) (lost []string) {
	for _, sidecar := range injected {
		i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == sidecar.Name })
		switch {
		case i < 0:
			lost = append(lost, fmt.Sprintf("the container %s, which was injected, is gone", sidecar.Name))
		case containers[i].Image != sidecar.Image:
			lost = append(lost, fmt.Sprintf("the container %s, which was injected, has the image %s instead of its own",
				sidecar.Name, containers[i].Image))
		}
	}
	return lost
}
