// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"log"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"lva.io/operators/clusters/node/services"
)

// The reasons of the agent's Events.
const (
	building        = "Building"
	portUnavailable = "PortUnavailable"
)

// newRecorder records Events in the API. An image is one Event, however often its progress is reported: the newest
// message replaces the one before.
func newRecorder(client kubernetes.Interface, node string) record.EventRecorder {
	broadcaster := record.NewBroadcaster(record.WithCorrelatorOptions(record.CorrelatorOptions{
		KeyFunc: func(event *corev1.Event) (aggregate, local string) {
			aggregate, local = record.EventAggregatorByReasonFunc(event)
			if event.Reason != building {
				aggregate += event.Message
			}
			return aggregate, local
		},
		MessageFunc: func(event *corev1.Event) string { return event.Message },
		MaxEvents:   1,
		// The limit allows for builds that report progress every few seconds, for minutes.
		QPS: 1,
	}))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "operator-labs-agent", Host: node})
}

// reportBuild reports the progress of a build in an Event of the Pod that waits for the image.
func reportBuild(recorder record.EventRecorder, pod *runtimeapi.PodSandboxMetadata, reference, progress string) {
	if pod == nil {
		return // the request is not for a Pod, but from a client such as crictl
	}
	object := &corev1.ObjectReference{
		APIVersion: "v1",
		Kind:       "Pod",
		Namespace:  pod.Namespace,
		Name:       pod.Name,
		UID:        types.UID(pod.Uid),
	}
	recorder.Eventf(object, corev1.EventTypeNormal, building, "Building image %q: %s", reference, progress)
}

// reportPort reports in an Event of a Service or a Pod that a port of the machine is not forwarded to it.
func reportPort(recorder record.EventRecorder, port services.Port, err error) {
	log.Print(err)
	owner := port.Owner
	object := &corev1.ObjectReference{
		APIVersion: "v1",
		Kind:       owner.Kind,
		Namespace:  owner.Namespace,
		Name:       owner.Name,
		UID:        owner.UID,
	}
	recorder.Event(object, corev1.EventTypeWarning, portUnavailable, err.Error())
}
