// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package readyz asks an API server once whether it is ready. It does not wait.
package readyz

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
)

// Ask sends one request. The error names the checks of the server that fail, or the reason why the server does not
// answer. Excluded checks are ignored.
func Ask(ctx context.Context, client rest.Interface, excluded ...string) error {
	request := client.Get().AbsPath("/readyz")
	for _, check := range excluded {
		request.Param("exclude", check)
	}
	page, err := request.DoRaw(ctx)
	if err == nil {
		return nil
	}
	// The error contains the whole page, with a line for each of some fifty checks.
	var failed []string
	for line := range strings.Lines(string(page)) {
		if check, is := strings.CutPrefix(line, "[-]"); is {
			name, _, _ := strings.Cut(strings.TrimSpace(check), " ")
			failed = append(failed, name)
		}
	}
	if len(failed) == 0 {
		return err
	}
	return fmt.Errorf("it is not ready: its checks of %s fail", strings.Join(failed, ", "))
}
