// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"regexp"
	"strings"
)

var goodName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// body reads an object. An empty body is an empty object.
func (q *request) body() (object, error) {
	content, err := io.ReadAll(q.Body)
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, refuse(413, "RequestEntityTooLarge", "the body has more than %d bytes", large.Limit)
	}
	if err != nil || len(content) == 0 {
		return object{}, err
	}
	o, err := decode(bytes.NewReader(content))
	if err != nil {
		return nil, refuse(400, "BadRequest", "the body can't be read: %s", err)
	}
	return o, nil
}

// llama checks a body and returns the llama to store.
func (q *request) llama(o object) (object, error) {
	metadata, spec := o.at("metadata"), o.at("spec")
	if o.text("kind") != "Llama" || o.text("apiVersion") != groupVersion {
		return nil, refuse(400, "BadRequest", "the body is no Llama of %s", groupVersion)
	}
	if space := metadata.text("namespace"); space != "" && space != q.namespace ||
		q.name != "" && metadata.text("name") != q.name {
		return nil, refuse(400, "BadRequest", "the name or namespace in the body is not that in the path")
	}
	clean := object{"apiVersion": groupVersion, "kind": "Llama", "metadata": metadata, "spec": object{}}
	metadata["namespace"] = q.namespace
	delete(metadata, "managedFields")
	delete(metadata, "finalizers") // finalizers are not supported: a delete takes effect at once
	name := metadata.text("name")
	for field, value := range spec {
		if field != "weight" && field != "height" {
			if q.URL.Query().Get("fieldValidation") == "Strict" {
				return nil, refuse(400, "BadRequest", "strict decoding error: unknown field \"spec.%s\"", field)
			}
			continue
		}
		number, ok := value.(json.Number)
		if !ok {
			return nil, refuse(400, "BadRequest", "spec.%s is no number", field)
		}
		if strings.HasPrefix(number.String(), "-") {
			return nil, invalid(name, "spec."+field, "must not be negative")
		}
		if _, err := number.Float64(); err != nil {
			return nil, invalid(name, "spec."+field, "is no 64-bit float")
		}
		clean.at("spec")[field] = number
	}
	for _, field := range []string{"weight", "height"} {
		if clean.at("spec")[field] == nil {
			return nil, invalid(name, "spec."+field, "Required value")
		}
	}
	if !goodName.MatchString(name) {
		return nil, invalid(name, "metadata.name", "is no DNS subdomain")
	}
	return clean, nil
}

// wet reports whether a request is not a dry run.
func (q *request) wet(options object) bool {
	return len(q.URL.Query()["dryRun"]) == 0 && options["dryRun"] == nil
}

// remove removes a llama if it meets the client's preconditions.
func (f *farm) remove(q *request, options, llama object) error {
	metadata := llama.at("metadata")
	for _, field := range []string{"uid", "resourceVersion"} {
		if wanted := options.at("preconditions").text(field); wanted != "" && wanted != metadata.text(field) {
			return refuse(409, "Conflict", "precondition failed: %s is %s", field, metadata.text(field)).
				about(q.resource, metadata.text("name"))
		}
	}
	if !q.wet(options) {
		return nil
	}
	return f.store.put("DELETED", llama.copy())
}

func (f *farm) write(w http.ResponseWriter, q *request) error {
	if q.verb == "patch" && !strings.HasPrefix(q.Header.Get("Content-Type"), "application/merge-patch+json") {
		return refuse(415, "UnsupportedMediaType", "the only patch that is served is application/merge-patch+json")
	}
	body, err := q.body()
	if err != nil {
		return err
	}
	f.store.mutex.Lock()
	defer f.store.mutex.Unlock()
	switch q.verb {
	case "create":
		return f.create(w, q, body)
	case "delete":
		old, ok := f.store.llamas[q.namespace+"/"+q.name]
		if !ok {
			return missing(q)
		}
		if err := f.remove(q, body, old); err != nil {
			return err
		}
		answer(w, 200, object{
			"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Success",
			"details": object{"group": group, "kind": "llamas", "name": q.name, "uid": old.at("metadata")["uid"]},
		})
		return nil
	case "deletecollection":
		chosen, err := q.selector()
		if err != nil {
			return err
		}
		items := []object{}
		for _, llama := range f.store.llamas {
			if chosen(llama) {
				items = append(items, llama)
			}
		}
		for _, llama := range items {
			if err := f.remove(q, body, llama); err != nil {
				return err
			}
		}
		answer(w, 200, object{"apiVersion": groupVersion, "kind": "LlamaList", "metadata": object{}, "items": items})
		return nil
	}
	return f.change(w, q, body)
}

func (f *farm) create(w http.ResponseWriter, q *request, body object) error {
	metadata := body.at("metadata")
	if metadata.text("name") == "" && metadata.text("generateName") != "" {
		name := []byte(metadata.text("generateName"))
		for range 5 {
			name = append(name, "bcdfghjklmnpqrstvwxz2456789"[rand.IntN(27)])
		}
		metadata["name"] = string(name)
	}
	llama, err := q.llama(body)
	if err != nil {
		return err
	}
	q.name = metadata.text("name")
	if f.store.llamas[key(llama)] != nil {
		return refuse(409, "AlreadyExists", "llamas.%s %q already exists", group, q.name).about("llamas", q.name)
	}
	born(llama)
	delete(llama.at("metadata"), "resourceVersion")
	if q.wet(nil) {
		if err := f.store.put("ADDED", llama); err != nil {
			return err
		}
	}
	q.show(w, 201, llama)
	return nil
}

// merge applies a merge patch: RFC 7396.
func merge(to, patch object) object {
	if to == nil {
		to = object{}
	}
	for name, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(to, name)
		case map[string]any:
			to[name] = merge(to.at(name), v)
		default:
			to[name] = v
		}
	}
	return to
}

func (f *farm) change(w http.ResponseWriter, q *request, body object) error {
	old, ok := f.store.llamas[q.namespace+"/"+q.name]
	if !ok {
		return missing(q)
	}
	if q.verb == "patch" {
		body = merge(old.copy(), body)
	} else if body.at("metadata").text("resourceVersion") == "" {
		return invalid(q.name, "metadata.resourceVersion", "must be specified for an update")
	}
	llama, err := q.llama(body)
	if err != nil {
		return err
	}
	before, after := old.at("metadata"), llama.at("metadata")
	for _, field := range []string{"resourceVersion", "uid"} {
		if wanted := after.text(field); wanted != "" && wanted != before.text(field) {
			return refuse(409, "Conflict", "llamas %q: the object has been modified: %s is %s",
				q.name, field, before.text(field)).about("llamas", q.name)
		}
	}
	for _, field := range []string{"uid", "creationTimestamp", "resourceVersion"} {
		after[field] = before[field]
	}
	if q.wet(nil) && !reflect.DeepEqual(old.copy(), llama.copy()) {
		if err := f.store.put("MODIFIED", llama); err != nil {
			return err
		}
	}
	q.show(w, 200, llama)
	return nil
}
