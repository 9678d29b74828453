// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

// farmPodForms fails the check unless a list, pages, a Table and a list of metadata show the same FarmPods of a
// namespace.
func (v visit) farmPodForms() {
	v.t.Helper()
	want := slices.Sorted(slices.Values(v.send(v.ctx, http.MethodGet, pods(ns), nil).names()))
	var got []string
	for next, pages := "", 0; pages == 0 || next != "" && pages <= len(want); pages++ {
		a := v.want(v.send(v.ctx, http.MethodGet, pods(ns)+"?limit=1&continue="+url.QueryEscape(next), nil),
			"a page of FarmPods answers 200", http.StatusOK)
		got, next = append(got, a.names()...), textOf(a.object(), "metadata", "continue")
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		v.Fail(v.t, fmt.Sprintf("the pages of FarmPods, with limit=1 and continue, have %v, each once", want),
			fmt.Sprintf("they have %v", got))
	}
	a := v.send(v.ctx, http.MethodGet, pods(ns), nil, "Accept", acceptTable)
	if rows := objectsIn(a.object(), "rows"); textOf(a.object(), "kind") == "Table" && len(rows) != len(want) {
		v.fail(a, fmt.Sprintf("a Table of FarmPods has a row for each of %v", want), fmt.Sprintf("it has %d rows", len(rows)))
	}
	client, err := metadata.NewForConfig(v.Config)
	v.OK(v.t, "making a client", err)
	found, err := client.Resource(llamaResource.GroupVersion().WithResource("farmpods")).Namespace(ns).
		List(v.ctx, metav1.ListOptions{})
	observed := ""
	if err != nil {
		observed = err.Error()
	} else if len(found.Items) != len(want) {
		observed = fmt.Sprintf("it lists %d", len(found.Items))
	}
	if observed != "" {
		a := v.send(v.ctx, http.MethodGet, pods(ns), nil, "Accept", acceptMetadata)
		v.fail(a, fmt.Sprintf("client-go's metadata client lists the FarmPods %v (PartialObjectMetadataList)", want),
			observed)
	}
}

// farmPodUIDs fails the check unless FarmPods with the same name have different uids, in two namespaces and one after
// the other.
func (v visit) farmPodUIDs() {
	v.t.Helper()
	const name = "twin"
	uid := func(namespace, other string) (found string) {
		v.eventually("the FarmPod of a new Pod has a uid that no other FarmPod of this name has, or had", eventPatience,
			func() (string, bool) {
				a := v.send(v.ctx, http.MethodGet, pods(namespace)+"/farm-"+name, nil)
				found = uidOf(a.object())
				return fmt.Sprintf("the answer is %s, and its uid is %q", a.summary(), found), found != "" && found != other
			})
		return found
	}
	v.pod(ns, name, "main", "registry.example/twin:1")
	first := uid(ns, "")
	v.pod(otherNS, name, "main", "registry.example/twin:1")
	uid(otherNS, first)
	v.OK(v.t, "deleting a Pod",
		v.typed.CoreV1().Pods(ns).Delete(v.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	v.pod(ns, name, "main", "registry.example/twin:1")
	uid(ns, first)
}

// failsAsServerError fails the check if a request was refused with anything but a Status of 500 or more.
func (v visit) failsAsServerError(refused *answer) {
	v.t.Helper()
	if refused != nil && (refused.err != nil || refused.code < http.StatusInternalServerError || !refused.isStatus("")) {
		v.fail(*refused, "while the server can't read Pods, its answer is a Status with 503 "+
			"(or another code of 500 or more), since the user made no mistake", "the answer is "+refused.summary())
	}
}
