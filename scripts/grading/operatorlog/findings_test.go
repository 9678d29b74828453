// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package operatorlog_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lva.io/operators/scripts/grading/operatorlog"
)

var source = operatorlog.Source{Module: "example.com/icecream", Dir: "/src/icecream"}

// The files contain the output of one program through each logger: twice a panic that was recovered as
// controller-runtime does, which Reconcile then returns as an error, and twice an error of its own.
func TestReadLoggers(t *testing.T) {
	t.Parallel()
	const forbidden = `list the icecreams: icecreams.demo.lva.io is forbidden: ` +
		`User "system:serviceaccount:operator-system:controller-manager" ` +
		`cannot list resource "icecreams"`
	want := operatorlog.Findings{
		Last: "Reconciler error: " + forbidden,
		Panics: []operatorlog.Panic{{
			Value: "index out of range [3] with length 3", Position: "internal/controller/icecream_controller.go:16", Count: 2,
		}},
		Errors: []operatorlog.Error{{
			Controller: "icecream", Count: 2, Text: forbidden,
			Objects: map[string]operatorlog.Returned{"sundae": {Count: 2, Text: forbidden}},
		}},
	}
	for _, logger := range []string{
		"zapdev", "zapprod", "zapconsoleprod", "klogr-serialize", "klog-old", "textlogger",
		"klog-background", "stdr", "funcr-json", "slog-text", "slog-json",
	} {
		t.Run(logger, func(t *testing.T) {
			t.Parallel()
			got := operatorlog.Read(logged(t, logger), source)
			if logger == "funcr-json" {
				got.Last = want.Last // this logger has no levels
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// These logs contain what Go itself prints: a program that ended, and a server that caught a panic.
func TestReadCrashes(t *testing.T) {
	t.Parallel()
	const controller = "internal/controller/icecream_controller.go:16"
	for name, want := range map[string]operatorlog.Panic{
		"crash":   {Value: "index out of range [3] with length 3", Position: controller, Count: 1, Fatal: true},
		"repanic": {Value: "index out of range [3] with length 0", Position: controller, Count: 1, Fatal: true},
		"fatal":   {Value: "concurrent map writes", Position: "main.go:39", Count: 1, Fatal: true},
		"http":    {Value: "index out of range [3] with length 0", Position: controller, Count: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := operatorlog.Read(logged(t, name), source)
			if diff := cmp.Diff(operatorlog.Findings{Panics: []operatorlog.Panic{want}}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadOldControllerRuntime(t *testing.T) {
	t.Parallel()
	got := operatorlog.Read(logged(t, "controller-runtime-0.6"), source).Lines()
	want := []string{
		"the operator panicked: no more (cones), at controllers/icecream_controller.go:61",
		`Reconcile returned the same error 2 times: Operation cannot be fulfilled on icecreams.demo.lva.io "split": ` +
			"the object has been modified; please apply your changes to the latest version and try again",
		"Reconcile returned an error: settle the account: the freezer answers 503",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFindingsLines(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		log  []string
		want []string
	}{
		{"nothing", []string{"2026-01-01T00:00:00Z\tINFO\tpanic rooms are empty\t{}", "no panic: all is well", ""}, nil},
		{"a panic whose value differs each time", []string{
			`{"msg":"Observed a panic","panic":"no cone 1",` +
				`"stacktrace":"goroutine 1 [running]:\nmain.eat()\n\texample.com/icecream/eat.go:9 +0x1\n"}`,
			`{"msg":"Reconciler error","error":"panic: no cone 1 [recovered]"}`,
			`{"msg":"Observed a panic","panic":"no cone 2",` +
				`"stacktrace":"goroutine 1 [running]:\nmain.eat()\n\texample.com/icecream/eat.go:9 +0x1\n"}`,
			`{"msg":"Reconciler error","error":"panic: no cone 2 [recovered]"}`,
		}, []string{"the operator panicked 2 times: no cone 1, at eat.go:9"}},
		{"a panic whose stack is not logged", []string{
			`{"level":"error","msg":"Reconciler error","error":"panic: no cone [recovered]","name":"a"}`,
			`{"level":"error","msg":"Reconciler error","error":"panic: no cone [recovered]","name":"b"}`,
		}, []string{"the operator panicked 2 times: no cone"}},
		{"a panic in a library", []string{
			"panic: no cone", "", "goroutine 7 [running]:", "other.org/lib.Do(...)",
			"\tother.org/lib@v1.0.0/do.go:7 +0x1", "exit status 2",
		}, []string{"the operator panicked: no cone"}},
		{"frames of the code that recovered a panic are skipped", []string{
			"panic: no cone [recovered, repanicked]", "", "goroutine 7 [running]:", "example.com/icecream/cmd.catch()",
			"\texample.com/icecream/cmd/catch.go:3 +0x1", "panic({0x1, 0x2})", "\truntime/panic.go:1 +0x1",
			"example.com/icecream/cmd.eat()", "\texample.com/icecream/cmd/eat.go:9 +0x1",
		}, []string{"the operator panicked: no cone, at cmd/eat.go:9"}},
		{"generated and vendored files are skipped", []string{
			"panic: no cone", "", "goroutine 7 [running]:",
			"example.com/icecream/vendor/x.Do()", "\texample.com/icecream/vendor/x/do.go:1 +0x1",
			"example.com/icecream/api/v1.(*Icecream).DeepCopy(...)",
			"\texample.com/icecream/api/v1/zz_generated.deepcopy.go:4 +0x1",
			"example.com/icecream/cmd.eat()", "\texample.com/icecream/cmd/eat.go:9 +0x1",
		}, []string{"the operator panicked: no cone, at cmd/eat.go:9"}},
		{"one position with several values, and the crash first", []string{
			"2026/01/01 00:00:00 http: panic serving 127.0.0.1:1: no cup",
			"goroutine 7 [running]:", "example.com/icecream.a()", "\texample.com/icecream/a.go:1 +0x1", "",
			"2026/01/01 00:00:00 http: panic serving 127.0.0.1:2: no spoon",
			"goroutine 8 [running]:", "example.com/icecream.a()", "\texample.com/icecream/a.go:1 +0x1", "",
			"fatal error: all goroutines are asleep - deadlock!", "",
			"goroutine 1 [chan receive]:", "main.main()", "\texample.com/icecream/cmd/main.go:5 +0x1",
		}, []string{
			"the operator panicked: all goroutines are asleep - deadlock!, at cmd/main.go:5",
			"the operator panicked 2 times: no cup, at a.go:1",
		}},
		{"errors that differ in names and numbers are the same", []string{
			`E0101 00:00:00.000000 1 c.go:1] "Reconciler error" err="delete \"a\": 3 left" controller="icecream" name="a"`,
			`E0101 00:00:00.000000 1 c.go:1] "Reconciler error" err="delete \"b\": 14 left" controller="icecream" name="b"`,
		}, []string{`Reconcile returned the same error 2 times: delete "b": 14 left`}},
		{"several controllers are named", []string{
			`{"msg":"Reconciler error","err":"no cone","controller":"icecream"}`,
			`{"msg":"Reconciler error","err":"no cone","controller":"icecream"}`,
			`{"message":"Reconciler error","error":"no cone","controller":"waffle"}`,
		}, []string{
			"Reconcile of the controller icecream returned the same error 2 times: no cone",
			"Reconcile of the controller waffle returned an error: no cone",
		}},
		{"an error of several lines is one sentence", []string{
			`{"msg":"Reconciler error","err":"no cone\nno cup"}`,
		}, []string{
			"Reconcile returned an error: no cone; no cup",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, operatorlog.Read(strings.Join(test.log, "\n"), source).Lines()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadWebhookPaths(t *testing.T) {
	t.Parallel()
	log := `2026-01-01T00:00:00Z	INFO	controller-runtime.builder	Registering a validating webhook	` +
		`{"GVK": "demo.lva.io/v1, Kind=Icecream", "path": "/validate-demo-lva-io-v1-icecream"}
2026-01-01T00:00:00Z	INFO	controller-runtime.webhook	Registering webhook	{"path": "/validate-demo-lva-io-v1-icecream"}
{"level":"info","logger":"controller-runtime.webhook","msg":"registering webhook","path":"/mutate"}
I0101 00:00:00.000000 1 server.go:1] "Registering webhook" path="/convert"
{"msg":"Registering a webhook for visitors"}`
	want := []string{"/convert", "/mutate", "/validate-demo-lva-io-v1-icecream"}
	if got := operatorlog.Read(log, source).Webhooks; !slices.Equal(got, want) {
		t.Errorf("paths are %q", got)
	}
}

func TestReadObjectsOfErrors(t *testing.T) {
	t.Parallel()
	log := `{"msg":"Reconciler error","error":"x 1","name":"b"}
{"msg":"Reconciler error","error":"x 2","request":"default/a"}
{"msg":"Reconciler error","error":"x 3","name":"b"}
{"msg":"Reconciler error","error":"x 4"}`
	got := operatorlog.Read(log, source)
	if len(got.Errors) != 1 ||
		!maps.Equal(got.Errors[0].Objects, map[string]operatorlog.Returned{"a": {1, "x 2"}, "b": {2, "x 3"}}) {
		t.Errorf("errors are %+v, want one error: once for a, and twice for b", got.Errors)
	}
}

func logged(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestReadLastError(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, log, want string }{
		{"none", "2026-01-01T00:00:00Z\tINFO\terrors are far\t{\"error\": \"no\"}\nI0101 00:00:00.000000 1 c.go:1] bye", ""},
		{
			"zap's console",
			"2026-01-01T00:00:00Z\tERROR\tsetup\tunable to start manager\t{\"error\": \"no cache\"}\n" +
				"main.main\n\t/main.go:1\n2026-01-01T00:00:00Z\tINFO\tbye",
			"unable to start manager: no cache",
		},
		{
			"JSON", `{"level":"error","msg":"unable to start manager","error":"no cache\nno cone"}`,
			"unable to start manager: no cache; no cone",
		},
		{
			"klog", `E0101 00:00:00.000000 1 main.go:1] "unable to start manager" err="no cache"`,
			"unable to start manager: no cache",
		},
		{
			"klog without fields", "E0101 00:00:00.000000 1 main.go:1] unable to start manager",
			"unable to start manager",
		},
		{
			"slog", `time=2026-01-01 level=ERROR msg="unable to start manager" err="no cache"`,
			"unable to start manager: no cache",
		},
		{
			"stdr", `2026/01/01 00:00:00 "msg"="unable to start manager" "error"="no cache"`,
			"unable to start manager: no cache",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := operatorlog.Read(test.log, source).Last; got != test.want {
				t.Errorf("Last = %q, want %q", got, test.want)
			}
		})
	}
}

func TestReadValueBesideGoLiteral(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(" (", 1<<21) + ")" // an operator can log a line of megabytes
	for _, test := range []struct{ logged, want string }{
		{`main.cold{degrees:(-3)} (too cold)`, "too cold"},
		{`&errors.errorString{s:"a (b)"} (a (b))`, "a (b)"},
		{`"melted (again)" (melted (again))`, "melted (again)"},
		{`melted (again`, "melted (again"},
		{` (melted)`, " (melted)"},
		{`f(x)`, "f(x)"},
		{`0x0 ()`, ""},
		{many, many},
	} {
		log := "E1122 09:58:43.363286   14442 main.go:81] Observed a panic: " + test.logged
		got := operatorlog.Read(log, source).Panics
		if len(got) != 1 || strings.TrimSpace(got[0].Value) != strings.TrimSpace(test.want) {
			t.Errorf("%.99s is read as %.99v, want the value %.99s", test.logged, got, test.want)
		}
	}
}
