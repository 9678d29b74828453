// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package webapp_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	frameworktypes "sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
	"lva.io/operators/scripts/grading/faults"
)

// secondTry is how long an operator may take if its first create is refused. Kubernetes releases the node port of a
// deleted Service a moment later, and an operator does not retry at once.
const secondTry = 10 * time.Second

func deletedChild() frameworktypes.Feature {
	return features.New("a child that is deleted is made again").
		Assess("each alone, and both at once", check.Assess(assess(func(v visit) {
			a, b, c := v.planned(), v.planned(), v.planned()
			deployments, services := map[*app]types.UID{}, map[*app]types.UID{}
			for _, one := range []*app{a, c} {
				deployment, _ := v.town.deployment(one)
				deployments[one] = deployment.UID
			}
			for _, one := range []*app{b, c} {
				service, _ := v.town.service(one)
				services[one] = service.UID
			}
			v.Idle(v.ctx, v.t) // later requests respond to the deletions
			for one := range deployments {
				v.OK(v.t, "deleting a Deployment",
					v.town.Client.AppsV1().Deployments(plans).Delete(v.ctx, one.Name, metav1.DeleteOptions{}))
			}
			for one := range services {
				v.OK(v.t, "deleting a Service",
					v.town.Client.CoreV1().Services(plans).Delete(v.ctx, one.Name, metav1.DeleteOptions{}))
			}
			v.eventually(secondTry, fmt.Sprintf("the Deployment of %s, the Service of %s, and both of %s, "+
				"deleted by hand, are made again", a.Name, b.Name, c.Name), func() string {
				for _, one := range []*app{a, b, c} {
					if wrong := v.town.wrong(one); wrong != "" {
						return wrong
					}
					deployment, _ := v.town.deployment(one)
					service, _ := v.town.service(one)
					if deployment.UID == deployments[one] || service.UID == services[one] {
						return "the watch has not told of the deletion"
					}
				}
				return ""
			})
		}))).Feature()
}

func (v visit) editDeployment(a *app, change func(*appsv1.Deployment)) *appsv1.Deployment {
	v.t.Helper()
	edited, err := workload.Edit(v.ctx, v.town.Client.AppsV1().Deployments(a.Namespace), a.Name, change)
	v.OK(v.t, "editing a child of "+a.Name, err)
	return edited
}

func (v visit) editService(a *app, change func(*corev1.Service)) *corev1.Service {
	v.t.Helper()
	edited, err := workload.Edit(v.ctx, v.town.Client.CoreV1().Services(a.Namespace), a.Name, change)
	v.OK(v.t, "editing a child of "+a.Name, err)
	return edited
}

// ours returns the index of the WebApp's container.
func ours(d *appsv1.Deployment, image string) int {
	return max(0, slices.IndexFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return c.Image == image
	}))
}

// serviceEdits are hand edits of everything that an operator sets in a Service, except the protocol of its port. For an
// operator that uses apply, protocol and number are the key of a port: it must remove a port with an edited key first.
// The check requires this once, for the number of the Service's port, and not for the ports of the container.
var serviceEdits = append(slices.Clone(workload.ServiceEdits),
	workload.ServiceEdit{
		What: "the type was changed to LoadBalancer",
		Change: func(s *corev1.ServiceSpec, _ int32) {
			s.Type = corev1.ServiceTypeLoadBalancer
		},
	},
	workload.ServiceEdit{
		What: "a label of the selector was removed",
		Change: func(s *corev1.ServiceSpec, _ int32) {
			delete(s.Selector, slices.Sorted(maps.Keys(s.Selector))[0])
		},
	},
)

// handEdit is an edit of a child by hand. undone returns what is left of it. Empty: nothing.
type handEdit struct {
	what   string
	undone func() string
}

// drift edits one child of each of several WebApps: no other event triggers Reconcile for that WebApp.
func drift() frameworktypes.Feature {
	return features.New("a hand edit is undone").
		Assess("of whatever the spec says", check.Assess(assess(func(v visit) {
			foreign := v.town.drawImage()
			deployments := []struct {
				what   string
				change func(*appsv1.Deployment, *corev1.Container)
			}{
				{"the image was changed", func(_ *appsv1.Deployment, c *corev1.Container) { c.Image = foreign }},
				{"replicas were changed", func(d *appsv1.Deployment, _ *corev1.Container) { *d.Spec.Replicas += 3 }},
				{"replicas were changed to 0", func(d *appsv1.Deployment, _ *corev1.Container) { d.Spec.Replicas = new(int32(0)) }},
				{"the port of the container was renamed", func(_ *appsv1.Deployment, c *corev1.Container) {
					for i := range c.Ports {
						c.Ports[i].Name = fmt.Sprintf("edited-%d", i)
					}
				}},
			}
			var apps []*app
			for range len(deployments) + len(serviceEdits) {
				apps = append(apps, v.create(v.town.draw(plans)))
			}
			v.asSpecified(apps...)
			v.Idle(v.ctx, v.t)
			var edits []handEdit
			for i, edit := range deployments {
				a := apps[i]
				a.before = append(a.before, foreign)
				template := v.editDeployment(a, func(d *appsv1.Deployment) {
					edit.change(d, &d.Spec.Template.Spec.Containers[ours(d, a.image)])
				})
				edits = append(edits, handEdit{fmt.Sprintf("%s in the Deployment of %s", edit.what, a.Name), func() string {
					return v.town.deploymentEdited(a, template)
				}})
			}
			for i, edit := range serviceEdits {
				a := apps[len(deployments)+i]
				before, _ := v.town.service(a)
				edited := v.editService(a, func(s *corev1.Service) { edit.Change(&s.Spec, v.town.ports.Draw()) })
				edits = append(edits, handEdit{fmt.Sprintf("%s in the Service of %s", edit.What, a.Name), func() string {
					return v.town.serviceEdited(a, edited, &before.Spec)
				}})
			}
			var phrases []string
			for _, edit := range edits {
				phrases = append(phrases, edit.what)
			}
			v.eventually(0, strings.Join(phrases, ", ")+", all by hand, and the operator puts it back", func() string {
				for _, edit := range edits {
					if left := edit.undone(); left != "" {
						return edit.what + ", and " + left
					}
				}
				return ""
			})
		}))).
		Assess("also when that fails at first", check.Assess(assess(refusedRepairs))).
		Assess("and one of the status", check.Assess(assess(statusEdits))).Feature()
}

// statusText returns the content of a WebApp's status, without messages and times.
func statusText(object *unstructured.Unstructured) string {
	var parts []string
	for _, conditionType := range []string{availableType, degradedType} {
		if is, exists := workload.ConditionOf(object, conditionType); exists {
			parts = append(parts, fmt.Sprintf("%s: %s", conditionType, is.Status))
		}
	}
	replicas, _, _ := unstructured.NestedInt64(object.Object, "status", "replicas")
	selector, _, _ := unstructured.NestedString(object.Object, "status", "selector")
	return strings.Join(append(parts, fmt.Sprintf("replicas: %d", replicas), fmt.Sprintf("selector: %q", selector)), ", ")
}

// editedMessage is the message that another client writes into conditions.
const editedMessage = "another client has written this"

// statusEdits makes another client write the status of WebApps: the conditions, the numbers, only messages, or nothing
// at all. Other checks test whether the status was correct before.
func statusEdits(v visit) {
	apps := []*app{v.planned(), v.planned(), v.planned(), v.planned()}
	for _, a := range apps {
		v.forbidden(a)
	}
	v.Idle(v.ctx, v.t)
	read := func(a *app) *unstructured.Unstructured {
		object, err := v.town.Dynamic.Resource(webapps).Namespace(a.Namespace).Get(v.ctx, a.Name, metav1.GetOptions{})
		v.OK(v.t, "reading "+a.Name, err)
		return object
	}
	var conditions []string
	for _, conditionType := range []string{availableType, degradedType} {
		if is, exists := workload.ConditionOf(read(apps[0]), conditionType); exists {
			other := map[string]string{"True": "False"}[is.Status]
			if other == "" {
				other = "True"
			}
			conditions = append(conditions, fmt.Sprintf(
				`{"type":%q,"status":%q,"observedGeneration":%d,"lastTransitionTime":%q,"reason":"Edited","message":%q}`,
				conditionType, other, is.ObservedGeneration, time.Now().UTC().Format(time.RFC3339), editedMessage))
		}
	}
	if len(conditions) == 0 {
		return // then there is no status that the operator could restore
	}
	patches := []string{
		fmt.Sprintf(`{"status":{"conditions":[%s]}}`, strings.Join(conditions, ",")),
		`{"status":{"replicas":7,"selector":"app=nobody"}}`,
		`{"status":null}`,
	}
	messages := ""
	if is, exists := workload.ConditionOf(read(apps[3]), degradedType); exists && is.Status != "True" {
		patch, err := workload.ConditionsPatch(read(apps[3]),
			func(condition map[string]any) { condition["message"] = editedMessage })
		v.OK(v.t, "writing a patch", err)
		patches, messages = append(patches, string(patch)), ", changed the messages of the conditions of "+apps[3].Name
	} else { // An operator may ignore changes of a message that differs at each try. The next try corrects it.
		apps = apps[:3]
	}
	before, edited := map[*app]string{}, map[*app]*unstructured.Unstructured{}
	for i, a := range apps {
		before[a] = statusText(read(a))
		object, err := v.town.Dynamic.Resource(webapps).Namespace(a.Namespace).Patch(v.ctx, a.Name,
			types.MergePatchType, []byte(patches[i]), metav1.PatchOptions{}, "status")
		v.OK(v.t, "writing the status of "+a.Name, err)
		edited[a] = object
	}
	expected := fmt.Sprintf("another client has written the conditions of %s, replicas and selector of %s%s, "+
		"and removed the status of %s, and the operator puts it back", apps[0].Name, apps[1].Name, messages, apps[2].Name)
	v.eventually(statusPatience, expected, func() string {
		for _, a := range apps {
			object, exists := v.town.Get(a.NamespacedName)
			if !exists || !workload.Newer(object, edited[a]) {
				return fmt.Sprintf("the operator has not written the status of %s since, which tells %s",
					a.Name, statusText(edited[a]))
			}
			if is := statusText(object); is != before[a] {
				return fmt.Sprintf("the status of %s tells %s, and before that it told %s", a.Name, is, before[a])
			}
			if left := workload.HasMessage(object, editedMessage, availableType, degradedType); left != "" {
				return left
			}
		}
		return ""
	})
}

// deploymentEdited returns what is left of a hand edit of a Deployment. Empty: nothing. An edit may have changed
// nothing.
func (t *town) deploymentEdited(a *app, edited *appsv1.Deployment) string {
	if wrong := t.wrong(a); wrong != "" {
		return wrong
	}
	if now, _ := t.deployment(a); now.ResourceVersion != edited.ResourceVersion && !workload.Newer(&now, edited) {
		return workload.Unseen
	}
	return ""
}

// serviceEdited returns what is left of a hand edit of a Service that had this spec. Empty: nothing.
func (t *town) serviceEdited(a *app, edited *corev1.Service, before *corev1.ServiceSpec) string {
	if wrong := t.wrong(a); wrong != "" {
		return wrong
	}
	now, _ := t.service(a)
	return workload.Unrestored(&now, edited, before)
}

// refusedRepairs makes the only writes that matter fail: those that undo a hand edit. Nothing else happens that would
// give an operator that drops an error another chance, because the status does not change.
func refusedRepairs(v visit) {
	a, b := v.planned(), v.planned()
	service, _ := v.town.service(b)
	foreign := v.town.drawImage()
	a.before = append(a.before, foreign)
	var template *appsv1.Deployment
	var edited *corev1.Service
	v.RefusedAtFirst(v.ctx, v.t, faults.ServerError, faults.Write, func() {
		template = v.editDeployment(a, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[ours(d, a.image)].Image = foreign
		})
		edited = v.editService(b, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "nobody"} })
	})
	expected := fmt.Sprintf("the image of the Deployment of %s and the selector of the Service of %s were changed "+
		"by hand, the API server answered what the operator wrote then with an error, "+
		"and when it does so no longer the operator puts both back", a.Name, b.Name)
	v.eventually(0, expected, func() string {
		if left := v.town.deploymentEdited(a, template); left != "" {
			return left
		}
		return v.town.serviceEdited(b, edited, &service.Spec)
	})
}
