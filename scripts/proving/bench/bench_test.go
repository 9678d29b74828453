// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lva.io/operators/clusters/embedded"
	"lva.io/operators/clusters/multicall"
)

// root is the root of the checkout, relative to this package.
const root = "../../.."

// samples are measured durations in seconds, or sizes in megabytes.
type samples []float64

func (s samples) report(b *testing.B, unit string) {
	b.Helper()
	slices.Sort(s)
	b.ReportMetric(s[len(s)/2], "median-"+unit)
	b.ReportMetric(s[len(s)-1], "worst-"+unit)
}

func program(b *testing.B) *multicall.Program {
	b.Helper()
	absolute, err := filepath.Abs(root)
	if err != nil {
		b.Fatal(err)
	}
	p, err := multicall.New(absolute)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Ensure(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	return p
}

// BenchmarkStart alternately starts our cluster until its controllers work, and envtest's etcd and API server alone,
// from the same program. They alternate so that other load on the machine slows down both.
func BenchmarkStart(b *testing.B) {
	p := program(b)
	assets := b.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if err := os.Symlink(p.Path, filepath.Join(assets, name)); err != nil {
			b.Fatal(err)
		}
	}
	var ours, peers, ratios samples
	for b.Loop() {
		took := startEmbedded(b, p)
		peer := startEnvtest(b, assets)
		ours, peers, ratios = append(ours, took), append(peers, peer), append(ratios, took/peer)
	}
	b.ReportMetric(0, "ns/op") // the sum of both is meaningless
	ours.report(b, "s")
	peers.report(b, "envtest-s")
	ratios.report(b, "ratio")
}

func startEmbedded(b *testing.B, p *multicall.Program) float64 {
	b.Helper()
	began := time.Now()
	cluster, err := embedded.Start(b.Context(), p)
	if err != nil {
		b.Fatal(err)
	}
	took := time.Since(began).Seconds()
	if err := cluster.Stop(); err != nil {
		b.Fatal(err)
	}
	return took
}

func startEnvtest(b *testing.B, assets string) float64 {
	b.Helper()
	log.SetLogger(log.Log.WithSink(log.NullLogSink{})) // without a logger it prints a long warning
	environment := &envtest.Environment{BinaryAssetsDirectory: assets}
	began := time.Now()
	config, err := environment.Start()
	if err != nil {
		b.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	// envtest returns when the server is healthy. Our cluster has already answered a request, so this request makes both
	// alike.
	if _, err := client.Discovery().ServerVersion(); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began).Seconds()
	if err := environment.Stop(); err != nil {
		b.Fatal(err)
	}
	return took
}

// lab runs the lab command to its end and returns how long it took, in seconds.
func lab(b *testing.B, args ...string) float64 {
	b.Helper()
	command := exec.CommandContext(b.Context(), filepath.Join(root, ".cache", "bin", "lab"), args...)
	began := time.Now()
	if output, err := command.CombinedOutput(); err != nil {
		b.Fatalf("lab %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return time.Since(began).Seconds()
}

// BenchmarkGrade grades the solution of lab 2, with nothing to compile.
func BenchmarkGrade(b *testing.B) {
	lab(b, "grade", "2", "--solution")
	var took samples
	for b.Loop() {
		took = append(took, lab(b, "grade", "2", "--solution"))
	}
	took.report(b, "s")
}

// BenchmarkGradeAll grades all solutions, one after the other.
func BenchmarkGradeAll(b *testing.B) {
	lab(b, "grade", "--all", "--solution")
	var took samples
	for b.Loop() {
		took = append(took, lab(b, "grade", "--all", "--solution"))
	}
	took.report(b, "s")
}

// BenchmarkWatch saves a file of the reconciler and waits for the verdict, which includes compiling, linking and all
// checks.
func BenchmarkWatch(b *testing.B) {
	w := startWatch(b)
	var took samples
	for b.Loop() {
		took = append(took, w.save(func() { change(b, w.source) }, " points;"))
	}
	took.report(b, "s")
}

// BenchmarkWatchFailure saves a mistake, and waits until the check that it fails is reported.
func BenchmarkWatchFailure(b *testing.B) {
	w := startWatch(b)
	right, err := os.ReadFile(w.source)
	if err != nil {
		b.Fatal(err)
	}
	const counted = "len(icecream.Spec.Topping)"
	if !bytes.Contains(right, []byte(counted)) {
		b.Fatalf("%s no longer counts toppings with %s", w.source, counted)
	}
	var took samples
	for n := 1; b.Loop(); n++ {
		wrong := bytes.Replace(right, []byte(counted), fmt.Appendf(nil, "%s+%d", counted, n), 1)
		took = append(took, w.save(func() {
			if err := os.WriteFile(w.source, wrong, 0o600); err != nil {
				b.Fatal(err)
			}
		}, "FAIL toppings-count"))
	}
	took.report(b, "s")
}

// watched is a folder that `lab watch` grades.
type watched struct {
	*testing.B
	// source is the file of the reconciler. lines are the lines that the watch prints.
	source string
	lines  *bufio.Scanner
}

// startWatch watches a copy of the solution of lab 2 until the benchmark ends.
func startWatch(b *testing.B) *watched {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "submission")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "solutions", "02-reconciler"))); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	command := exec.CommandContext(ctx, filepath.Join(root, ".cache", "bin", "lab"), "watch", "2", "--dir", dir)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	output, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cancel()
		_, _ = io.Copy(io.Discard, output)
		_ = command.Wait() // interrupted
	})
	w := &watched{
		B: b, source: filepath.Join(dir, "internal", "controller", "icecream_controller.go"),
		lines: bufio.NewScanner(output),
	}
	waitFor(b, w.lines, "Watching ")
	return w
}

// save returns how many seconds pass from a change until the watch prints something. It returns when the watch waits
// for the next change.
func (w *watched) save(change func(), expected string) float64 {
	w.Helper()
	w.StopTimer()
	// A student takes longer than the start of the next cluster.
	waitUntilWarm(w.B)
	w.StartTimer()
	change()
	began := time.Now()
	waitFor(w.B, w.lines, expected)
	took := time.Since(began).Seconds()
	waitFor(w.B, w.lines, "Watching ")
	return took
}

// waitUntilWarm gives the next cluster the time to start that a student would spend typing.
func waitUntilWarm(b *testing.B) {
	b.Helper()
	const typing = 8 * time.Second
	select {
	case <-time.After(typing):
	case <-b.Context().Done():
		b.Fatal(b.Context().Err())
	}
}

func waitFor(b *testing.B, lines *bufio.Scanner, text string) {
	b.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	b.Fatalf("the watch ended before it printed %q: %v", text, lines.Err())
}

// change changes a source file so that it has to be compiled and linked again.
func change(b *testing.B, file string) {
	b.Helper()
	source, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	_, err = source.WriteString("\nvar _ = \"" + time.Now().String() + "\"\n")
	if err := errors.Join(err, source.Close()); err != nil {
		b.Fatal(err)
	}
}
