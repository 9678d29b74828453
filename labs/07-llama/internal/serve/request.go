// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// User is the user who has sent a request.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// Action is the request that is to be authorized: a verb on a resource, or on a path that is no resource.
type Action struct {
	Verb            string
	Namespace, Name string // of the object; both may be ""
	Resource        schema.GroupVersionResource
	Path            string // of a request for no resource
}

type userKey struct{}

// UserOf returns the user of this request.
func UserOf(ctx context.Context) User {
	user, _ := ctx.Value(userKey{}).(User)
	return user
}

// WithUser returns a context in which this user asks.
func WithUser(ctx context.Context, user User) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// request is a request for a resource.
type request struct {
	*http.Request
	resource        Resource
	group           schema.GroupVersion
	namespace, name string
	form            form
	server          *Server
	held            int64 // bytes, see hold
}

func (r *request) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.group.Group, Resource: r.resource.Plural}
}

func (r *request) kind() schema.GroupVersionKind { return r.group.WithKind(r.resource.Kind) }

func isResourcePath(group schema.GroupVersion, path string) bool {
	return strings.HasPrefix(path, "/apis/"+group.Group+"/"+group.Version+"/")
}

func nonResourceVerb(method string) string { return strings.ToLower(method) }

// handle returns the handler of a verb. The handler parses the request, negotiates the form of the answer, and
// authorizes.
func (s *Server) handle(resource Resource, verb string, answer func(http.ResponseWriter, *request)) http.HandlerFunc {
	return func(w http.ResponseWriter, original *http.Request) {
		r := &request{
			Request: original, resource: resource, group: s.group, server: s,
			namespace: original.PathValue("namespace"), name: original.PathValue("name"),
		}
		defer r.release()
		verb, answer := verb, answer
		if verb == "list" && isWatch(r.URL.Query()) {
			verb, answer = "watch", s.watch
		}
		if verb != "watch" { // which lasts, and is counted elsewhere
			select {
			case s.inFlight <- struct{}{}:
				defer func() { <-s.inFlight }()
			default:
				writeError(w, apierrors.NewTooManyRequests("this server has too many requests: try again later", 1))
				return
			}
		}
		action := Action{
			Verb: verb, Namespace: r.namespace, Name: r.name,
			Resource: schema.GroupVersionResource{Group: s.group.Group, Version: s.group.Version, Resource: resource.Plural},
		}
		if verb == "" {
			action.Verb = strings.ToLower(r.Method)
		}
		if err := s.trust.Authorize(r.Context(), UserOf(r.Context()), action); err != nil {
			writeError(w, err)
			return
		}
		form, err := negotiate(r.Header.Get("Accept"))
		if err != nil {
			writeError(w, err)
			return
		}
		r.form = form
		if verb != "watch" {
			ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
			defer cancel()
			r.Request = r.WithContext(ctx)
		}
		answer(w, r)
	}
}

func isWatch(query url.Values) bool {
	value := query.Get("watch")
	return query.Has("watch") && value != "false" && value != "0"
}

// listOptions reads the options of a list or a watch.
func (r *request) listOptions() (metav1.ListOptions, error) {
	var options metav1.ListOptions
	query := r.URL.Query()
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &options, nil); err != nil {
		return options, apierrors.NewBadRequest(err.Error())
	}
	_, err := SelectorOf(options)
	return options, err
}

// Selector is a label selector and a field selector together.
type Selector struct {
	labels labels.Selector
	fields fields.Selector
}

// SelectorOf parses the selectors of a list. A field that is not selectable is an error of the client. It must not
// return everything: `kubectl delete --field-selector` would delete it.
func SelectorOf(options metav1.ListOptions) (Selector, error) {
	byLabel, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return Selector{}, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(options.FieldSelector)
	if err != nil {
		return Selector{}, apierrors.NewBadRequest(err.Error())
	}
	for _, requirement := range byField.Requirements() {
		if requirement.Field != "metadata.name" && requirement.Field != "metadata.namespace" {
			return Selector{}, apierrors.NewBadRequest("field label not supported: " + requirement.Field)
		}
	}
	return Selector{labels: byLabel, fields: byField}, nil
}

// Empty reports whether everything matches.
func (s Selector) Empty() bool { return s.labels.Empty() && s.fields.Empty() }

// Matches reports whether this object is selected.
func (s Selector) Matches(object metav1.Object) bool {
	// TODO(lab): b6. The selectors have Matches, for labels.Set and fields.Set.
	return true
}

func accessor(object any) metav1.Object {
	found, err := meta.Accessor(object)
	if err != nil {
		panic(err) // every kind here has ObjectMeta
	}
	return found
}
