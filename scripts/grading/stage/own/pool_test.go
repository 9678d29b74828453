// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package own

import (
	"context"
	"errors"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/local"
	"lva.io/operators/scripts/grading/stage/stagetest"
)

func TestMain(m *testing.M) { os.Exit(stagetest.Main(m)) }

var errNoOther = errors.New("there is no other cluster")

// Runs with Pods share a cluster that outlives them. The objects of one run are removed before the next, and the end of
// a run does not stop the cluster. The clusters in this test have no node, which makes no difference to the pool.
func TestPoolLendsAClusterAgain(t *testing.T) {
	started, closed := 0, 0
	pool := NewPoolOfNodes(
		func(context.Context) (*embedded.Cluster, error) {
			if started++; started > 1 {
				return nil, errNoOther // two clusters of one test process are too many
			}
			return stagetest.Cluster(t), nil
		},
		func(lent *embedded.Cluster, described *stage.Cluster) (stage.Stage, error) {
			stop := described.Stop
			described.Stop = func() error {
				closed++
				return stop()
			}
			return local.New(described, local.ByEgress(lent.Egress)), nil
		})
	start := func(lease *Lease) kubernetes.Interface {
		t.Helper()
		st, err := lease.Start(t.Context(), func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(st.Cluster().Config)
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		return client
	}
	first := pool.Lease()
	client := start(first)
	if closed != 1 {
		t.Errorf("the stage was stopped %d times, want 1", closed)
	}
	left := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "left"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), left, metav1.CreateOptions{}); err != nil {
		t.Fatalf("Create() after the end of the stage: error = %v", err)
	}
	first.Return()
	second := pool.Lease()
	client = start(second)
	if _, err := client.CoreV1().ConfigMaps("default").
		Get(t.Context(), "left", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("Get() in the next run: error = %v, want not found", err)
	}
	if started != 1 {
		t.Errorf("two consecutive runs started %d clusters, want 1", started)
	}
	second.lent.recorded = recordedLimit // the limit is exceeded together with this run's log
	if _, err := second.Start(t.Context(), func(string) {}); !errors.Is(err, errNoOther) {
		t.Errorf("Start() after too large audit logs: error = %v, want errNoOther", err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err == nil {
		t.Error("the cluster with too large audit logs still runs")
	}
	second.Return()
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if pool.take() != nil {
		t.Error("the closed pool still lends a cluster")
	}
}
