// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lva.io/operators/scripts/grading/submission/samples"
)

// A program gets only the flags that it knows. A flag that its help only mentions does not count.
func TestFlagsOfAProgram(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, main string
		flags      []string
		port       bool
	}{
		{
			"package flag", `flag.String("metrics-bind-address", ":8080", "The address."); ` +
				`flag.String("health-probe-bind-address", ":8081", ""); flag.Int("webhook-port", 9443, ""); flag.Parse()`,
			[]string{"--metrics-bind-address=0", "--health-probe-bind-address=0"},
			true,
		},
		{
			"of 2019", `flag.String("metrics-addr", ":8080", "The address."); flag.Parse()`,
			[]string{"--metrics-addr=0"},
			false,
		},
		{
			"an old flag in a help text", `flag.String("metrics-bind-address", ":8080", "Once called --metrics-addr.\n` +
				`  -health-probe-bind-address is gone,\n-webhook-port too"); flag.Parse()`,
			[]string{"--metrics-bind-address=0"},
			false,
		},
		{
			"an old flag in a message",
			`flag.Parse(); if flag.NArg() > 9 { println("--metrics-addr is no more: take --metrics-bind-address") }`,
			nil, false,
		},
		{"a FlagSet that continues after an error", `
			flags := flag.NewFlagSet("manager", flag.ContinueOnError)
			flags.String("metrics-bind-address", ":8080", "The address.")
			if err := flags.Parse(os.Args[1:]); err != nil { os.Exit(3) }`, []string{"--metrics-bind-address=0"}, false},
		{"in the form of pflag", `
			if len(os.Args) > 1 && os.Args[1] == "-h" {
				os.Stdout.WriteString("Usage:\n  manager [flags]\n\nFlags:\n" +
					"      --health-probe-bind-address string   The address (default \":8081\")\n" +
					"  -m, --metrics-bind-address string        The address, once --metrics-addr\n" +
					"                                           --webhook-port is no more\n")
			}
			flag.Parse()`, []string{"--metrics-bind-address=0", "--health-probe-bind-address=0"}, false},
		{"none at all", `println("I do not ask")`, nil, false},
		{"help that never ends", `for { if len(os.Args) > 9 { println("metrics-bind-address") } }`, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := builder(t, samples.Lay(t, samples.Module+"-- main.go --\npackage main\n\nimport (\n\t\"flag\"\n\t\"os\"\n)\n\n"+
				"var _ = flag.Parse\nvar _ = os.Exit\n\nfunc main() {\n"+test.main+"\n}\n"))
			began := time.Now()
			if err := b.Build(t.Context()); err != nil {
				t.Fatal(err)
			}
			if takes := b.Launch.WebhookPort != ""; !slices.Equal(b.Launch.Flags, test.flags) || takes != test.port {
				t.Errorf("got flags %q, want %q; has a flag for the webhook port: %t", b.Launch.Flags, test.flags, takes)
			}
			if took := time.Since(began); strings.Contains(test.name, "never ends") && took < helpTimeout {
				t.Errorf("Build() returned after only %s", took)
			}
		})
	}
}
