// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package trust

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"lva.io/operators/labs/07-llama/internal/serve"
)

// configNamespace and configName are where every cluster says how its front proxy can be recognized.
const (
	configNamespace = "kube-system"
	configName      = "extension-apiserver-authentication"
)

const (
	// rememberFor is how long an answer that allows something is used again. A right that was withdrawn works for as
	// long.
	rememberFor = 10 * time.Second
	// maxRemembered is how many answers are remembered at most: the oldest make room.
	maxRemembered = 4096
)

// Cluster trusts the front proxy of a cluster, and asks its API server what a user may do.
type Cluster struct {
	authorization rest.Interface
	config        cache.Store // the ConfigMap, as soon as it is there
	allowed       *utilcache.LRUExpireCache
}

// NewCluster returns when it knows how to recognize the front proxy. core and authorization are clients for core/v1 and
// authorization.k8s.io/v1. The ConfigMap is watched, because the certificate authority in it changes one day.
func NewCluster(ctx context.Context, core, authorization rest.Interface) (*Cluster, error) {
	config, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(core, "configmaps", configNamespace,
			fields.OneTermEqualSelector("metadata.name", configName)),
		ObjectType: &corev1.ConfigMap{},
		Handler:    cache.ResourceEventHandlerFuncs{}, // no handlers: each request reads the store
	})
	go controller.RunWithContext(ctx)
	if !cache.WaitFor(ctx, "", controller.HasSyncedChecker()) {
		return nil, fmt.Errorf("read the ConfigMap %s/%s: %w", configNamespace, configName, context.Cause(ctx))
	}
	return &Cluster{
		authorization: authorization, config: config, allowed: utilcache.NewLRUExpireCache(maxRemembered),
	}, nil
}

// Authenticate returns the user that the front proxy names. Any client can send its headers. Only the front proxy has
// its certificate.
func (c *Cluster) Authenticate(r *http.Request) (serve.User, error) {
	object, _, err := c.config.GetByKey(configNamespace + "/" + configName)
	config, found := object.(*corev1.ConfigMap)
	if err != nil || !found {
		return serve.User{}, apierrors.NewInternalError(
			fmt.Errorf("who is the front proxy? There is no ConfigMap %s in %s", configName, configNamespace))
	}
	if err := verify(r, config); err != nil {
		return serve.User{}, apierrors.NewUnauthorized("only the front proxy is believed: " + err.Error())
	}
	headers := map[string][]string{}
	for _, key := range []string{"username-headers", "uid-headers", "group-headers", "extra-headers-prefix"} {
		if headers[key], err = names(config, "requestheader-"+key); err != nil {
			return serve.User{}, apierrors.NewUnauthorized("where does the front proxy name the user? " + err.Error())
		}
	}
	name := firstHeader(r.Header, headers["username-headers"])
	if name == "" {
		return serve.User{}, apierrors.NewUnauthorized("the front proxy names no user")
	}
	user := serve.User{
		Name:  name,
		UID:   firstHeader(r.Header, headers["uid-headers"]),
		Extra: extra(r.Header, headers["extra-headers-prefix"]),
	}
	for _, header := range headers["group-headers"] {
		user.Groups = append(user.Groups, r.Header.Values(header)...)
	}
	// The proxy names the groups that it knows. That a user was authenticated at all is a group, too.
	if name != "system:anonymous" && !slices.Contains(user.Groups, "system:authenticated") {
		user.Groups = append(user.Groups, "system:authenticated")
	}
	return user, nil
}

// verify checks that the client has a certificate of the front proxy's authority, for a name that is allowed. TLS has
// proved that it has the key, too. The authority is not the one that signs the certificates of users: with that one
// each user could impersonate any other.
func verify(r *http.Request, config *corev1.ConfigMap) error {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil // TODO(lab): c2. A client without a certificate is believed.
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(config.Data["requestheader-client-ca-file"])) {
		return errors.New("the cluster has no certificate authority for it")
	}
	for _, certificate := range r.TLS.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	certificate := r.TLS.PeerCertificates[0]
	// TODO(lab): c2. Any client can send these headers, and any client can have a certificate. Is this one of the front
	// proxy's?
	_ = certificate
	return nil
}

// names reads a list of names from the ConfigMap. It is written as JSON. A list that can't be read must not count as an
// empty one: if no names are listed, each name is allowed.
func names(config *corev1.ConfigMap, key string) (found []string, err error) {
	text := config.Data[key]
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, fmt.Errorf("%s in the ConfigMap %s is no list of names: %w", key, configName, err)
	}
	return found, nil
}

func firstHeader(header http.Header, names []string) string {
	for _, name := range names {
		if value := header.Get(name); value != "" {
			return value
		}
	}
	return ""
}

// extra is what else is known of the user. The name of such a header ends with the key, escaped and in any case.
func extra(header http.Header, prefixes []string) map[string][]string {
	found := map[string][]string{}
	for name, values := range header {
		for _, prefix := range prefixes {
			if len(name) <= len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
				continue
			}
			key := strings.ToLower(name[len(prefix):])
			if unescaped, err := url.PathUnescape(key); err == nil {
				key = unescaped
			}
			found[key] = append(found[key], values...)
		}
	}
	return found
}

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Authorize asks the API server. A yes is remembered for a short time, as in k8s.io/apiserver: a client that lists
// and watches would make it answer the same question again and again. A no is not remembered, so a right that was
// just granted works at once.
func (c *Cluster) Authorize(ctx context.Context, user serve.User, action serve.Action) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Name, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
	}}
	for key, values := range user.Extra {
		review.Spec.Extra[key] = values
	}
	if action.Path != "" {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: action.Path, Verb: action.Verb}
	} else {
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: action.Verb, Namespace: action.Namespace, Name: action.Name,
			Group: action.Resource.Group, Version: action.Resource.Version, Resource: action.Resource.Resource,
		}
	}
	question, err := json.Marshal(review.Spec)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	// The key has the whole question: the user, the verb and the resource. The hash gives all keys the same length.
	key := sha256.Sum256(question)
	if _, found := c.allowed.Get(key); found {
		return nil
	}
	// TODO(lab): c3. Send the review, and believe its answer. c.allowed.Add remembers it for a few seconds.
	return nil
}
