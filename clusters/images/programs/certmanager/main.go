// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command certmanager runs cert-manager as one multi-call program: its controller, cainjector, webhook, acmesolver and
// startupapicheck. The code is cert-manager's own where its packages can be imported. Their main packages, which parse
// the flags, are in modules that no Go module proxy has, so this program implements those parts again.
//
// It accepts the flags that cert-manager's chart sets and those that the course needs. It never ignores an unknown
// flag, but fails.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	logf "github.com/cert-manager/cert-manager/pkg/logs"
	utilfeature "github.com/cert-manager/cert-manager/pkg/util/feature"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// programs are the programs that it can run, selected by its name (a symbolic link), or by its first argument.
var programs = map[string]func(ctx context.Context, args []string) error{
	"controller":      runController,
	"cainjector":      runCAInjector,
	"webhook":         runWebhook,
	"acmesolver":      runSolver,
	"startupapicheck": runAPICheck,
}

func main() {
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	if programs[name] == nil && len(args) > 0 {
		name, args = args[0], args[1:]
	}
	run := programs[name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "certmanager: unknown program %q: "+
			"call it as controller, cainjector, webhook, acmesolver or startupapicheck\n", name)
		os.Exit(2)
	}
	ctx := ctrl.SetupSignalHandler()
	logf.InitLogs()
	log := klog.Background().WithName("cert-manager").WithName(name)
	ctrl.SetLogger(log)
	err := run(logf.NewContext(ctx, log), args)
	logf.FlushLogs()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// flags are a program's flags, those of logging among them. Parse them with parse.
type flags struct {
	*pflag.FlagSet
	logging *logsapi.LoggingConfiguration
	gates   map[string]bool
}

func newFlags(program string) *flags {
	f := &flags{FlagSet: pflag.NewFlagSet(program, pflag.ContinueOnError), logging: logsapi.NewLoggingConfiguration()}
	logf.AddFlags(f.logging, f.FlagSet)
	f.Var(flag.NewMapStringBool(&f.gates), "feature-gates", "features to switch on or off: name=true,…; known are\n"+
		strings.Join(utilfeature.DefaultFeatureGate.KnownFeatures(), "\n"))
	return f
}

func (f *flags) parse(args []string) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("it takes flags only, and not %q", f.Arg(0))
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(f.gates); err != nil {
		return err
	}
	return logf.ValidateAndApply(f.logging)
}
