// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package farm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"lva.io/operators/labs/07-llama/api/v1alpha"
	"lva.io/operators/labs/07-llama/internal/cluster"
	"lva.io/operators/labs/07-llama/internal/serve"
)

// rights are the verbs that the user of these tests may use on Pods.
type rights map[string]bool

func (r rights) Authorize(_ context.Context, _ serve.User, action serve.Action) error {
	if action.Resource == corev1.SchemeGroupVersion.WithResource("pods") &&
		r[strings.TrimSpace(action.Verb+" "+action.Name)] {
		return nil
	}
	return apierrors.NewForbidden(action.Resource.GroupResource(), action.Name, errors.New("no role allows it"))
}

var everything = rights{"get cow": true, "get goat": true, "list": true, "watch": true}

// apiServer has the answers of an API server to requests for Pods, and records the requests.
type apiServer struct {
	code  int
	lines []any // several are those of a watch
	asked *url.URL
}

func (c *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.asked = r.URL
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(c.code)
	for _, line := range c.lines {
		_ = json.NewEncoder(w).Encode(line)
	}
}

// podsOf are the FarmPods of such a cluster. The client is a real one.
func podsOf(t *testing.T, c *apiServer, may rights) *Pods {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	client, err := cluster.Client(&rest.Config{Host: server.URL}, corev1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	return New(client, may)
}

func cow() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "meadow", Name: "cow", UID: "1234", ResourceVersion: "7", Labels: map[string]string{"animal": "cow"},
			Annotations: map[string]string{"secret": "of the Pod"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "moo", Image: "moo:v1"},
			{Name: "bell", Image: "bell:v2"},
		}},
	}
}

func failure(code int, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason,
	}
}

func TestAFarmPodShowsItsPod(t *testing.T) {
	t.Parallel()
	asked := &apiServer{code: http.StatusOK, lines: []any{cow()}}
	object, err := podsOf(t, asked, everything).Get(t.Context(), "meadow", "farm-cow")
	if err != nil {
		t.Fatal(err)
	}
	if want := "/api/v1/namespaces/meadow/pods/cow"; asked.asked.Path != want {
		t.Errorf("asked is %s, want %s", asked.asked.Path, want)
	}
	pod := object.(*v1alpha.FarmPod)
	if pod.Name != "farm-cow" || pod.Namespace != "meadow" || pod.ResourceVersion != "7" ||
		pod.Labels["animal"] != "cow" || len(pod.Annotations) > 0 {
		t.Errorf("the metadata is %+v", pod.ObjectMeta)
	}
	if want := "[{moo moo:v1} {bell bell:v2}]"; fmt.Sprint(pod.Spec.Containers) != want {
		t.Errorf("the containers are %v, want %s", pod.Spec.Containers, want)
	}
	// It is another object than the Pod, and the same one each time.
	if pod.UID == "" || pod.UID == cow().UID || pod.UID != present(cow()).UID {
		t.Errorf("the uid is %q, and another time %q; that of the Pod is %q", pod.UID, present(cow()).UID, cow().UID)
	}
	if cells := fmt.Sprint(New(nil, nil).Resource().Cells(pod)[:3]); cells != "[farm-cow 2 moo:v1,bell:v2]" {
		t.Errorf("the cells are %s", cells)
	}
}

// The client reads Pods with the rights of the server. Whether the user may do the same is asked first.
func TestWhoMayNotReadPodsGetsNoFarmPods(t *testing.T) {
	t.Skip("TODO(lab): c5. remove this line when you ask whether the user may read Pods; then: make test")
	for what, ask := range map[string]func(*Pods) error{
		"get":            func(p *Pods) error { _, err := p.Get(t.Context(), "meadow", "farm-cow"); return err },
		"get of no name": func(p *Pods) error { _, err := p.Get(t.Context(), "meadow", "cow"); return err },
		"list":           func(p *Pods) error { _, err := p.List(t.Context(), "meadow", metav1.ListOptions{}); return err },
		"watch":          func(p *Pods) error { _, err := p.Watch(t.Context(), "meadow", metav1.ListOptions{}); return err },
	} {
		// To see another Pod is no right to see this one.
		asked := &apiServer{code: http.StatusOK, lines: []any{cow()}}
		if err := ask(podsOf(t, asked, rights{"get goat": true})); !apierrors.IsForbidden(err) || asked.asked != nil {
			t.Errorf("%s: the error is %v, and the API server was asked %v", what, err, asked.asked)
		}
	}
}

func TestFarmPodsAreSelectedByTheirOwnNames(t *testing.T) {
	t.Parallel()
	for selector, want := range map[string]string{
		"":                          "",
		"metadata.name=farm-cow":    "metadata.name=cow",
		"metadata.name!=farm-cow":   "metadata.name!=cow",
		"metadata.name=cow":         "metadata.name=-", // a Pod, and no FarmPod
		"metadata.namespace=meadow": "metadata.namespace=meadow",
	} {
		asked := &apiServer{code: http.StatusOK, lines: []any{&corev1.PodList{
			TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
			ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "more", RemainingItemCount: new(int64(4))},
			Items:    []corev1.Pod{*cow()},
		}}}
		object, err := podsOf(t, asked, everything).List(t.Context(), "meadow", metav1.ListOptions{
			FieldSelector: selector, LabelSelector: "animal=cow", Limit: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		query := asked.asked.Query()
		if query.Get("fieldSelector") != want || query.Get("labelSelector") != "animal=cow" || query.Get("limit") != "1" {
			t.Errorf("%q: asked is %s, want the field selector %q", selector, asked.asked, want)
		}
		list := object.(*v1alpha.FarmPodList)
		if list.ResourceVersion != "9" || list.Continue != "more" || *list.RemainingItemCount != 4 ||
			len(list.Items) != 1 || list.Items[0].Name != "farm-cow" {
			t.Errorf("%q: the list is %+v", selector, list)
		}
	}
	_, err := podsOf(t, &apiServer{}, everything).List(t.Context(), "meadow", metav1.ListOptions{FieldSelector: "a=b=c"})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("a selector that can't be read: the error is %v", err)
	}
}

// If the server itself lacks a right, that is not the user's fault: 503, and never 403. All other errors are the same
// for both.
func TestWhatIsSaidOfPodsIsSaidOfFarmPods(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		answer *metav1.Status
		code   int32
	}{
		"no such Pod": {failure(http.StatusNotFound, metav1.StatusReasonNotFound), http.StatusNotFound},
		"the server has no right": {
			failure(http.StatusForbidden, metav1.StatusReasonForbidden), http.StatusServiceUnavailable,
		},
		"nobody knows the server": {
			failure(http.StatusUnauthorized, metav1.StatusReasonUnauthorized), http.StatusServiceUnavailable,
		},
		"the version is too old":      {failure(http.StatusGone, metav1.StatusReasonExpired), http.StatusGone},
		"the selector can't be meant": {failure(http.StatusBadRequest, metav1.StatusReasonBadRequest), http.StatusBadRequest},
	} {
		pods := podsOf(t, &apiServer{code: int(test.answer.Code), lines: []any{test.answer}}, everything)
		_, got := pods.Get(t.Context(), "meadow", "farm-cow")
		_, listed := pods.List(t.Context(), "meadow", metav1.ListOptions{})
		_, watched := pods.Watch(t.Context(), "meadow", metav1.ListOptions{})
		for verb, err := range map[string]error{"get": got, "list": listed, "watch": watched} {
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code != test.code {
				t.Errorf("%s: %s is answered with %v, want the code %d", what, verb, err, test.code)
			}
		}
		if test.code == http.StatusNotFound &&
			(!strings.Contains(got.Error(), "farm-cow") || !strings.Contains(got.Error(), "farmpods.farm.example.com")) {
			t.Errorf("%s: it names another object: %v", what, got)
		}
	}
	gone, err := cluster.Client(&rest.Config{Host: "http://127.0.0.1:1"}, corev1.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(gone, everything).Get(t.Context(), "meadow", "farm-cow"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("without an API server the error is %v", err)
	}
}

func TestAWatchOnFarmPodsFollowsThePods(t *testing.T) {
	t.Parallel()
	line := func(what watch.EventType, object any) any { return map[string]any{"type": what, "object": object} }
	bookmark := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "8", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	}
	asked := &apiServer{code: http.StatusOK, lines: []any{
		line(watch.Added, cow()), line(watch.Bookmark, bookmark), line(watch.Deleted, cow()),
		line(watch.Error, failure(http.StatusGone, metav1.StatusReasonExpired)),
	}}
	followed, err := podsOf(t, asked, everything).Watch(t.Context(), "meadow", metav1.ListOptions{
		ResourceVersion: "6", AllowWatchBookmarks: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if query := asked.asked.Query(); query.Get("resourceVersion") != "6" || query.Get("allowWatchBookmarks") != "true" {
		t.Errorf("asked is %s", asked.asked)
	}
	var told []string
	for event := range followed {
		switch object := event.Object.(type) {
		case *v1alpha.FarmPod:
			told = append(told, fmt.Sprintf("%s %q at %s %v",
				event.Type, object.Name, object.ResourceVersion, object.Annotations))
		case *metav1.Status:
			told = append(told, fmt.Sprintf("%s %d", event.Type, object.Code))
		default:
			told = append(told, fmt.Sprintf("%s %T", event.Type, object))
		}
	}
	want := `ADDED "farm-cow" at 7 map[], BOOKMARK "" at 8 map[k8s.io/initial-events-end:true], ` +
		`DELETED "farm-cow" at 7 map[], ERROR 410`
	if got := strings.Join(told, ", "); got != want {
		t.Errorf("told is\n%s, want\n%s", got, want)
	}
}
