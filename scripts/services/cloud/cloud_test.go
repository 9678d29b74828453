// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cloud

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testCloud is a cloud with a clock that a test moves.
type testCloud struct {
	*Cloud
	t       *testing.T
	console *Client
	mutex   sync.Mutex
	clock   time.Time
}

func open(t *testing.T, cloud *Cloud) *testCloud {
	t.Helper()
	c := &testCloud{Cloud: cloud, t: t, clock: time.Date(2026, time.July, 1, 12, 0, 0, 0, time.UTC)}
	cloud.account.now = func() time.Time {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		return c.clock
	}
	server := httptest.NewServer(cloud.Console())
	t.Cleanup(server.Close)
	c.console = NewClient(server.URL)
	return c
}

func (c *testCloud) wait(d time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.clock = c.clock.Add(d)
}

// ask sends a request as a customer does.
func (c *testCloud) ask(method, path, body string) (int, string) {
	c.t.Helper()
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	response, err := io.ReadAll(w.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return w.Code, strings.TrimSpace(string(response))
}

// demand sends a request, and fails the test unless the answer has this code and contains all of the parts.
func (c *testCloud) demand(method, path, body string, code int, parts ...string) string {
	c.t.Helper()
	got, response := c.ask(method, path, body)
	if got != code {
		c.t.Fatalf("%s %s %s: status = %d, want %d: %s", method, path, body, got, code, response)
	}
	for _, part := range parts {
		if !strings.Contains(response, part) {
			c.t.Fatalf("%s %s %s: the answer lacks %s: %s", method, path, body, part, response)
		}
	}
	return response
}

// id returns the ID of the only instance with a tag, even if the customer does not see it yet.
func (c *testCloud) id(key, value string) string {
	c.t.Helper()
	all, err := c.console.List(c.t.Context(), key, value)
	if err != nil || len(all) != 1 {
		c.t.Fatalf("instances = %v (%v), want one", all, err)
	}
	return all[0].ID
}

const small = `{"token":"t-1","type":"small","image":"nginx","tags":{"owner":"u-1"}}`

func TestTokenLaunchesOnceUntilItExpires(t *testing.T) {
	t.Parallel()
	c := open(t, New())
	first := c.demand("POST", "/v1/instances", small, 201, `"state":"pending"`, `"tags":{"owner":"u-1"}`)
	if again := c.demand("POST", "/v1/instances", small, 200); again != first {
		t.Errorf("the second answer differs: %s, then %s", first, again)
	}
	c.demand("POST", "/v1/instances", strings.Replace(small, "small", "large", 1), 409,
		"with the token t-1 something else was launched (small nginx, i-")
	c.demand("POST", "/v1/instances", strings.Replace(small, "u-1", "u-2", 1), 409)
	id := c.id("owner", "u-1")
	c.demand("DELETE", "/v1/instances/"+id, "", 200, `"state":"terminated"`)
	c.demand("POST", "/v1/instances", small, 200, id, `"state":"terminated"`) // the token belongs to that instance
	c.wait(Defaults().Retention.Duration - time.Millisecond)
	c.demand("POST", "/v1/instances", small, 200, id)
	c.wait(time.Millisecond)
	c.demand("POST", "/v1/instances", small, 201, `"state":"pending"`)
	if err := c.console.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.demand("POST", "/v1/instances", small, 201)
	// Without a token, each call is a launch.
	none := strings.Replace(small, `"token":"t-1",`, "", 1)
	c.demand("POST", "/v1/instances", none, 201)
	c.demand("POST", "/v1/instances", none, 201)
	all, err := c.console.List(t.Context(), "owner", "u-1")
	if err != nil || len(all) != 5 {
		t.Errorf("got %d instances (%v), want 5", len(all), err)
	}
}

func TestConcurrentLaunchesWithOneToken(t *testing.T) {
	t.Parallel()
	c := open(t, New())
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := c.console.Launch(t.Context(), Launch{Token: "t", Type: "small", Image: "nginx"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c.id("", "")
}

func TestReadsLag(t *testing.T) {
	t.Parallel()
	c := open(t, New())
	settings := Defaults()
	settings.Lag, settings.Boot = metav1.Duration{Duration: time.Second}, metav1.Duration{Duration: 3 * time.Second}
	if err := c.console.Set(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	c.demand("POST", "/v1/instances", small, 201)
	id := c.id("owner", "u-1")
	at := "/v1/instances/" + id
	c.demand("GET", at, "", 404, "or this answer is behind")
	c.demand("GET", "/v1/instances?tag=owner=u-1", "", 200, `{"instances":[]}`)
	c.wait(time.Second)
	c.demand("GET", at, "", 200, `"state":"pending"`)
	c.demand("GET", "/v1/instances?tag=owner=u-1", "", 200, id)
	c.wait(2 * time.Second)
	c.demand("GET", at, "", 200, `"state":"pending"`) // it runs, but the customer does not see that yet
	c.wait(time.Second)
	c.demand("GET", at, "", 200, `"state":"running"`)
	c.demand("PUT", at+"/tags/team", `{"value":"blue"}`, 200, `"team":"blue"`)
	c.demand("GET", "/v1/instances?tag=owner=u-1&tag=team=blue", "", 200, `{"instances":[]}`)
	c.demand("DELETE", at, "", 200, `"state":"terminated"`)
	c.demand("GET", at, "", 200, `"state":"running","tags":{"owner":"u-1"}`)
	c.wait(time.Second)
	c.demand("GET", "/v1/instances?tag=owner=u-1&tag=team=blue", "", 200, `"state":"terminated"`)
}

func TestTagKeepsItsValue(t *testing.T) {
	t.Parallel()
	c := open(t, New())
	c.demand("POST", "/v1/instances", small, 201)
	at := "/v1/instances/" + c.id("", "") + "/tags/"
	c.demand("PUT", at+"team", `{"value":"blue"}`, 200, `"team":"blue"`)
	c.demand("PUT", at+"team", `{"value":"blue"}`, 200)
	c.demand("PUT", at+"team", `{"value":"red"}`, 409, `the tag team of i-`, `\"blue\", and stays so`)
	c.demand("PUT", at+"owner", `{"value":"u-2"}`, 409)
	for n := range maxTags - 2 {
		c.demand("PUT", fmt.Sprintf("%sk%d", at, n), `{"value":"x"}`, 200)
	}
	c.demand("PUT", at+"more", `{"value":"x"}`, 400, "as many as it may have")
}

func TestCustomersAreThrottled(t *testing.T) {
	t.Parallel()
	c := open(t, New())
	settings := Defaults()
	settings.Rate, settings.Burst = 2, 3
	if err := c.console.Set(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.demand("GET", "/v1/bill", "", 200)
	}
	c.demand("POST", "/v1/instances", small, 429, "slow down")
	c.wait(500 * time.Millisecond)
	c.demand("GET", "/v1/bill", "", 200, `"lines":[]`)
	c.demand("GET", "/v1/bill", "", 429)
	c.wait(time.Hour)
	for range 3 {
		c.demand("GET", "/v1/bill", "", 200)
	}
	c.demand("GET", "/v1/bill", "", 429)
	if _, err := c.console.Bill(t.Context()); err != nil {
		t.Errorf("the console is throttled: %v", err)
	}
}

func TestBill(t *testing.T) {
	t.Parallel()
	c := open(t, New())
	c.demand("POST", "/v1/instances", small, 201)
	c.demand("POST", "/v1/instances", `{"type":"large","image":"db"}`, 201)
	c.wait(59 * time.Minute)
	all, err := c.console.List(t.Context(), "owner", "u-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.console.Terminate(t.Context(), all[0].ID); err != nil {
		t.Fatal(err)
	}
	c.wait(time.Hour)
	if _, err := c.console.Terminate(t.Context(), all[0].ID); err != nil { // once more: it has already been terminated
		t.Fatal(err)
	}
	bill, err := c.console.Bill(t.Context())
	if err != nil || len(bill.Lines) != 2 || bill.Cents != 5+2*20 ||
		bill.Lines[0].Hours != 1 || bill.Lines[1].Hours != 2 ||
		bill.Lines[0].State != Terminated || bill.Lines[1].State != Running {
		t.Errorf("bill = %+v (%v)", bill, err)
	}
}

func TestRejectedRequests(t *testing.T) {
	t.Parallel()
	c := open(t, New())
	long := strings.Repeat("x", maxText+1)
	for _, test := range []struct {
		name, method, path, body string
		code                     int
		want                     string
	}{
		{
			"no body", "POST", "/v1/instances", "", 400,
			"the body is not a launch; send JSON with token, type, image and tags: EOF",
		},
		{
			"a body without end", "POST", "/v1/instances", `{"token":"` + strings.Repeat("x", maxBody), 400,
			"request body too large",
		},
		{
			"another type", "POST", "/v1/instances", strings.Replace(small, "small", "huge", 1), 400,
			"take one of large, medium, small",
		},
		{"no image", "POST", "/v1/instances", strings.Replace(small, "nginx", "", 1), 400, "the image is missing"},
		{"an endless image", "POST", "/v1/instances", strings.Replace(small, "nginx", long, 1), 400, "too long"},
		{
			"a token with a space", "POST", "/v1/instances", strings.Replace(small, "t-1", "t 1", 1), 400,
			`the token \"t 1\" is not one`,
		},
		{
			"a tag without a value", "POST", "/v1/instances", strings.Replace(small, "u-1", "", 1), 400,
			`the tag \"owner\" is not one`,
		},
		{"a tag's endless value", "POST", "/v1/instances", strings.Replace(small, "u-1", long, 1), 400, `the tag`},
		{"an unknown instance", "GET", "/v1/instances/i-1", "", 404, `there is no instance \"i-1\"`},
		{"the end of one", "DELETE", "/v1/instances/i-1", "", 404, `there is no instance`},
		{"a tag of one", "PUT", "/v1/instances/i-1/tags/k", `{"value":"v"}`, 404, `there is no instance`},
		{"a tag that is no object", "PUT", "/v1/instances/i-1/tags/k", `"v"`, 400, `the body is not a tag`},
		{"half a filter", "GET", "/v1/instances?tag=owner", "", 400, "write ?tag=KEY=VALUE"},
		{"an unknown place", "GET", "/v2/instances", "", 404, "try /v1/instances"},
		{"the console", "DELETE", "/console/tokens", "", 404, "there is nothing at"},
		{"another method", "PATCH", "/v1/instances", "{}", 405, "use GET, POST"},
	} {
		code, response := c.ask(test.method, test.path, test.body)
		if code != test.code || !strings.Contains(response, test.want) {
			t.Errorf("%s: status = %d, want %d with %s: %.300s", test.name, code, test.code, test.want, response)
		}
	}
	if bill, err := c.console.Bill(t.Context()); err != nil || len(bill.Lines) > 0 {
		t.Errorf("bill = %v (%v)", bill, err)
	}
	_, err := c.console.Terminate(t.Context(), "i-1")
	if refused := (*Error)(nil); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("error = %v", err)
	}
}

func TestCloudPersistsInItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cloud.json")
	kept, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, kept)
	c.demand("POST", "/v1/instances", small, 201)
	id := c.id("owner", "u-1")
	c.demand("PUT", "/v1/instances/"+id+"/tags/team", `{"value":"blue"}`, 200)
	if kept, err = Open(file); err != nil {
		t.Fatal(err)
	}
	c = open(t, kept)
	c.demand("POST", "/v1/instances", small, 200, id, `"team":"blue"`)
	c.demand("DELETE", "/v1/instances/"+id, "", 200)
	if kept, err = Open(file); err != nil {
		t.Fatal(err)
	}
	c = open(t, kept)
	c.wait(time.Second)
	c.demand("GET", "/v1/instances/"+id, "", 200, `"state":"terminated"`)

	// A change that can't be saved is not made.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	c.demand("POST", "/v1/instances", `{"type":"small","image":"nginx"}`, 500, "writing the cloud's instances")
	c.id("", "")
}

func TestForeignFileIsNotOverwritten(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"cream", `{"instances":[{"id":"i-1"}]}`, `{"tokens":[{"token":"t","id":"i-1"}]}`} {
		file := filepath.Join(t.TempDir(), "cloud.json")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(file); err == nil || !strings.Contains(err.Error(), "remove it to begin without instances") {
			t.Errorf("Open() of %s: error = %v", content, err)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != content {
			t.Errorf("the file was changed: %q (%v)", now, err)
		}
	}
}

func TestDescribeRequest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ method, path, body, want string }{
		{"POST", "/v1/instances", small, "launch small nginx, token t-1"},
		{
			"POST", "/v1/instances", strings.Replace(small, "t-1", "6f1c2a3b-4d5e-6f70", 1),
			"launch small nginx, token 6f1c2a3b-4d5…",
		},
		{"POST", "/v1/instances", `{"type":"small","image":"nginx"}`, "launch small nginx, token none"},
		{"POST", "/v1/instances", "nginx", ""},
		{"GET", "/v1/instances?tag=owner=u-1", "", "owner=u-1"},
		{"DELETE", "/v1/instances/i-1", "", ""},
	} {
		if got := New().Describe(httptest.NewRequest(test.method, test.path, nil), []byte(test.body)); got != test.want {
			t.Errorf("%s %s is described as %q, want %q", test.method, test.path, got, test.want)
		}
	}
}
