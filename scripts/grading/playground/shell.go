// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"fmt"

	"al.essio.dev/pkg/shellescape"

	"lva.io/operators/scripts/checkout"
)

// ShellLines returns the lines that configure a person's shell for the playground, each with a line break. An existing
// kubectl takes precedence over the checkout's.
func ShellLines(repo *checkout.Checkout) string {
	return fmt.Sprintf("export KUBECONFIG=%s\nexport PATH=\"$PATH\":%s\n",
		shellescape.Quote(repo.Playground().Kubeconfig()), shellescape.Quote(BinDir(repo)))
}
