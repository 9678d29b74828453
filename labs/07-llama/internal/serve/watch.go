// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// watchTimeout is how long a watch takes for which the client names no time.
	watchTimeout = 30 * time.Minute
	// eventTimeout is how long a client may take to accept an event. A client that has stopped reading must not keep its
	// watch.
	eventTimeout = 10 * time.Second
)

// watch answers with a line for each event, until the client has enough, its time is over, or the server stops.
func (s *Server) watch(w http.ResponseWriter, r *request) {
	options, err := r.listOptions()
	if err != nil {
		writeError(w, err)
		return
	}
	// TODO(lab): c4. s.watches counts the watches of each user.

	if options.TimeoutSeconds == nil {
		options.TimeoutSeconds = new(int64(watchTimeout / time.Second))
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.stopped, cancel)()
	events, err := r.resource.Reader.Watch(ctx, r.namespace, options)
	if err != nil {
		writeError(w, err)
		return
	}

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	connection := http.NewResponseController(w)
	// Send the header at once: the client must know that the watch has begun, even if there is no event yet.
	if connection.Flush() != nil {
		return
	}
	// From here on each event has its own deadline, and the time between them has none.
	_ = connection.SetWriteDeadline(time.Time{})
	encoder := json.NewEncoder(w)
	for event := range events {
		shaped, err := r.shapeEvent(event)
		if err != nil {
			return
		}
		// A deadline that cannot be set is none: the client is asked all the same.
		_ = connection.SetWriteDeadline(time.Now().Add(eventTimeout))
		if encoder.Encode(shaped) != nil || connection.Flush() != nil {
			return
		}
		_ = connection.SetWriteDeadline(time.Time{})
		// The columns are the same for all: only the first Table has them.
		r.resource.Columns = withoutColumnsIn(r.form, r.resource.Columns)
	}
}

func withoutColumnsIn(form form, columns []metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	if form == "Table" {
		return nil
	}
	return columns
}

// wireEvent is an event as the client reads it.
type wireEvent struct {
	Type   watch.EventType `json:"type"`
	Object any             `json:"object"`
}

// shapeEvent turns the object of an event into the form that the client wants. An error is a Status in any form, and
// gets its kind: client-go takes it off what it reads.
func (r *request) shapeEvent(event watch.Event) (wireEvent, error) {
	if event.Type == watch.Error {
		return wireEvent{Type: event.Type, Object: statusOf(apierrors.FromObject(event.Object))}, nil
	}
	shaped, err := r.shape(event.Object)
	if table, ok := shaped.(*metav1.Table); ok && event.Type == watch.Bookmark {
		table.Rows = []metav1.TableRow{{Cells: make([]any, len(table.ColumnDefinitions)), Object: table.Rows[0].Object}}
	}
	return wireEvent{Type: event.Type, Object: shaped}, err
}
