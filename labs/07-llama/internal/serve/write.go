// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// maxBody is how many bytes of a request are read: 3 MiB, as the API server does.
const maxBody = 3 << 20

// maxPatchOperations is how many operations a JSON patch may have.
const maxPatchOperations = 1000

// A copy in a JSON patch can double the object: twenty make a megabyte of one byte, and thirty a gigabyte. So what
// all copies of a patch add is limited, as in the API server. The library has one limit for the whole program.
func init() {
	// TODO(lab): c4. jsonpatch has a limit for it, which is off.
}

func (s *Server) create(w http.ResponseWriter, r *request) {
	object, dryRun, err := readObject(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	created, err := r.resource.Writer.Create(r.Context(), object, dryRun)
	s.answer(w, r, http.StatusCreated, created, err)
}

func (s *Server) update(w http.ResponseWriter, r *request) {
	object, dryRun, err := readObject(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	if accessor(object).GetResourceVersion() == "" {
		writeError(w, r.invalid(field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), "", "must be specified for an update"),
		}))
		return
	}
	replace := func(runtime.Object) (runtime.Object, error) { return object, nil }
	updated, err := r.resource.Writer.Update(r.Context(), r.namespace, r.name, replace, dryRun)
	s.answer(w, r, http.StatusOK, updated, err)
}

// patch changes the current state, whatever it is: unlike an update it needs no resourceVersion, and it conflicts only
// if the patch itself names one. The change is called again if another write was faster.
func (s *Server) patch(w http.ResponseWriter, r *request) {
	dryRun, err := r.dryRun()
	if err != nil {
		writeError(w, err)
		return
	}
	body, err := readBody(w, r, "application/merge-patch+json", "application/json-patch+json")
	if err != nil {
		writeError(w, err)
		return
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	change := func(current runtime.Object) (runtime.Object, error) {
		before, err := json.Marshal(current)
		if err != nil {
			return nil, err
		}
		if err := r.hold(len(before)); err != nil { // a small patch may be of a large object
			return nil, err
		}
		after, err := applyPatch(kind, before, body)
		if err != nil {
			return nil, err
		}
		if len(after) > maxBody { // or each patch could add as much again
			return nil, apierrors.NewRequestEntityTooLargeError(
				fmt.Sprintf("the patched object has %d bytes, limit is %d", len(after), maxBody))
		}
		w.Header().Del("Warning") // of an attempt before this one
		return r.decode(w, after)
	}
	patched, err := r.resource.Writer.Update(r.Context(), r.namespace, r.name, change, dryRun)
	s.answer(w, r, http.StatusOK, patched, err)
}

// readObject reads the object of a create or an update, and whether it is a dry run.
func readObject(w http.ResponseWriter, r *request) (object runtime.Object, dryRun bool, err error) {
	if dryRun, err = r.dryRun(); err != nil {
		return nil, false, err
	}
	body, err := readBody(w, r, "application/json")
	if err != nil {
		return nil, false, err
	}
	object, err = r.decode(w, body)
	return object, dryRun, err
}

func applyPatch(kind string, before, body []byte) ([]byte, error) {
	if kind == "application/merge-patch+json" {
		after, err := jsonpatch.MergePatch(before, body)
		if err != nil {
			return nil, apierrors.NewBadRequest("the merge patch: " + err.Error())
		}
		return after, nil
	}
	operations, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, apierrors.NewBadRequest("the JSON patch: " + err.Error())
	}
	if len(operations) > maxPatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("a JSON patch may have %d operations", maxPatchOperations))
	}
	after, err := operations.Apply(before)
	if err != nil {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			Message: "the JSON patch cannot be applied: " + err.Error(),
		}}
	}
	return after, nil
}

func (s *Server) delete(w http.ResponseWriter, r *request) {
	options, dryRun, err := r.deleteOptions(w)
	if err != nil {
		writeError(w, err)
		return
	}
	object, gone, err := r.resource.Writer.Delete(r.Context(), r.namespace, r.name, options, dryRun)
	if err != nil || !gone {
		s.answer(w, r, http.StatusOK, object, err)
		return
	}
	writeJSON(w, http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: r.name, Group: r.group.Group, Kind: r.resource.Plural, UID: accessor(object).GetUID(),
		},
	})
}

// deleteCollection deletes the selected objects, one after the other. The namespace controller uses it to empty a
// namespace.
func (s *Server) deleteCollection(w http.ResponseWriter, r *request) {
	selection, err := r.listOptions()
	if err != nil {
		writeError(w, err)
		return
	}
	options, dryRun, err := r.deleteOptions(w)
	if err != nil {
		writeError(w, err)
		return
	}
	list, err := r.resource.Reader.List(r.Context(), r.namespace, selection)
	if err != nil {
		writeError(w, err)
		return
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		writeError(w, err)
		return
	}
	for _, object := range objects {
		_, _, err := r.resource.Writer.Delete(r.Context(), r.namespace, accessor(object).GetName(), options, dryRun)
		if err != nil && !apierrors.IsNotFound(err) {
			writeError(w, err)
			return
		}
	}
	s.answer(w, r, http.StatusOK, list, nil)
}

// deleteOptions come as a body, or as parameters of the request. A client that asks for a dry run in one of them must
// not cause a write: a body with another dryRun, or none, does not take it back.
func (r *request) deleteOptions(w http.ResponseWriter) (options metav1.DeleteOptions, dryRun bool, err error) {
	query := r.URL.Query()
	if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&query, &options, nil); err != nil {
		return options, false, apierrors.NewBadRequest(err.Error())
	}
	body, err := readBody(w, r, "application/json", "")
	if err != nil {
		return options, false, err
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			return options, false, apierrors.NewBadRequest("the DeleteOptions: " + err.Error())
		}
	}
	options.DryRun = append(options.DryRun, r.URL.Query()["dryRun"]...)
	if wrong := validation.ValidateDeleteOptions(&options); len(wrong) > 0 {
		return options, false, r.invalid(wrong)
	}
	return options, isDryRun(options.DryRun), nil
}

// dryRun refuses values that nobody knows, as deleteOptions does.
func (r *request) dryRun() (bool, error) {
	values := r.URL.Query()["dryRun"]
	if wrong := validation.ValidateDryRun(field.NewPath("dryRun"), values); len(wrong) > 0 {
		return false, r.invalid(wrong)
	}
	return isDryRun(values), nil
}

func isDryRun(values []string) bool {
	// TODO(lab): b4. Is it a trial?
	return false
}

// invalid is the error of a request with such faults.
func (r *request) invalid(wrong field.ErrorList) error {
	return apierrors.NewInvalid(r.kind().GroupKind(), r.name, wrong)
}

// readBody reads no more than maxBody, of one of these content types.
func readBody(w http.ResponseWriter, r *request, types ...string) ([]byte, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	if !slices.Contains(types, kind) {
		return nil, unsupportedMediaType(kind, types)
	}
	// Hold the announced length before the body arrives, or maxBody if no length is announced.
	size := r.ContentLength
	if size < 0 || size > maxBody {
		size = maxBody
	}
	if err := r.hold(int(size)); err != nil {
		return nil, err
	}
	// One byte a minute is an attack, too. A connection for which no deadline can be set has none.
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(requestTimeout))
	defer func() { _ = connection.SetReadDeadline(time.Time{}) }()
	// TODO(lab): c4. No more than maxBody.
	body, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d bytes", maxBody))
	case err != nil:
		return nil, apierrors.NewBadRequest("the body of the request: " + err.Error())
	}
	return body, nil
}

func unsupportedMediaType(kind string, types []string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: fmt.Sprintf("the body of the request was in an unknown format %q: accepted are %s",
			kind, strings.Join(types, ", ")),
	}}
}

// decode makes an object of JSON. The client says what to do with fields that the kind does not have: Strict refuses
// them, Warn (which is the default) warns, Ignore drops them silently.
func (r *request) decode(w http.ResponseWriter, body []byte) (runtime.Object, error) {
	object := r.resource.Object.DeepCopyObject()
	unknown, err := kjson.UnmarshalStrict(body, object)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body of the request is no %s: %v", r.resource.Kind, err))
	}
	if len(unknown) > 0 {
		switch validation := r.URL.Query().Get("fieldValidation"); validation {
		case metav1.FieldValidationStrict:
			return nil, apierrors.NewBadRequest("strict decoding error: " + errors.Join(unknown...).Error())
		case metav1.FieldValidationIgnore:
		default:
			for _, warning := range unknown {
				w.Header().Add("Warning", fmt.Sprintf("299 - %q", warning.Error()))
			}
		}
	}
	if kind := object.GetObjectKind().GroupVersionKind(); kind != r.kind() {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object is a %s, and this path is for %s", kind, r.kind()))
	}
	switch metadata := accessor(object); {
	case metadata.GetNamespace() == "":
		metadata.SetNamespace(r.namespace)
	case metadata.GetNamespace() != r.namespace:
		return nil, apierrors.NewBadRequest(
			"the namespace of the provided object does not match the namespace sent on the request")
	}
	if name := accessor(object).GetName(); r.name != "" && name != r.name {
		return nil, apierrors.NewBadRequest(
			fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, r.name))
	}
	return object, nil
}
