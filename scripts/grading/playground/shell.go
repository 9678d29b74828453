// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"fmt"

	"al.essio.dev/pkg/shellescape"

	"lva.io/operators/scripts/checkout"
)

// ShellLines are the lines that bring the playground into a person's shell, each with its end. A kubectl that they have
// comes before ours.
func ShellLines(here *checkout.Checkout) string {
	return fmt.Sprintf("export KUBECONFIG=%s\nexport PATH=\"$PATH\":%s\n",
		shellescape.Quote(here.Playground().Kubeconfig()), shellescape.Quote(BinDir(here)))
}
