// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package playground

import (
	"fmt"
	"regexp"
	"strings"

	"lva.io/operators/scripts/checkout"
)

// ShellLines are the lines that bring the playground into a person's shell, each with its end. A kubectl that they have
// comes before ours.
func ShellLines(here *checkout.Checkout) string {
	return fmt.Sprintf("export KUBECONFIG=%s\nexport PATH=\"$PATH\":%s\n",
		Quoted(here.Playground().Kubeconfig()), Quoted(BinDir(here)))
}

// Quoted is a path as a shell reads it.
func Quoted(path string) string {
	if plain.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./+@:,-]+$`)
