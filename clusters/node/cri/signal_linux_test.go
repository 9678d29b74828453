// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestStopSignal(t *testing.T) {
	for _, test := range []struct {
		pod   runtimeapi.Signal
		image string
		want  int // 0: an error
	}{
		{runtimeapi.Signal_RUNTIME_DEFAULT, "", 15},
		{runtimeapi.Signal_RUNTIME_DEFAULT, "SIGQUIT", 3},
		{runtimeapi.Signal_RUNTIME_DEFAULT, "quit", 3},
		{runtimeapi.Signal_RUNTIME_DEFAULT, "9", 9},
		{runtimeapi.Signal_RUNTIME_DEFAULT, "SIGRTMIN+3", 37},
		{runtimeapi.Signal_RUNTIME_DEFAULT, "RTMAX", 64},
		{runtimeapi.Signal_SIGUSR1, "SIGQUIT", 10},
		{runtimeapi.Signal_SIGRTMIN, "", 34},
		{runtimeapi.Signal_SIGRTMINPLUS15, "", 49},
		{runtimeapi.Signal_SIGRTMAXMINUS14, "", 50},
		{runtimeapi.Signal_RUNTIME_DEFAULT, "0", 0},
		{runtimeapi.Signal_RUNTIME_DEFAULT, "-9", 0},
		{runtimeapi.Signal_RUNTIME_DEFAULT, "65", 0},
		{runtimeapi.Signal_RUNTIME_DEFAULT, "9 ", 0},
		{runtimeapi.Signal_RUNTIME_DEFAULT, "SIGRTMAX+1", 0},
		{runtimeapi.Signal_RUNTIME_DEFAULT, "SIGNOSUCH", 0},
	} {
		got, err := stopSignal(test.pod, test.image)
		if got != test.want || (err != nil) != (test.want == 0) {
			t.Errorf("stopSignal(%s, %q) = %d, %v; want %d", test.pod, test.image, got, err, test.want)
		}
	}
}
