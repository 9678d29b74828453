// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package await

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// script is an API server whose answers a test chooses, because a real one does not end a watch on request.
type script struct {
	listed  []corev1.Pod
	refused error
	// watches holds the events of each watch, in order. A watch ends after its events. After the last watch, no event
	// comes.
	watches [][]watch.Event
	asked   []metav1.ListOptions
}

func (s *script) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: s.listed}, s.refused
}

func (s *script) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.asked = append(s.asked, options)
	if len(s.watches) == 0 {
		return watch.NewFake(), nil
	}
	next := s.watches[0]
	s.watches = s.watches[1:]
	seen := watch.NewFakeWithChanSize(len(next), false)
	for _, event := range next {
		seen.Action(event.Type, event.Object)
	}
	seen.Stop()
	return seen, nil
}

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
}

func TestChange(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no such right"))
	late, broken := errors.New("it was not done in time"), errors.New("it is broken")
	for _, test := range []struct {
		name string
		*script
		seen     []string
		versions []string // from which the watches were requested
		err      error
	}{
		{
			name:   "in the list",
			script: &script{listed: []corev1.Pod{*pod("other", "5"), *pod("wanted", "6"), *pod("third", "7")}},
			seen:   []string{"other", "wanted"},
		},
		{name: "the list is refused", script: &script{refused: forbidden}, err: forbidden},
		{
			name: "in a watch", script: &script{watches: [][]watch.Event{{{Type: watch.Added, Object: pod("wanted", "8")}}}},
			seen: []string{"wanted"}, versions: []string{"7"},
		},
		{
			name: "in a later watch", script: &script{watches: [][]watch.Event{
				{{Type: watch.Added, Object: pod("other", "8")}},
				{{Type: watch.Added, Object: pod("wanted", "9")}},
			}},
			seen: []string{"other", "wanted"}, versions: []string{"7", "8"},
		},
		{
			name: "never", script: &script{listed: []corev1.Pod{*pod("other", "5")}},
			seen: []string{"other"}, versions: []string{"7"}, err: late,
		},
		{
			name: "the callback fails", script: &script{listed: []corev1.Pod{*pod("broken", "5")}},
			seen: []string{"broken"}, err: broken,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, late)
			defer cancel()
			var seen []string
			err := Change(ctx, test.script, metav1.ListOptions{LabelSelector: "app=web"},
				func(change watch.Event) (bool, error) {
					pod := change.Object.(*corev1.Pod)
					seen = append(seen, pod.Name)
					if pod.Name == "broken" {
						return false, broken
					}
					return pod.Name == "wanted", nil
				})
			if !errors.Is(err, test.err) || !slices.Equal(seen, test.seen) {
				t.Errorf("got %v and error %v, want %v and %v", seen, err, test.seen, test.err)
			}
			var versions []string
			for _, options := range test.asked {
				versions = append(versions, options.ResourceVersion)
				if options.LabelSelector != "app=web" {
					t.Errorf("watched the labels %q", options.LabelSelector)
				}
			}
			if !slices.Equal(versions, test.versions) {
				t.Errorf("watched from the versions %v, want %v", versions, test.versions)
			}
		})
	}
}

// An API server that no longer has the events since a version answers with an error, and the wait ends.
func TestChangeSinceExpiredVersion(t *testing.T) {
	t.Parallel()
	gone := apierrors.NewResourceExpired("too old resource version")
	asked := &script{watches: [][]watch.Event{{{Type: watch.Error, Object: new(gone.Status())}}}}
	err := ChangeSince(t.Context(), "3", asked, metav1.ListOptions{}, func(change watch.Event) (bool, error) {
		return false, apierrors.FromObject(change.Object)
	})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("error = %v", err)
	}
}

var _ Lister[*corev1.PodList] = &script{}
