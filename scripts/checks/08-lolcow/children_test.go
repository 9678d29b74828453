// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lolcow_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/audit"
	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/workload"
)

// deployment is the only Deployment of a cow, and service its only Service. wrong says what is there instead.
func (h *herd) deployment(c *cow) (found appsv1.Deployment, wrong string) {
	return workload.OnlyChild[appsv1.Deployment](h.Owners, workload.Deployments, "Deployment", c.object)
}

func (h *herd) service(c *cow) (found corev1.Service, wrong string) {
	return workload.OnlyChild[corev1.Service](h.Owners, workload.Services, "Service", c.object)
}

// greets reports whether the template of a Pod hands a greeting to the server: in an environment variable, where $$ stands for $, or in an
// argument.
func greets(pod *corev1.PodSpec, greeting string) bool {
	return slices.ContainsFunc(pod.Containers, func(container corev1.Container) bool {
		values := slices.Concat(container.Command, container.Args)
		for _, variable := range container.Env {
			values = append(values, variable.Value)
		}
		return slices.ContainsFunc(values, func(value string) bool {
			return strings.Contains(value, greeting) || strings.Contains(strings.ReplaceAll(value, "$$", "$"), greeting)
		})
	})
}

// wrong says what is wrong with the children of a cow that lives; empty: they are as its spec says.
func (h *herd) wrong(c *cow) string {
	deployment, wrong := h.deployment(c)
	if wrong != "" {
		return wrong
	}
	service, wrong := h.service(c)
	if wrong != "" {
		return wrong
	}
	template := &deployment.Spec.Template
	if c.greeting != "" && !greets(&template.Spec, c.greeting) {
		return fmt.Sprintf("the template of the Deployment %s does not have the greeting %q in an environment variable or an argument", deployment.Name, c.greeting)
	}
	return workload.WrongService(&service, c.port, template)
}

// asSpecified waits until the children of cows are as their specs say.
func (v visit) asSpecified(cows ...*cow) {
	v.t.Helper()
	v.asSpecifiedWithin(0, cows...)
}

// asSpecifiedWithin is asSpecified for an operator that may be silent for longer; 0: for no longer than usual.
func (v visit) asSpecifiedWithin(patience time.Duration, cows ...*cow) {
	v.t.Helper()
	var wants []string
	for _, c := range cows {
		greeting := fmt.Sprintf(" with the greeting %q", c.greeting)
		if c.greeting == "" {
			greeting = ""
		}
		wants = append(wants, fmt.Sprintf("%s has one Deployment%s, and one Service of type NodePort at %d for its Pods", c.Name, greeting, c.port))
	}
	look := func() (string, bool) {
		for _, c := range cows {
			if wrong := v.herd.wrong(c); wrong != "" {
				return wrong, false
			}
		}
		return "", true
	}
	if patience == 0 {
		v.Eventually(v.ctx, v.t, strings.Join(wants, "; "), v.herd.Changed, look)
		return
	}
	v.EventuallyWithin(v.ctx, v.t, strings.Join(wants, "; "), patience, v.herd.Changed, look)
}

func children() types.Feature {
	return features.New("a Lolcow has a Deployment and a Service").
		Assess("of what its spec says", check.Assess(assess(func(v visit) {
			c := v.penned()
			v.victims() // for later checks
			v.foreigners()
			v.Settle(v.ctx, v.t)
			if wrong := v.herd.wrong(c); wrong != "" {
				v.Fail(v.t, "the children of "+c.Name+" stay as they are", wrong)
			}
		}))).Feature()
}

func owner() types.Feature {
	return features.New("a Lolcow is the controller of its children").
		Assess("by their owner references", check.Assess(assess(func(v visit) {
			c := v.penned()
			v.Settle(v.ctx, v.t) // an operator may write the owner references after the rest
			deployment, _ := v.herd.deployment(c)
			service, _ := v.herd.service(c)
			for _, child := range []struct {
				what string
				metav1.Object
			}{{"Deployment", &deployment}, {"Service", &service}} {
				expected := fmt.Sprintf("the %s %s has %s as its controller (metadata.ownerReferences)", child.what, child.GetName(), c.Name)
				references := child.GetOwnerReferences()
				i := slices.IndexFunc(references, func(r metav1.OwnerReference) bool { return r.UID == c.object.GetUID() })
				switch {
				case i < 0:
					v.Fail(v.t, expected, fmt.Sprintf("it has %s, and none is %s", workload.Counted(len(references), "owner"), c.Name))
				case references[i].APIVersion != kind.GroupVersion().String() || references[i].Kind != kind.Kind || references[i].Name != c.Name:
					v.Fail(v.t, expected, fmt.Sprintf("its owner has the right UID, and is called %s %s of %s", references[i].Kind, references[i].Name, references[i].APIVersion))
				case references[i].Controller == nil || !*references[i].Controller:
					v.Fail(v.t, expected, c.Name+" is an owner of it, and not its controller")
				}
			}
			v.remove(c)
			v.herd.orphan, v.herd.orphaned = c, []apitypes.UID{deployment.UID, service.UID}
		}))).Feature()
}

// The garbage collector asks only every 30 s which kinds there are (k8s.io/kubernetes/cmd/kube-controller-manager/app, startGarbageCollectorController),
// and looks at what it did not know later and later: a kind that has just been defined would be waited for longer than all other checks take.
// So it is asked here whether it may delete the children, by its own rule, and then they are deleted as it does.
func collected() types.Feature {
	return features.New("children go with their Lolcow").
		Assess("by the garbage collector", check.Assess(assess(func(v visit) {
			c := v.herd.orphan
			if c == nil {
				v.Fail(v.t, "a Lolcow was deleted", "none was")
			}
			expected := fmt.Sprintf("the Deployment and the Service of %s go with it", c.Name)
			v.gone(c)
			kept, err := v.herd.Kept(v.ctx, c.object, v.herd.orphaned...)
			v.OK(v.t, "asking for the owners of the children of "+c.Name, err)
			if kept != "" {
				v.Fail(v.t, expected, c.Name+" has gone; "+kept)
			}
			v.collect(c)
			// With a finalizer of somebody else it is there for a while after it was deleted, and its children may go before it.
			d := v.penned()
			v.keep(d)
			defer v.release(d)
			v.OK(v.t, "removing the children of "+d.Name, v.herd.Collect(v.ctx, d.object))
			v.staysGone(c, d)
		}))).Feature()
}

// keep deletes a Lolcow that a finalizer keeps, until it is released.
func (v visit) keep(c *cow) {
	v.t.Helper()
	_, err := v.herd.Patch(v.ctx, c.NamespacedName, `{"metadata":{"finalizers":["example.com/keep-it"]}}`)
	v.OK(v.t, "adding a finalizer", err)
	v.remove(c)
	v.EventuallyWithin(v.ctx, v.t, c.Name+" is being deleted", gonePatience, v.herd.Changed, func() (string, bool) {
		object, there := v.herd.Get(c.NamespacedName)
		return "it is not", there && object.GetDeletionTimestamp() != nil
	})
}

func (v visit) release(c *cow) {
	v.t.Helper()
	_, err := v.herd.Patch(v.ctx, c.NamespacedName, `{"metadata":{"finalizers":null}}`)
	v.OK(v.t, "removing the finalizer", workload.IgnoreGone(err))
}

// gonePatience is how long a Lolcow that is deleted may take to go.
const gonePatience = 10 * time.Second

// collect removes the children of a Lolcow that was deleted, as the garbage collector would if it knew the kind by now.
func (v visit) collect(c *cow) {
	v.t.Helper()
	v.gone(c)
	v.OK(v.t, "removing the children of "+c.Name, v.herd.Collect(v.ctx, c.object))
}

// gone waits until a Lolcow that was deleted has gone.
func (v visit) gone(c *cow) {
	v.t.Helper()
	v.EventuallyWithin(v.ctx, v.t, c.Name+" goes", gonePatience, v.herd.Changed, func() (string, bool) {
		_, there := v.herd.Get(c.NamespacedName)
		return "it is still there", !there
	})
}

// left says which children a cow has left; true: none.
func (h *herd) left(c *cow) (string, bool) {
	deployments := len(workload.Children[appsv1.Deployment](h.Owners, workload.Deployments, c.object))
	services := len(workload.Children[corev1.Service](h.Owners, workload.Services, c.object))
	return fmt.Sprintf("there is %s, and there is %s", workload.Counted(deployments, "Deployment"), workload.Counted(services, "Service")), deployments+services == 0
}

// staysGone fails if the operator goes on making children for Lolcows that are gone, or are being deleted. That it has made one when its cache was behind is nobody's
// fault: the garbage collector finds that, too.
func (v visit) staysGone(cows ...*cow) {
	v.t.Helper()
	const most = 2
	for n := 0; ; n++ {
		v.Settle(v.ctx, v.t)
		all := true
		for _, c := range cows {
			left, none := v.herd.left(c)
			if none {
				continue
			}
			if n == most {
				how := "has gone"
				if _, there := v.herd.Get(c.NamespacedName); there {
					how = "is being deleted"
				}
				v.Fail(v.t, fmt.Sprintf("nothing is made for %s, which %s", c.Name, how), left)
			}
			all = false
			v.OK(v.t, "removing the children of "+c.Name, v.herd.Collect(v.ctx, c.object))
		}
		if all {
			return
		}
	}
}

// loss is what somebody deletes of the children of a cow.
type loss struct {
	of         *cow
	deletes    []string // Deployment, Service
	deployment appsv1.Deployment
	service    corev1.Service
}

func deletedChild() types.Feature {
	return features.New("a child that is deleted is made again").
		Assess("each alone, and both at once", check.Assess(assess(func(v visit) {
			v.begin()
			var losses []*loss
			for i, deletes := range [][]string{{"Service"}, {"Deployment"}, {"Deployment", "Service"}} {
				losses = append(losses, &loss{of: v.victims()[i], deletes: deletes})
			}
			for _, l := range losses {
				v.asSpecified(l.of)
				v.forbidden(l.of)
				v.done(l.of, doneWindow) // what comes now is an answer to the deletion, not to what the operator itself wrote
				l.deployment, _ = v.herd.deployment(l.of)
				l.service, _ = v.herd.service(l.of)
			}
			for _, l := range losses {
				if slices.Contains(l.deletes, "Deployment") {
					v.OK(v.t, "deleting the Deployment", v.herd.Client.AppsV1().Deployments(l.of.Namespace).Delete(v.ctx, l.deployment.Name, metav1.DeleteOptions{}))
				}
				if slices.Contains(l.deletes, "Service") {
					v.OK(v.t, "deleting the Service", v.herd.Client.CoreV1().Services(l.of.Namespace).Delete(v.ctx, l.service.Name, metav1.DeleteOptions{}))
				}
			}
			for _, l := range losses {
				v.isMadeAgain(l)
			}
		}))).Feature()
}

// forbidden waits until the Deployment of a cow tells that a quota lets no Pod run: then nothing more changes in it.
// Kubernetes' own controllers write that, and not the operator.
func (v visit) forbidden(c *cow) {
	v.t.Helper()
	v.EventuallyWithin(v.ctx, v.t, "the Deployment of "+c.Name+" tells of the quota", podPatience, v.herd.Changed, func() (string, bool) {
		deployment, wrong := v.herd.deployment(c)
		return "it does not", wrong != "" || workload.Forbidden(&deployment)
	})
}

func (v visit) isMadeAgain(l *loss) {
	v.t.Helper()
	expected := fmt.Sprintf("the %s of %s, deleted by hand, is made again", strings.Join(l.deletes, " and the "), l.of.Name)
	v.Eventually(v.ctx, v.t, expected, v.herd.Changed, func() (string, bool) {
		if wrong := v.herd.wrong(l.of); wrong != "" {
			return wrong, false
		}
		deployment, _ := v.herd.deployment(l.of)
		service, _ := v.herd.service(l.of)
		behind := slices.Contains(l.deletes, "Deployment") && deployment.UID == l.deployment.UID || slices.Contains(l.deletes, "Service") && service.UID == l.service.UID
		return workload.Unseen, !behind
	})
}

// victims are Lolcows of the paddock whose children are deleted and edited by hand, those of each in another way at the same time. They are made
// before they are needed: a Deployment whose Pods a quota forbids changes for some seconds after the start of the cluster.
func (v visit) victims() []*cow {
	v.t.Helper()
	for len(v.herd.victims) < max(len(drifts), len(serviceEdits)) {
		v.herd.victims = append(v.herd.victims, v.make(v.herd.draw(paddock)))
	}
	return v.herd.victims
}

// putBack lets somebody edit a child of several victims, and waits until the operator has undone it all. edit is edit number i; told are the words
// for it, and wrong says what is not as it was before.
func (v visit) putBack(edits int, edit func(i int, c *cow) (told string, wrong func() string)) {
	v.t.Helper()
	cows := v.victims()
	v.asSpecified(cows...)
	for _, c := range cows {
		v.done(c, doneSoon) // what comes now is an answer to the edits
	}
	told, wrong := make([]string, edits), make([]func() string, edits)
	for n, i := range v.herd.random.Perm(edits) {
		told[n], wrong[n] = edit(i, cows[n])
	}
	for n := range edits {
		expected := fmt.Sprintf("%s of %s by hand, and the operator puts it back", told[n], cows[n].Name)
		v.Eventually(v.ctx, v.t, expected, v.herd.Changed, func() (string, bool) {
			observed := v.herd.wrong(cows[n])
			if observed == "" {
				observed = wrong[n]()
			}
			return observed, observed == ""
		})
	}
}

func (v visit) editDeployment(c *cow, change func(*appsv1.Deployment)) *appsv1.Deployment {
	v.t.Helper()
	found, wrong := v.herd.deployment(c)
	if wrong != "" {
		v.Fail(v.t, c.Name+" has one Deployment", wrong)
	}
	edited, err := workload.Edit(v.ctx, v.herd.Client.AppsV1().Deployments(c.Namespace), found.Name, change)
	v.OK(v.t, "editing the Deployment "+found.Name, err)
	return edited
}

func (v visit) editService(c *cow, change func(*corev1.Service)) *corev1.Service {
	v.t.Helper()
	found, wrong := v.herd.service(c)
	if wrong != "" {
		v.Fail(v.t, c.Name+" has one Service", wrong)
	}
	edited, err := workload.Edit(v.ctx, v.herd.Client.CoreV1().Services(c.Namespace), found.Name, change)
	v.OK(v.t, "editing the Service "+found.Name, err)
	return edited
}

// drift is a hand edit of a template, in the words of who tells of it.
type drift struct {
	what   string
	change func(pod *corev1.PodSpec, greeting string)
}

var drifts = []drift{
	{"the image was changed to operator-labs/lolcow:v0", func(pod *corev1.PodSpec, _ string) { pod.Containers[0].Image = "operator-labs/lolcow:v0" }},
	{"the greeting was replaced by \"I am a horse\"", func(pod *corev1.PodSpec, greeting string) { regreet(pod, greeting, "I am a horse") }},
	{"the environment and the arguments were removed", func(pod *corev1.PodSpec, _ string) {
		pod.Containers[0].Env, pod.Containers[0].Args, pod.Containers[0].Command = nil, nil, nil
	}},
	{"the port of the container was renamed to horse", func(pod *corev1.PodSpec, _ string) {
		for i := range pod.Containers[0].Ports {
			pod.Containers[0].Ports[i].Name = fmt.Sprintf("horse-%d", i)
		}
	}},
	{"the port of the container was changed to 9090, with the name horse", func(pod *corev1.PodSpec, _ string) {
		for i := range pod.Containers[0].Ports {
			pod.Containers[0].Ports[i].Name, pod.Containers[0].Ports[i].ContainerPort = fmt.Sprintf("horse-%d", i), int32(9090+i) //nolint:gosec // there are few
		}
	}},
	{"the ports of the container were removed", func(pod *corev1.PodSpec, _ string) { pod.Containers[0].Ports = nil }},
}

// lostPort is the name of a port that a container had and no longer has; empty: there is none. A port that another client has added
// may stay.
func lostPort(had, has []corev1.ContainerPort) string {
	for _, port := range had {
		if !slices.Contains(has, port) {
			return fmt.Sprintf("%d (%q)", port.ContainerPort, port.Name)
		}
	}
	return ""
}

// regreet replaces a greeting wherever a container has it.
func regreet(pod *corev1.PodSpec, old, greeting string) {
	content, err := json.Marshal(pod.Containers)
	if err != nil {
		return
	}
	var containers []corev1.Container
	if json.Unmarshal([]byte(strings.ReplaceAll(string(content), old, greeting)), &containers) == nil {
		pod.Containers = containers
	}
}

func driftTemplate() types.Feature {
	return features.New("a hand edit of the template is undone").
		Assess("of the image, the greeting and the ports", check.Assess(assess(func(v visit) {
			image := func(d *appsv1.Deployment) string { return d.Spec.Template.Spec.Containers[0].Image }
			v.putBack(len(drifts), func(i int, c *cow) (told string, wrong func() string) {
				v.t.Helper()
				var before string
				var ports []corev1.ContainerPort
				var same bool // an operator that states no ports has none to repair
				edited := v.editDeployment(c, func(d *appsv1.Deployment) {
					unedited := d.Spec.Template.DeepCopy()
					before, ports = image(d), unedited.Spec.Containers[0].Ports
					drifts[i].change(&d.Spec.Template.Spec, c.greeting)
					same = reflect.DeepEqual(unedited, &d.Spec.Template)
				})
				return drifts[i].what + " in the Deployment", func() string {
					now, _ := v.herd.deployment(c)
					lost := lostPort(ports, now.Spec.Template.Spec.Containers[0].Ports)
					switch {
					case same:
						return ""
					case image(&now) != before:
						return "the image of the Deployment is " + image(&now)
					case lost != "":
						return "the container of the Deployment does not have its port " + lost
					case !workload.Newer(&now, edited):
						return workload.Unseen
					}
					return ""
				}
			})
		}))).Feature()
}

// serviceEdits are hand edits of all that an operator says of a Service.
var serviceEdits = append(slices.Clone(workload.ServiceEdits), workload.ServiceEdit{
	What: "the label app=nobody was added to the selector", Change: func(s *corev1.ServiceSpec, _ int32) { s.Selector["app"] = "nobody" },
})

func driftService() types.Feature {
	return features.New("a hand edit of the Service is undone").
		Assess("of its selector, its port, and its type", check.Assess(assess(func(v visit) {
			v.putBack(len(serviceEdits), func(i int, c *cow) (told string, wrong func() string) {
				v.t.Helper()
				var before corev1.ServiceSpec
				edited := v.editService(c, func(s *corev1.Service) {
					before = *s.Spec.DeepCopy()
					serviceEdits[i].Change(&s.Spec, v.herd.ports.Draw())
				})
				return serviceEdits[i].What + " in the Service", func() string {
					now, _ := v.herd.service(c)
					target := now.Spec.Ports[0].TargetPort
					switch {
					case !reflect.DeepEqual(now.Spec.Selector, before.Selector) || target != before.Ports[0].TargetPort:
						return fmt.Sprintf("the Service %s has the selector %s and the targetPort %s", now.Name, labels.Set(now.Spec.Selector), target.String())
					case !workload.Newer(&now, edited):
						return workload.Unseen
					}
					return ""
				}
			})
			v.herd.victims = nil // no check after this one needs them
		}))).Feature()
}

// Whoever has no stake in a field leaves it alone. What others own is not the operator's, and a repair would be a fight.
func othersFields() types.Feature {
	return features.New("what others own is left alone").
		Assess("while the greeting changes", check.Assess(assess(func(v visit) {
			v.begin()
			c := v.penned()
			deployment, _ := v.herd.deployment(c)
			deployments := v.herd.Client.AppsV1().Deployments(c.Namespace)
			replicas := int32(2 + v.herd.random.IntN(3)) //nolint:gosec // it is below 5
			v.forbidden(c)
			v.done(c, doneSoon) // what it writes from now on is an answer to what others do
			edited := v.Audit.Now()
			_, err := deployments.Patch(v.ctx, deployment.Name, apitypes.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas),
				metav1.PatchOptions{FieldManager: autoscaler}, "scale")
			v.OK(v.t, "scaling the Deployment", err)
			v.editDeployment(c, func(d *appsv1.Deployment) {
				metav1.SetMetaDataAnnotation(&d.ObjectMeta, "team.example.com/contact", "herders")
				metav1.SetMetaDataLabel(&d.ObjectMeta, "team.example.com/cost-centre", "milk")
				metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, "team.example.com/restarted-at", "today")
				metav1.SetMetaDataLabel(&d.Spec.Template.ObjectMeta, "team.example.com/cost-centre", "milk")
				d.Spec.Template.Spec.InitContainers = append(d.Spec.Template.Spec.InitContainers, corev1.Container{Name: "sunscreen", Image: "operator-labs/lolcow:v1", Args: []string{":9092"}})
				d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "parasol", Image: "operator-labs/lolcow:v1", Args: []string{":9090"}})
			})
			v.editService(c, func(s *corev1.Service) {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, "team.example.com/contact", "herders")
				metav1.SetMetaDataLabel(&s.ObjectMeta, "team.example.com/cost-centre", "milk")
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			})
			stays := func() (string, bool) {
				if wrong := v.herd.wrong(c); wrong != "" {
					return wrong, false
				}
				now, _ := v.herd.deployment(c)
				page, _ := v.herd.service(c)
				var lost []string
				lose := func(is bool, what string) {
					if is {
						lost = append(lost, what)
					}
				}
				lose(now.Spec.Replicas == nil || *now.Spec.Replicas != replicas, fmt.Sprintf("spec.replicas, which an autoscaler set to %d, is %d", replicas, deref(now.Spec.Replicas)))
				lose(now.Annotations["team.example.com/contact"] == "", "an annotation of the Deployment is gone")
				lose(now.Labels["team.example.com/cost-centre"] == "", "a label of the Deployment is gone")
				lose(now.Spec.Template.Annotations["team.example.com/restarted-at"] == "", "an annotation of the template (as of `kubectl rollout restart`) is gone")
				lose(now.Spec.Template.Labels["team.example.com/cost-centre"] == "", "a label of the template is gone")
				lose(!slices.ContainsFunc(now.Spec.Template.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == "sunscreen" }), "the init container sunscreen, which was injected, is gone")
				lose(page.Labels["team.example.com/cost-centre"] == "", "a label of the Service is gone")
				lose(!slices.ContainsFunc(now.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return c.Name == "parasol" }), "the container parasol, which was injected, is gone")
				lose(page.Annotations["team.example.com/contact"] == "", "an annotation of the Service is gone")
				lose(page.Spec.SessionAffinity != corev1.ServiceAffinityClientIP, "the Service's sessionAffinity, which somebody has set, is "+string(page.Spec.SessionAffinity))
				return strings.Join(lost, "; "), len(lost) == 0
			}
			expected := fmt.Sprintf("what others have set in the children of %s stays: replicas, labels, annotations, a container, the session affinity", c.Name)
			v.Settle(v.ctx, v.t)
			v.Eventually(v.ctx, v.t, expected, v.herd.Changed, stays)
			if writes := v.childWrites(c, edited); len(writes) > 0 {
				v.Fail(v.t, fmt.Sprintf("the operator writes nothing to the children of %s, of which others have set only what is not the operator's", c.Name),
					fmt.Sprintf("it sent %d writes", len(writes)), audit.Lines(writes)...)
			}
			v.say(c, v.herd.drawGreeting())
			v.Eventually(v.ctx, v.t, expected+", also when the greeting changes", v.herd.Changed, stays)
			v.Settle(v.ctx, v.t)
			if observed, ok := stays(); !ok {
				v.Fail(v.t, expected, observed)
			}
			now, _ := v.herd.deployment(c)
			if managers := managersOfReplicas(&now); len(managers) > 0 {
				v.Fail(v.t, fmt.Sprintf("the operator does not own spec.replicas of the Deployment %s, which an autoscaler has set", now.Name),
					fmt.Sprintf("in metadata.managedFields %s has it: the operator has written the number that it has read, and the next client that sets another one gets a conflict",
						strings.Join(managers, ", ")))
			}
		}))).Feature()
}

// autoscaler is the field manager that scales a Deployment.
const autoscaler = "horizontal-pod-autoscaler"

// managersOfReplicas are the field managers besides the autoscaler that own the number of replicas.
func managersOfReplicas(d *appsv1.Deployment) (managers []string) {
	for _, entry := range d.ManagedFields {
		if entry.Manager != autoscaler && entry.Subresource == "" && entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:replicas"`) {
			managers = append(managers, entry.Manager)
		}
	}
	return managers
}

// childWrites are the operator's writes to the children of a cow since a mark.
func (v visit) childWrites(c *cow, since audit.Mark) []audit.Event {
	return v.Audit.Since(since, v.ByOperator().And(audit.Writes, func(e audit.Event) bool {
		return (e.Resource == "deployments" || e.Resource == "services") && e.Namespace == c.Namespace && e.Name == c.Name
	}))
}

func deref(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func selectors() types.Feature {
	return features.New("selectors never change").
		Assess("when the greeting and the port do", check.Assess(assess(func(v visit) {
			v.begin()
			c := v.penned()
			before, _ := v.herd.deployment(c)
			page, _ := v.herd.service(c)
			v.byBothLabels(c, &before, &page)
			for range 2 {
				v.say(c, v.herd.drawGreeting())
				v.move(c, v.herd.ports.Draw())
				v.asSpecified(c)
			}
			v.Settle(v.ctx, v.t)
			v.asSpecified(c)
			after, _ := v.herd.deployment(c)
			pageAfter, _ := v.herd.service(c)
			const expected = "greeting and port change, and the Deployment stays the same object, with the same selector; the Service selects the same Pods"
			switch {
			case after.UID != before.UID:
				v.Fail(v.t, expected, "the Deployment was deleted and made again: all its Pods ended at once")
			case !reflect.DeepEqual(after.Spec.Selector, before.Spec.Selector):
				v.Fail(v.t, expected, "the selector of the Deployment was changed")
			case !reflect.DeepEqual(page.Spec.Selector, pageAfter.Spec.Selector):
				v.Fail(v.t, expected, fmt.Sprintf("the selector of the Service was changed from %s to %s: until the rollout is done it selects no Pod, or one that nobody asked for",
					labels.Set(page.Spec.Selector), labels.Set(pageAfter.Spec.Selector)))
			}
		}))).Feature()
}

// The labels that select the Pods of a Lolcow.
const (
	nameLabel     = "app.kubernetes.io/name"
	instanceLabel = "app.kubernetes.io/instance"
)

// podLabels are the labels of the Pods of a cow.
func (c *cow) podLabels() map[string]string {
	return map[string]string{nameLabel: "lolcow", instanceLabel: c.Name}
}

// byBothLabels fails unless the Pods of a cow have both labels, and each selector asks for both: with one alone, Pods of other applications
// would be selected as well.
func (v visit) byBothLabels(c *cow, deployment *appsv1.Deployment, service *corev1.Service) {
	v.t.Helper()
	expected := fmt.Sprintf("the labels %s select the Pods of %s: in the template and in both selectors", labels.Set(c.podLabels()), c.Name)
	for what, has := range map[string]map[string]string{
		"the template of the Deployment": deployment.Spec.Template.Labels,
		"the selector of the Deployment": deployment.Spec.Selector.MatchLabels,
		"the selector of the Service":    service.Spec.Selector,
	} {
		for name, value := range c.podLabels() {
			if has[name] != value {
				v.Fail(v.t, expected, fmt.Sprintf("%s has %s", what, labels.Set(has)))
			}
		}
	}
}

// apart fails unless no selector of one cow matches Pods of the other.
func (v visit) apart(a, b *cow) {
	v.t.Helper()
	for _, pair := range [][2]*cow{{a, b}, {b, a}} {
		one, _ := v.herd.deployment(pair[0])
		page, _ := v.herd.service(pair[0])
		other, _ := v.herd.deployment(pair[1])
		overlap, err := workload.Overlap(pair[0].Name, &page, &one, pair[1].Name, &other)
		v.OK(v.t, "reading a selector", err)
		if overlap != "" {
			v.Fail(v.t, fmt.Sprintf("no selector of %s matches Pods of %s", pair[0].Name, pair[1].Name), overlap)
		}
	}
}

func twoLolcows() types.Feature {
	return features.New("two Lolcows never meet").
		Assess("in one namespace", check.Assess(assess(func(v visit) {
			v.begin()
			v.occupy() // for the check port-taken
			a, b := v.penned(), v.penned()
			v.asSpecified(a, b)
			v.apart(a, b)
			v.say(a, v.herd.drawGreeting())
			v.asSpecified(a, b)
			v.remove(a)
			v.Settle(v.ctx, v.t)
			v.asSpecified(b)
		}))).
		Assess("when one has the name of one that was there before", check.Assess(assess(func(v visit) {
			before := v.penned()
			deployment, _ := v.herd.deployment(before)
			service, _ := v.herd.service(before)
			v.remove(before)
			again := &cow{NamespacedName: before.NamespacedName, greeting: v.herd.drawGreeting(), port: v.herd.ports.Draw()}
			v.gone(before)
			v.make(again)
			v.Settle(v.ctx, v.t)
			v.notAdopted(again, deployment.UID, service.UID)
			// The children of the one before are the garbage collector's. Then there is room for others.
			v.OK(v.t, "removing the children of the one before", v.herd.Collect(v.ctx, before.object, deployment.UID, service.UID))
			// Whether the operator notices that by itself is for deleted-child.
			v.say(again, v.herd.drawGreeting())
			v.asSpecifiedWithin(healPatience, again)
		}))).Feature()
}

// notAdopted fails if children of an earlier Lolcow of the same name are now those of another one.
func (v visit) notAdopted(c *cow, born ...apitypes.UID) {
	v.t.Helper()
	deployment, _ := workload.Named[appsv1.Deployment](v.herd.Owners, workload.Deployments, c.NamespacedName)
	service, _ := workload.Named[corev1.Service](v.herd.Owners, workload.Services, c.NamespacedName)
	for what, child := range map[string]metav1.Object{"Deployment": &deployment, "Service": &service} {
		adopted := slices.ContainsFunc(child.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == c.object.GetUID() })
		if adopted && slices.Contains(born, child.GetUID()) {
			v.Fail(v.t, fmt.Sprintf("the %s %s belongs to an earlier Lolcow of that name, with another UID, and is left alone", what, c.Name),
				"its metadata.ownerReferences have the new Lolcow: it was adopted")
		}
	}
}

func namespaces() types.Feature {
	return features.New("namespaces are apart").
		Assess("two Lolcows of one name", check.Assess(assess(func(v visit) {
			v.begin()
			a := v.penned()
			b := v.herd.draw(stable)
			b.Name = a.Name
			v.make(b)
			v.asSpecified(a, b)
			v.remove(a)
			v.collect(a)
			v.Settle(v.ctx, v.t)
			v.asSpecified(b)
		}))).Feature()
}
