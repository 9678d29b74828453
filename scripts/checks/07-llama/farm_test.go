// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/grading/limited"
)

const (
	group        = "farm.example.com"
	groupVersion = group + "/v1alpha"
	apiService   = "v1alpha." + group
	root         = "/apis/" + groupVersion
)

var (
	llamaResource      = schema.GroupVersionResource{Group: group, Version: "v1alpha", Resource: "llamas"}
	apiServiceResource = schema.GroupVersionResource{
		Group:    "apiregistration.k8s.io",
		Version:  "v1",
		Resource: "apiservices",
	}
)

// llamas returns the path of the llamas of a namespace. Empty: of all namespaces.
func llamas(namespace string) string { return resources(namespace, "llamas") }

// llama returns the path of one llama.
func llama(namespace, name string) string { return llamas(namespace) + "/" + name }

func resources(namespace, plural string) string {
	if namespace == "" {
		return root + "/" + plural
	}
	return root + "/namespaces/" + namespace + "/" + plural
}

// visit is a check on the farm. Its methods are the vocabulary of this lab's checks.
type visit struct {
	*check.Check
	clients
	ctx context.Context
	t   *testing.T
}

// step makes a step of a feature from a function that uses the farm.
func step(do func(visit)) func(ctx context.Context, t *testing.T, c *check.Check) {
	return func(ctx context.Context, t *testing.T, c *check.Check) {
		t.Helper()
		do(visit{Check: c, clients: clientsOf(ctx), ctx: ctx, t: t})
	}
}

// answer is the result of a request.
type answer struct {
	method, path string
	code         int
	header       http.Header
	body         []byte
	err          error
}

// requestTimeout is the time limit of one request. The API server itself gives up after a minute.
const requestTimeout = 10 * time.Second

// send sends a request to the API server. body is encoded as JSON, or is a string that is sent unchanged. headers are
// names and values in turn.
func (c clients) send(ctx context.Context, method, path string, body any, headers ...string) answer {
	return sendBy(ctx, c.http, c.host, method, path, body, headers...)
}

func sendBy(ctx context.Context, client *http.Client, host, method, path string, body any, headers ...string) answer {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	a := answer{method: method, path: path}
	request, err := newRequest(ctx, host, method, path, body, headers...)
	if err != nil {
		a.err = err
		return a
	}
	response, err := client.Do(request)
	if err != nil {
		a.err = err
		return a
	}
	defer response.Body.Close()
	a.read(response)
	return a
}

// answerLimit is the maximum size of an answer, in bytes. The largest answer is OpenAPI's, with some hundred kB.
const answerLimit = 8 << 20

// read reads an answer from the submission.
func (a *answer) read(response *http.Response) {
	a.code, a.header = response.StatusCode, response.Header
	if a.body, a.err = limited.ReadAll(response.Body, answerLimit); a.err != nil {
		a.err = fmt.Errorf("reading the answer: %w", a.err)
	}
}

func newRequest(ctx context.Context, host, method, path string, body any, headers ...string) (*http.Request, error) {
	var content []byte
	switch body := body.(type) {
	case nil:
	case string:
		content = []byte(body)
	default:
		var err error
		if content, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(host, "/")+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "operator-labs-checks")
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "X-Remote-Group" || headers[i] == "Impersonate-Group" {
			request.Header.Add(headers[i], headers[i+1])
			continue
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	return request, nil
}

// String is the request and its answer, as evidence.
func (a answer) String() string {
	if a.err != nil {
		return fmt.Sprintf("%s %s: %v", a.method, a.path, a.err)
	}
	const shown = 400
	body := strings.TrimSpace(string(a.body))
	if len(body) > shown {
		body = body[:shown] + " …"
	}
	return fmt.Sprintf("%s %s: %d %s, Content-Type %q: %s",
		a.method, a.path, a.code, http.StatusText(a.code), a.header.Get("Content-Type"), body)
}

// summary returns the answer in a few words, to follow "the answer is".
func (a answer) summary() string {
	if a.err != nil {
		return "no answer: " + a.err.Error()
	}
	object := a.object()
	text := strings.TrimSpace(fmt.Sprintf("%d %s", a.code, http.StatusText(a.code))) // not every code has a text
	if reason := textOf(object, "reason"); reason != "" {
		text += fmt.Sprintf(" (%s: %s)", reason, textOf(object, "message"))
	}
	return text
}

// object returns the body as an object. It returns nil if the body is not an object.
func (a answer) object() map[string]any {
	var object map[string]any
	if a.err != nil || json.Unmarshal(a.body, &object) != nil {
		return nil
	}
	return object
}

// items returns the items of a list.
func (a answer) items() []map[string]any {
	found, _, _ := unstructured.NestedSlice(a.object(), "items")
	var items []map[string]any
	for _, item := range found {
		if object, ok := item.(map[string]any); ok {
			items = append(items, object)
		}
	}
	return items
}

// names returns the names of a list's items.
func (a answer) names() []string {
	names := []string{}
	for _, item := range a.items() {
		names = append(names, nameOf(item))
	}
	return names
}

// isStatus reports whether the body is a Status with this reason. An empty reason allows any.
func (a answer) isStatus(reason string) bool {
	object := a.object()
	return textOf(object, "kind") == "Status" && (reason == "" || textOf(object, "reason") == reason)
}

func textOf(object map[string]any, fields ...string) string {
	text, _, _ := unstructured.NestedString(object, fields...)
	return text
}

func nameOf(object map[string]any) string { return textOf(object, "metadata", "name") }
func uidOf(object map[string]any) string  { return textOf(object, "metadata", "uid") }
func versionOf(object map[string]any) string {
	return textOf(object, "metadata", "resourceVersion")
}

func numberOf(object map[string]any, fields ...string) any {
	number, _, _ := unstructured.NestedFieldNoCopy(object, fields...)
	return number
}

// newLlama returns a llama to create.
func newLlama(name string, weight, height any) map[string]any {
	return map[string]any{
		"apiVersion": groupVersion, "kind": "Llama", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"weight": weight, "height": height},
	}
}

// labelled returns a new llama with labels. Names and values alternate.
func labelled(name string, labels ...string) map[string]any {
	object := newLlama(name, 100.5, 1.5)
	set := map[string]any{}
	for i := 0; i+1 < len(labels); i += 2 {
		set[labels[i]] = labels[i+1]
	}
	object["metadata"].(map[string]any)["labels"] = set
	return object
}

// want fails the check unless an answer has one of these codes.
func (v visit) want(a answer, expected string, codes ...int) answer {
	v.t.Helper()
	for _, code := range codes {
		if a.err == nil && a.code == code {
			return a
		}
	}
	v.Fail(v.t, expected, "the answer is "+a.summary(), a.String())
	return a
}

// about fails the check unless a Status names the requested object. Clients and people use that name to find out what
// is missing.
func (v visit) about(a answer, kind, name string) {
	v.t.Helper()
	object := a.object()
	if textOf(object, "details", "name") == name &&
		textOf(object, "details", "kind") == kind && textOf(object, "details", "group") == group {
		return
	}
	v.fail(a, fmt.Sprintf("the Status has details with the name %q, the kind %q and the group %q", name, kind, group),
		fmt.Sprintf("details.name is %q, details.kind %q, details.group %q",
			textOf(object, "details", "name"), textOf(object, "details", "kind"), textOf(object, "details", "group")))
}

// fail fails the check, with the answer as evidence.
func (v visit) fail(a answer, expected, observed string) {
	v.t.Helper()
	v.Fail(v.t, expected, observed, a.String())
}

// create creates a llama, and fails the check if that does not work.
func (v visit) create(namespace string, object map[string]any) map[string]any {
	v.t.Helper()
	a := v.want(v.send(v.ctx, http.MethodPost, llamas(namespace), object), "a llama can be created", http.StatusCreated)
	return a.object()
}

// change patches a llama by a merge patch, and fails the check if that does not work.
func (v visit) change(namespace, name, patch string) map[string]any {
	v.t.Helper()
	a := v.send(v.ctx, http.MethodPatch, llama(namespace, name), patch, "Content-Type", string(types.MergePatchType))
	return v.want(a, "a merge patch changes a llama", http.StatusOK).object()
}

// drop deletes a llama, and fails the check if that does not work.
func (v visit) drop(namespace, name string) {
	v.t.Helper()
	v.want(v.send(v.ctx, http.MethodDelete, llama(namespace, name), nil), "a llama can be deleted",
		http.StatusOK, http.StatusAccepted)
}

// lookAgain is the interval at which a check reads state that no watch reports.
const lookAgain = 25 * time.Millisecond

// eventually repeats look until it succeeds, for as long as patience. The last look begins after that, so that one slow
// request decides nothing.
func (v visit) eventually(expected string, patience time.Duration, look check.Look, evidence ...string) {
	v.t.Helper()
	for began := time.Now(); ; v.Pause(v.ctx, v.t, lookAgain) {
		last := time.Since(began) > patience
		observed, ok := look()
		if ok {
			return
		}
		if last {
			v.Fail(v.t, expected, fmt.Sprintf("%s (after %s)", observed, patience), evidence...)
		}
	}
}

// reachPatience is how long the API server may take to find a server that answers, and to fetch its documents. The
// stage has already waited before.
const reachPatience = 3 * time.Second

// reaches waits until the API server answers a GET of a path as expected, and returns that answer.
func (v visit) reaches(path, expected string, look func(answer) (observed string, ok bool)) (a answer) {
	v.t.Helper()
	v.eventually(expected, reachPatience, v.withTouch(func() (string, bool) {
		a = v.send(v.ctx, http.MethodGet, path, nil)
		return look(a)
	}))
	return a
}

// touchEvery is the interval at which the APIService is changed during a wait. The API server checks an aggregated
// server at once when its APIService has changed, and otherwise up to half a minute later.
const touchEvery = 400 * time.Millisecond

// withTouch returns a look that also changes the APIService from time to time.
func (v visit) withTouch(look check.Look) check.Look {
	var last time.Time
	return func() (string, bool) {
		observed, ok := look()
		if !ok && time.Since(last) > touchEvery {
			last = time.Now()
			if err := v.touch(v.ctx); err != nil {
				v.t.Logf("changing the APIService %s: %v", apiService, err)
			}
		}
		return observed, ok
	}
}

// touch changes an annotation of the APIService.
func (c clients) touch(ctx context.Context) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"labs.lva.io/look-again":%q}}}`, time.Now().Format(time.RFC3339Nano))
	_, err := c.dynamic.Resource(apiServiceResource).Patch(ctx,
		apiService, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// condition returns the APIService's Available condition in words, and whether it is true.
func (v visit) condition() (message string, available bool) {
	object, err := v.dynamic.Resource(apiServiceResource).Get(v.ctx, apiService, metav1.GetOptions{})
	if err != nil {
		return fmt.Sprintf("the APIService %s can't be read: %v", apiService, err), false
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && textOf(c, "type") == "Available" {
			return fmt.Sprintf("the APIService's condition Available is %s (%s: %s)",
					textOf(c, "status"), textOf(c, "reason"), textOf(c, "message")),
				textOf(c, "status") == "True"
		}
	}
	return "the APIService has no condition Available", false
}

// listsAll reports whether the llamas of all namespaces can be listed.
func (v visit) listsAll() bool {
	return v.send(v.ctx, http.MethodGet, llamas(""), nil).code == http.StatusOK
}

// startPatience is how long it may take after the server's start until the API server sends requests to it.
const startPatience = 10 * time.Second

// start starts the server, and waits until it answers through the API server.
func (v visit) start() {
	v.t.Helper()
	v.kept.delayed = false
	v.OK(v.t, "starting the server", v.Operator.Start(v.ctx))
	v.answers("the server answers after it was started again")
}

// answers waits until the server answers through the API server.
func (v visit) answers(expected string) {
	v.t.Helper()
	v.eventually(expected, startPatience, v.withTouch(func() (string, bool) {
		a := v.send(v.ctx, http.MethodGet, llamas(ns), nil)
		return "the answer is " + a.summary(), a.err == nil && a.code == http.StatusOK
	}))
}

// ensureStarted starts the server after a check that stopped it, whatever the result of the check is.
func ensureStarted(ctx context.Context, c *check.Check) error {
	if err := c.Operator.Start(ctx); err != nil {
		return err
	}
	visitor := clientsOf(ctx)
	for deadline := time.Now().Add(startPatience); time.Now().Before(deadline); {
		if visitor.send(ctx, http.MethodGet, root, nil).code == http.StatusOK {
			return nil
		}
		if err := visitor.touch(ctx); err != nil {
			return err
		}
		select {
		case <-time.After(touchEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil // the next check reports what is wrong
}

// kubectlTimeout is the time limit of kubectl, which starts with an empty cache and requests every group. On a machine
// with forty busy programs that took more than ten seconds.
const kubectlTimeout = 40 * time.Second

// kubectl runs the built-in kubectl, and returns its output. ok is false if the run has no kubectl.
func (v visit) kubectl(stdin string, args ...string) (output string, ok bool, err error) {
	if v.Kubectl == "" {
		return "", false, nil
	}
	ctx, cancel := context.WithTimeout(v.ctx, kubectlTimeout)
	defer cancel()
	home := v.t.TempDir()
	arguments := append([]string{"kubectl", "--kubeconfig", v.Kubeconfig, "--cache-dir", home}, args...)
	command := exec.CommandContext(ctx, v.Kubectl, arguments...)
	command.Stdin = strings.NewReader(stdin)
	command.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin"}
	printed := limited.NewOutput(answerLimit)
	command.Stdout, command.Stderr = printed, printed
	err = command.Run()
	return printed.String(), true, err
}
