// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/stage/stagetest"
	"lva.io/operators/scripts/grading/submission"
	"lva.io/operators/scripts/grading/submission/samples"
)

// seeing is a program that prints how it was started: its command, flags and environment, and the kubeconfig in its
// home.
const seeing = `-- cmd/main.go --
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	arguments, words := os.Args[1:], ""
	for len(arguments) > 0 && !strings.HasPrefix(arguments[0], "-") {
		words, arguments = words+arguments[0]+" ", arguments[1:]
	}
	kubeconfig := ""
	if words != "" {
		flag.CommandLine.StringVar(&kubeconfig, "kubeconfig", "", "leads to the cluster")
		flag.String("metrics-bind-address", ":8080", "")
	}
	if err := flag.CommandLine.Parse(arguments); err != nil {
		os.Exit(2)
	}
	fmt.Println("command:", words)
	content, err := os.ReadFile(kubeconfig)
	fmt.Println("flag:", string(content), err == nil)
	content, err = os.ReadFile(os.Getenv("HOME") + "/.kube/config")
	fmt.Println("home:", string(content), err == nil)
	environment := os.Environ()
	slices.Sort(environment)
	for _, variable := range environment {
		switch name, value, _ := strings.Cut(variable, "="); name {
		case "PATH", "HOME", "TMPDIR", "KUBECONFIG", "OPERATOR_LABS_SCOPE":
			if value == "of the Deployment" {
				fmt.Println("not ours:", name)
			}
		default:
			fmt.Println("variable:", variable)
		}
	}
}
`

// A program is started as in its Deployment, as far as that makes sense outside of a Pod, and finds its kubeconfig.
func TestOperatorIsStartedLikeItsDeployment(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: controller-manager}\n" +
		"spec:\n  template:\n    spec:\n      containers:\n"
	const nothing, config = "command: \nflag:  false\nhome: the kubeconfig true\n",
		"flag: the kubeconfig true\nhome: the kubeconfig true\n"
	for _, test := range []struct{ name, file, container, saw string }{
		{"no Deployment", "README.md", "", nothing},
		{"invalid YAML", "config/manager/manager.yaml", "      - {", nothing},
		{
			"several containers, none called manager", "config/manager/manager.yaml",
			"      - {name: a, args: [start]}\n      - {name: b, args: [start]}\n", nothing,
		},
		{
			"a command in the arguments", "config/manager/manager.yaml",
			"      - {name: manager, args: [start, --leader-elect, now]}\n", "command: start \n" + config,
		},
		{
			"a command of two words", "deploy/operator.yaml",
			"      - {name: shop, command: [/manager, run], args: [operator, /etc/shop.yaml]}\n",
			"command: run operator \n" + config,
		},
		{
			"the program alone", "config/manager/manager.yaml", "      - {name: proxy, args: [start]}\n" +
				"      - {name: manager, command: [manager], args: [--leader-elect]}\n", nothing,
		},
		{
			"an environment", "config/manager/manager.yaml", `      - name: manager
        env:
        - {name: OPERATOR_NAME, value: shop}
        - {name: EMPTY, value: ""}
        - {name: GREETING, value: hello $(OPERATOR_NAME)}
        - {name: HOME, value: of the Deployment}
        - {name: KUBECONFIG, value: of the Deployment}
        - {name: KUBERNETES_SERVICE_HOST, value: kubernetes}
        - {name: FREEZER_URL, value: http://freezer}
        - {name: WATCH_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: PASSWORD, valueFrom: {secretKeyRef: {name: shop, key: password}}}
`,
			nothing + "variable: FREEZER_URL=http://127.0.0.1\n" +
				"variable: OPERATOR_NAME=shop\nvariable: WATCH_NAMESPACE=operator-system\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := stagetest.Builder(t, samples.Lay(t, samples.Module+seeing+"-- "+test.file+" --\n"+head+test.container))
			if err := b.Build(t.Context()); err != nil {
				t.Fatal(err)
			}
			kubeconfig := filepath.Join(b.Scope.Dir, "kubeconfig")
			if err := os.WriteFile(kubeconfig, []byte("the kubeconfig"), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the operator may be started again
				var output strings.Builder
				started, err := launched(b, kubeconfig, "FREEZER_URL=http://127.0.0.1").Start(&output)
				if err != nil {
					t.Fatal(err)
				}
				<-started.Done()
				saw, want := strings.TrimPrefix(output.String(), "\n"), test.saw
				if !strings.Contains(want, "FREEZER_URL") {
					want += "variable: FREEZER_URL=http://127.0.0.1\n"
				}
				if saw != want {
					t.Errorf("got\n%s\nwant\n%s", saw, want)
				}
			}
		})
	}
}

// A check can start a program without its flag --kubeconfig, so that it uses the variable KUBECONFIG.
func TestKubeconfigFlagCanBeOmitted(t *testing.T) {
	t.Parallel()
	const manager = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: controller-manager}\n" +
		"spec:\n  template:\n    spec:\n      containers:\n      - {name: manager, args: [start]}\n"
	b := stagetest.Builder(t, samples.Lay(t, samples.Module+seeing+"-- config/manager/manager.yaml --\n"+manager))
	if err := b.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(b.Scope.Dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte("the kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"--kubeconfig=":            "flag:  false",
		"--metrics-bind-address=0": "flag: the kubeconfig true",
	} {
		var output strings.Builder
		started, err := launched(b, kubeconfig).StartWith(&output, flag)
		if err != nil {
			t.Fatal(err)
		}
		<-started.Done()
		if !strings.Contains(output.String(), want+"\n") {
			t.Errorf("with %s: got\n%s\nwant %q", flag, output.String(), want)
		}
	}
}

// A program may leave its home in a state in which the next one can't be started.
func TestFolderOfOperatorIsReplaced(t *testing.T) {
	t.Parallel()
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := scope.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &submission.Builder{Scope: scope}
	kube := filepath.Join(b.Home(), ".kube")
	for _, closed := range []string{kube, b.Home()} {
		if err := errors.Join(os.MkdirAll(filepath.Join(kube, "config", "deep"), 0o700), os.Chmod(closed, 0)); err != nil {
			t.Fatal(err)
		}
		if err := launched(b, "").fillFolder(".kube", func(folder *os.Root) error {
			return folder.WriteFile("config", nil, 0o600)
		}); err != nil {
			t.Errorf("without permissions for %s: error = %v", closed, err)
		}
		if err := os.RemoveAll(kube); err != nil {
			t.Fatal(err)
		}
	}
}

// launched returns an operator with a built program that needs no webhooks.
func launched(b *submission.Builder, kubeconfig string, environment ...string) *operator {
	return &operator{installed: &installed{
		Submission:  stage.Submission{Builder: b},
		kubeconfig:  kubeconfig,
		environment: environment,
	}}
}

func TestOperatorDoesNotInheritTheUsersEnvironment(t *testing.T) {
	t.Setenv("KUBECONFIG", "/somewhere/.kube/config")
	t.Setenv("HTTPS_PROXY", "http://proxy.example")
	b := stagetest.Builder(t, samples.Lay(t, samples.Module+`-- cmd/main.go --
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	for _, variable := range os.Environ() {
		fmt.Println(strings.SplitN(variable, "=", 2)[0])
	}
	fmt.Println(os.Getenv("KUBECONFIG"))
	here, err := os.Getwd()
	fmt.Println(here == os.Getenv("HOME"), err)
}
`))
	if err := b.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	var output strings.Builder
	started, err := launched(b, "/run/kubeconfig").Start(&output)
	if err != nil {
		t.Fatal(err)
	}
	<-started.Done()
	want := "PATH\nHOME\nTMPDIR\nKUBECONFIG\nOPERATOR_LABS_SCOPE\n/run/kubeconfig\ntrue <nil>\n"
	if output.String() != want {
		t.Errorf("got\n%s\nwant\n%s", output.String(), want)
	}
}
