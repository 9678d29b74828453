// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package lighthouse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// Kubernetes' own client understands both answers.
func TestDiscoveryClientReadsResponses(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(Handler())
	t.Cleanup(server.Close)
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.ServerResourcesForGroupVersion(groupVersion)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.APIResources) != 1 || list.APIResources[0].Kind != "Lighthouse" {
		t.Errorf("resources %v, want lighthouses", list.APIResources)
	}

	answer, err := http.Get(server.URL + "/apis/sea.example.com/v2")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var status metav1.Status
	if err := json.NewDecoder(answer.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusNotFound || status.Code != 404 || status.Reason != metav1.StatusReasonNotFound {
		t.Errorf("code %d and status %v, want NotFound in both", answer.StatusCode, status)
	}
	if got := answer.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
}

// errKilled is the error of a call at which the operator is killed.
var errKilled = errors.New("killed")

// boundaries counts the calls that reach the outside, and fails the one at which the operator is killed.
type boundaries struct {
	killAt, reached int
}

// cross does the step, unless the operator is killed right before it, and fails if it is killed right after it.
func (b *boundaries) cross(step func() error) error {
	if b.reached++; b.reached == b.killAt {
		return errKilled
	}
	if err := step(); err != nil {
		return err
	}
	if b.reached++; b.reached == b.killAt {
		return errKilled
	}
	return nil
}

// folder keeps notes in files.
type folder struct {
	*boundaries
	path string
}

func (f folder) Load(_ context.Context, owner types.UID) (note Note, err error) {
	content, err := os.ReadFile(filepath.Join(f.path, string(owner)))
	if errors.Is(err, os.ErrNotExist) {
		return Note{}, nil
	}
	if err != nil {
		return Note{}, err
	}
	return note, json.Unmarshal(content, &note)
}

func (f folder) Save(_ context.Context, owner types.UID, note Note) error {
	return f.cross(func() error {
		content, err := json.Marshal(note)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(f.path, string(owner)), content, 0o600)
	})
}

// shop is a supplier that knows the keys of its orders.
type shop struct {
	*boundaries
	orders map[types.UID]string
}

func (s shop) Order(_ context.Context, key types.UID) (id string, err error) {
	err = s.cross(func() error {
		if s.orders[key] == "" {
			s.orders[key] = fmt.Sprintf("order-%d", len(s.orders)+1)
		}
		id = s.orders[key]
		return nil
	})
	return id, err
}

func TestKilledOperatorCreatesOneLamp(t *testing.T) {
	t.Parallel()
	const calls = 3 // the key, the order, its ID
	killed := 0
	for at := 1; at <= 2*calls; at++ {
		path, orders := t.TempDir(), map[types.UID]string{}
		first := &boundaries{killAt: at}
		_, err := OrderLamp(t.Context(), folder{first, path}, shop{first, orders}, "u-1")
		if errors.Is(err, errKilled) {
			killed++
		} else {
			t.Errorf("killed at %d: error %v", at, err)
		}
		second := &boundaries{}
		for range 2 { // as after a restart, and again
			id, err := OrderLamp(t.Context(), folder{second, path}, shop{second, orders}, "u-1")
			if err != nil || id != "order-1" || len(orders) != 1 {
				t.Errorf("killed at %d: then ID %q, error %v, orders %v; want one order", at, id, err, orders)
			}
		}
	}
	if killed != 2*calls {
		t.Errorf("killed %d times, want %d", killed, 2*calls)
	}
}

func TestPointerKeepsZero(t *testing.T) {
	t.Parallel()
	const zero, one = `{"replicas":0}`, `{"replicas":1}`
	for sent, want := range map[string][2]string{"{}": {"{}", "{}"}, zero: {"{}", zero}, one: {one, one}} {
		for i, spec := range []any{&BeaconSpec{}, &PointerSpec{}} {
			if err := json.Unmarshal([]byte(sent), spec); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != want[i] {
				t.Errorf("%T reads %s and writes %s, want %s", spec, sent, got, want[i])
			}
		}
	}
}
