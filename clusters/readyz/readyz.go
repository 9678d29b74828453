// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package readyz asks an API server whether it is ready. It waits for nothing.
package readyz

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
)

// Ask asks once. The error names the checks of the server that fail, or says why it gives no answer. Excluded checks do
// not count.
func Ask(ctx context.Context, client rest.Interface, excluded ...string) error {
	request := client.Get().AbsPath("/readyz")
	for _, check := range excluded {
		request.Param("exclude", check)
	}
	page, err := request.DoRaw(ctx)
	if err == nil {
		return nil
	}
	// The error has all of the page: a line for each of some fifty checks.
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
