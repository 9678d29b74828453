// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package class

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/clusters/longtest"
)

func TestForeignNamespaceIsKept(t *testing.T) {
	t.Parallel()
	class := newClass(t)
	administrator := client(t, class.Config)
	_, err := administrator.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "student-union"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const want = "nothing was changed: line 2: the namespace student-union exists and does not belong to a class"
	if _, err := class.Invite(t.Context(), students("olga", "union")); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Invite() error = %v, want %s", err, want)
	}
	if _, err := administrator.CoreV1().Namespaces().Get(
		t.Context(), "student-olga", metav1.GetOptions{},
	); !apierrors.IsNotFound(err) {
		t.Errorf("Invite created the namespace of another student: %v", err)
	}
	_, err = class.Revoke(t.Context(), students("union"), false)
	if err == nil || !strings.Contains(err.Error(), "does not belong to a class") {
		t.Errorf("Revoke() error = %v", err)
	}
	if _, err := administrator.CoreV1().Namespaces().Get(t.Context(), "student-union", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestRevokedStudentHasNoAccess(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	class := newClass(t)
	invited := invite(t, class, "rita", "rob")
	rita, rob := client(t, as(t, invited[0])), client(t, as(t, invited[1]))
	if _, err := rita.CoreV1().ConfigMaps("student-rita").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "work"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	shop := dynamicClient(t, as(t, invited[0])).Resource(icecreams)
	if _, err := shop.Create(t.Context(), icecream("rita.cup"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	administrator := client(t, class.Config)

	kept, err := class.Revoke(t.Context(), students("rita", "nobody"), true)
	if err != nil || !kept[0].Existed || kept[1].Existed {
		t.Fatalf("Revoke() = %v, %v", kept, err)
	}
	eventually(t, "the token is refused", func() error {
		if _, err := rita.CoreV1().ConfigMaps("student-rita").List(
			t.Context(), metav1.ListOptions{},
		); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("it gets %w", err)
		}
		return nil
	})
	if _, err := administrator.CoreV1().ConfigMaps("student-rita").Get(
		t.Context(), "work", metav1.GetOptions{},
	); err != nil {
		t.Errorf("the work was not kept: %v", err)
	}
	if _, err := os.Stat(invited[0].Kubeconfig); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the kubeconfig still exists: %v", err)
	}

	if _, err := class.Revoke(t.Context(), students("rita"), false); err != nil {
		t.Fatal(err)
	}
	if _, err := administrator.CoreV1().Namespaces().Get(
		t.Context(), "student-rita", metav1.GetOptions{},
	); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace still exists: %v", err)
	}
	if _, err := dynamicClient(t, class.Config).Resource(icecreams).Get(t.Context(),
		"rita.cup", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the student's icecream still exists: %v", err)
	}
	if _, err := rob.CoreV1().ConfigMaps("student-rob").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the other student lost access, too: %v", err)
	}

	// A second account with the same name is a different account.
	again := invite(t, class, "rita")[0]
	if !again.New {
		t.Error("the old kubeconfig was reused")
	}
	if _, err := rita.CoreV1().ConfigMaps("student-rita").List(
		t.Context(), metav1.ListOptions{},
	); !apierrors.IsUnauthorized(err) {
		t.Errorf("a request with the revoked token: error = %v", err)
	}
	if err := Try(t.Context(), again); err != nil {
		t.Error(err)
	}
}

func TestResumeAfterInterruption(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	class := newClass(t)
	names := []string{"ina", "ines", "ingo", "inka", "ira", "iris", "isa", "ivo", "iwan", "iza", "izzy", "ike"}
	interrupted, cancel := context.WithCancelCause(t.Context())
	interruption := errors.New("the power went")
	class.Progress = func(int, int, string) { cancel(interruption) }
	if _, err := class.Invite(interrupted, students(names...)); !errors.Is(err, context.Canceled) &&
		!errors.Is(err, interruption) {
		t.Fatalf("Revoke() error = %v", err)
	}
	class.Progress = nil
	for _, invited := range invite(t, class, names...) {
		if err := Try(t.Context(), invited); err != nil {
			t.Error(err)
		}
	}
	interrupted, cancel = context.WithCancelCause(t.Context())
	class.Progress = func(int, int, string) { cancel(interruption) }
	if _, err := class.Revoke(interrupted, students(names...), false); !errors.Is(err, context.Canceled) &&
		!errors.Is(err, interruption) {
		t.Fatalf("Revoke() error = %v", err)
	}
	class.Progress = nil
	// The namespaces are still being deleted. Objects that are created in them now must not be deleted with them.
	for _, invited := range invite(t, class, names[:3]...) {
		if err := Try(t.Context(), invited); err != nil {
			t.Error(err)
		}
		if _, err := client(t, as(t, invited)).CoreV1().ConfigMaps(invited.Namespace()).List(
			t.Context(), metav1.ListOptions{},
		); err != nil {
			t.Error(err)
		}
	}
	if _, err := class.Revoke(t.Context(), students(names...), false); err != nil {
		t.Error(err)
	}
}
