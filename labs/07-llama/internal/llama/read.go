// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"lva.io/operators/labs/07-llama/api/v1alpha"
	"lva.io/operators/labs/07-llama/internal/serve"
	"lva.io/operators/labs/07-llama/internal/store"
)

// Get returns one llama.
func (l *Llamas) Get(_ context.Context, namespace, name string) (runtime.Object, error) {
	llama, err := l.store.Get(types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return nil, explain(err, name)
	}
	return present(llama), nil
}

// List returns the llamas that are selected; with a limit so many of them, and a token with which to ask for the rest.
func (l *Llamas) List(_ context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	selector, err := serve.SelectorOf(options)
	if err != nil {
		return nil, err
	}
	llamas, version, after, err := l.begin(namespace, options)
	if err != nil {
		return nil, err
	}
	list := &v1alpha.LlamaList{
		TypeMeta: metav1.TypeMeta{Kind: "LlamaList", APIVersion: v1alpha.GroupVersion.String()},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(version, 10)},
		Items:    []v1alpha.Llama{}, // an empty list is [], and not null
	}
	llamas = slices.DeleteFunc(llamas, func(llama *v1alpha.Llama) bool {
		return position(llama) <= after || !selector.Matches(llama)
	})
	// TODO(lab): b7. With a limit: so many, list.Continue for the rest, and how many remain.
	for _, llama := range llamas {
		list.Items = append(list.Items, *present(llama))
	}
	return list, nil
}

// begin returns the llamas at the version that the client wants, and the position after which the page begins.
func (l *Llamas) begin(
	namespace string, options metav1.ListOptions,
) (llamas []*v1alpha.Llama, version uint64, after string, err error) {
	if options.Continue != "" {
		token, err := decodePageToken(options.Continue)
		if err != nil {
			return nil, 0, "", err
		}
		// All pages are of one version: a change in the meantime is in none of them, or in all.
		llamas, err := l.store.ListAt(namespace, token.Version)
		return llamas, token.Version, token.After, explain(err, "")
	}
	wanted, err := parseVersion(options.ResourceVersion)
	if err != nil {
		return nil, 0, "", err
	}
	if options.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		llamas, err := l.store.ListAt(namespace, wanted)
		return llamas, wanted, "", explain(err, "")
	}
	// The newest state is not older than any that exists.
	llamas, version = l.store.List(namespace)
	if wanted > version {
		return nil, 0, "", explain(store.ErrTooNew, "")
	}
	return llamas, version, "", nil
}

// pageToken says where the next page of a list begins. Clients must not depend on its contents, so it is encoded.
type pageToken struct {
	Version uint64 `json:"version"`
	After   string `json:"after"`
}

func (t pageToken) encode() string {
	content, err := json.Marshal(t)
	if err != nil {
		panic(err) // a number and a string
	}
	return base64.RawURLEncoding.EncodeToString(content)
}

func decodePageToken(text string) (token pageToken, err error) {
	content, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(content, &token)
	}
	if err != nil {
		return token, apierrors.NewBadRequest("the continue token is not one of ours: " + err.Error())
	}
	return token, nil
}

// position orders llamas as the store does, by namespace and name. No name contains a zero byte, and it sorts before
// all that a name may contain; a slash sorts behind "-" and ".", so it would give another order.
func position(llama *v1alpha.Llama) string {
	return llama.Namespace + "\x00" + llama.Name
}

// present adds the fields that the client needs and the store does not.
func present(llama *v1alpha.Llama) *v1alpha.Llama {
	llama = llama.DeepCopy()
	llama.TypeMeta = metav1.TypeMeta{Kind: "Llama", APIVersion: v1alpha.GroupVersion.String()}
	return llama
}

func parseVersion(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest("invalid resource version: " + strings.TrimSpace(text))
	}
	return version, nil
}

// explain turns an error of the store into a Status that clients understand.
func explain(err error, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return apierrors.NewNotFound(groupResource, name)
	case errors.Is(err, store.ErrExists):
		return apierrors.NewAlreadyExists(groupResource, name)
	case errors.Is(err, store.ErrTooOld):
		return apierrors.NewResourceExpired(err.Error())
	case errors.Is(err, store.ErrTooNew):
		return tooLarge()
	case errors.Is(err, store.ErrFull):
		// A ResourceQuota answers the same: the request is valid, and it is refused until something is deleted.
		// After 429 with Retry-After, client-go would repeat it ten times. Kubernetes has no reason for 507. When
		// etcd is full, the API server answers 500 without a reason, so a program would have to read the text.
		return apierrors.NewForbidden(groupResource, name,
			fmt.Errorf("%w: all llamas together may have %d bytes as JSON", err, store.MaxBytes))
	default:
		return err
	}
}

// tooLarge is the answer to a request for a resourceVersion that is still to come.
func tooLarge() error {
	status := apierrors.NewTimeoutError(fmt.Sprint(store.ErrTooNew), 1)
	status.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return status
}
