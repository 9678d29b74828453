// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxBytesInFlight is how many bytes the bodies and the answers of all requests may have together, watches not
	// counted: maxInFlight bodies of maxBody would be more than the memory of the Pod. An object in memory may take ten
	// times as much as its JSON.
	maxBytesInFlight = 4 * maxBody
	// maxLists is how many lists of a resource are made at the same time: until one is written as JSON, it takes several
	// times the memory of its answer.
	maxLists = 2
)

// hold counts bytes that this request has in memory until it is answered, or returns an error if all requests together
// have too many. A request that alone exceeds the limit is served when no other one is.
func (r *request) hold(n int) error {
	bytes := min(int64(n), maxBytesInFlight)
	if r.server.bytesInFlight.Add(bytes) > maxBytesInFlight {
		r.server.bytesInFlight.Add(-bytes)
		return apierrors.NewTooManyRequests(
			"the requests that this server answers are too large together: try again later", 1)
	}
	r.held += bytes
	return nil
}

// release is called when a request has been answered.
func (r *request) release() { r.server.bytesInFlight.Add(-r.held) }

// makeList returns a list as JSON, when its turn has come.
func (r *request) makeList() ([]byte, error) {
	options, err := r.listOptions()
	if err != nil {
		return nil, err
	}
	turn := r.server.lists[r.resource.Plural]
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-r.Context().Done():
		return nil, apierrors.NewTooManyRequests("this server has too many lists to make: try again later", 1)
	}
	list, err := r.resource.Reader.List(r.Context(), r.namespace, options)
	if err != nil {
		return nil, err
	}
	return r.encode(list)
}
