// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package freezer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lva.io/operators/scripts/services/freezer"
)

// serve serves a freezer, and returns a client of it.
func serve(t *testing.T, f *freezer.Freezer) (*freezer.Client, string) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return freezer.NewClient(server.URL + "/"), server.URL
}

// ask sends a request as a program in any language would, and returns code, media type and body.
func ask(t *testing.T, method, url, body string) (int, http.Header, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, strings.TrimSpace(string(content))
}

func movement(id, owner, direction, kind, ingredient string) freezer.Movement {
	return freezer.Movement{
		ID: id, Owner: owner, Direction: direction,
		Ingredient: freezer.Ingredient{Kind: kind, Ingredient: ingredient},
	}
}

func book(t *testing.T, client *freezer.Client, movements ...freezer.Movement) {
	t.Helper()
	for _, m := range movements {
		if _, err := client.Book(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

func demandStock(t *testing.T, client *freezer.Client, want ...string) {
	t.Helper()
	items, err := client.Stock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range items {
		got = append(got, fmt.Sprintf("%s %s %d", item.Kind, item.Ingredient.Ingredient, item.Count))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the stock (-want +got):\n%s", diff)
	}
}

func demandOut(t *testing.T, client *freezer.Client, owner string, want ...freezer.Ingredient) {
	t.Helper()
	got, err := client.Out(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	if want == nil {
		want = []freezer.Ingredient{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Out(%s) (-want +got):\n%s", owner, diff)
	}
}

// The test checks the API to the letter, because students write clients of it.
func TestAPI(t *testing.T) {
	t.Parallel()
	_, url := serve(t, freezer.New())
	const cream = `{"owner":"u-1","direction":"out","kind":"topping","ingredient":"cream"}`
	long := strings.Repeat("x", 200)
	for _, test := range []struct {
		name, method, path, body string
		code                     int
		want                     string // of the body, or of a problem's detail; ~: contains; booked is "T"
	}{
		{"nothing moved yet", "GET", "/v1/stock", "", 200, `{"items":[]}`},
		{"an owner that has nothing", "GET", "/v1/owners/u-1", "", 200, `{"owner":"u-1","out":[]}`},
		{"no movements", "GET", "/v1/movements", "", 200, `{"movements":[]}`},
		{
			"taken", "PUT", "/v1/movements/m-1", cream, 201,
			`{"id":"m-1","owner":"u-1","direction":"out","kind":"topping","ingredient":"cream","booked":"T"}`,
		},
		{
			"taken already", "PUT", "/v1/movements/m-1", cream, 200,
			`{"id":"m-1","owner":"u-1","direction":"out","kind":"topping","ingredient":"cream","booked":"T"}`,
		},
		{
			"another owner's under the id", "PUT", "/v1/movements/m-1", strings.Replace(cream, "u-1", "u-2", 1), 409,
			`under the id m-1 another movement is booked (out topping cream for u-1): take a new id for a new movement`,
		},
		{
			"the return under the id", "PUT", "/v1/movements/m-1", strings.Replace(cream, "out", "in", 1), 409,
			`~another movement is booked`,
		},
		{
			"another kind under the id", "PUT", "/v1/movements/m-1", strings.Replace(cream, "topping", "flavour", 1), 409,
			`~another movement is booked`,
		},
		{
			"another ingredient under the id", "PUT", "/v1/movements/m-1", strings.Replace(cream, "cream", "nuts", 1), 409,
			`~another movement is booked`,
		},
		{"an id of all characters", "PUT", "/v1/movements/Az09._:-", cream, 201, `~"id":"Az09._:-"`},
		{"the longest id", "PUT", "/v1/movements/" + long, cream, 201, `~"id":"xxx`},
		{
			"the id of the URL counts", "PUT", "/v1/movements/m-2",
			strings.Replace(cream, "{", `{"id":"other","booked":"2020-01-01T00:00:00Z",`, 1), 201, `~"id":"m-2"`,
		},
		{"stock", "GET", "/v1/stock", "", 200, `{"items":[{"kind":"topping","ingredient":"cream","count":996}]}`},
		{"out", "GET", "/v1/owners/u-1", "", 200, `~{"owner":"u-1","out":[{"kind":"topping","ingredient":"cream"},{`},
		{"movements of another", "GET", "/v1/movements?owner=u-2", "", 200, `{"movements":[]}`},

		{"an id that is too long", "PUT", "/v1/movements/" + long + "x", cream, 400, `~take 1 to 200 of the characters`},
		{
			"an id with a space", "PUT", "/v1/movements/a%20b", cream, 400,
			`the id "a b" is not one: take 1 to 200 of the characters A-Z a-z 0-9 . _ : -`,
		},
		{"an id with a slash", "PUT", "/v1/movements/a%2Fb", cream, 400, `~the id "a/b" is not one`},
		{
			"no body", "PUT", "/v1/movements/m-9", "", 400,
			`the body is not a movement: EOF; send JSON with owner, direction, kind and ingredient`,
		},
		{"no JSON", "PUT", "/v1/movements/m-9", "cream", 400, `~the body is not a movement`},
		{
			"a number for an owner", "PUT", "/v1/movements/m-9", strings.Replace(cream, `"u-1"`, "1", 1), 400,
			`~the body is not a movement`,
		},
		{
			"a body without end", "PUT", "/v1/movements/m-9", `{"owner":"` + strings.Repeat("x", 70<<10), 400,
			`~the body is not a movement: http: request body too large`,
		},
		{"no owner", "PUT", "/v1/movements/m-9", strings.Replace(cream, "u-1", "", 1), 400, `~the owner "" is not one`},
		{
			"no direction", "PUT", "/v1/movements/m-9", strings.Replace(cream, "out", "", 1), 400,
			`the direction "" is not one: write "out" for what you take or "in" for what you return`,
		},
		{"another direction", "PUT", "/v1/movements/m-9", strings.Replace(cream, "out", "up", 1), 400, `~the direction "up"`},
		{
			"another kind", "PUT", "/v1/movements/m-9", strings.Replace(cream, "topping", "cone", 1), 400,
			`the kind "cone" is not one: write "topping" or "flavour"`,
		},
		{
			"no ingredient", "PUT", "/v1/movements/m-9", strings.Replace(cream, "cream", "", 1), 400,
			`the ingredient is missing: say what moves`,
		},
		{
			"an endless ingredient", "PUT", "/v1/movements/m-9", strings.Replace(cream, "cream", long+"x", 1), 400,
			`~the name of the ingredient is too long`,
		},
		{
			"an unknown place", "GET", "/v2/stock", "", 404,
			`there is nothing at "/v2/stock": try /v1/stock, /v1/owners/OWNER, /v1/movements or /v1/movements/ID`,
		},
		{"the top", "GET", "/", "", 404, `~there is nothing at "/"`},
		{"a movement is not read alone", "GET", "/v1/movements/m-1", "", 405, `/v1/movements/m-1 is not for GET: use PUT`},
		{"a movement is not taken back", "DELETE", "/v1/movements/m-1", "", 405, `~use PUT`},
		{"stock is not set", "PUT", "/v1/stock", "{}", 405, `/v1/stock is not for PUT: use GET`},
	} {
		code, header, body := ask(t, test.method, url+test.path, test.body)
		if code != test.code {
			t.Errorf("%s: status = %d, want %d: %s", test.name, code, test.code, body)
			continue
		}
		mediaType := "application/json"
		if code >= 400 {
			mediaType = "application/problem+json"
			var problem freezer.Problem
			if err := json.Unmarshal([]byte(body), &problem); err != nil || problem.Status != code ||
				problem.Title != http.StatusText(code) {
				t.Errorf("%s: problem = %s", test.name, body)
			}
			body = problem.Detail
		}
		if got := header.Get("Content-Type"); got != mediaType {
			t.Errorf("%s: media type = %q", test.name, got)
		}
		if before, after, ok := strings.Cut(body, `"booked":"`); ok {
			when, rest, _ := strings.Cut(after, `"`)
			if at, err := time.Parse(time.RFC3339Nano, when); err != nil || time.Since(at).Abs() > time.Hour {
				t.Errorf("%s: booked at %q", test.name, when)
			}
			body = before + `"booked":"T"` + rest
		}
		if part, ok := strings.CutPrefix(test.want, "~"); ok && !strings.Contains(body, part) || !ok && body != test.want {
			t.Errorf("%s: got\n%.300s\nwant\n%s", test.name, body, test.want)
		}
		if code == http.StatusMethodNotAllowed && header.Get("Allow") == "" {
			t.Errorf("%s: the answer lacks the allowed methods", test.name)
		}
	}
}

func TestTakeAndReturn(t *testing.T) {
	t.Parallel()
	client, _ := serve(t, freezer.New())
	vanilla := freezer.Ingredient{Kind: freezer.Flavour, Ingredient: "vanilla"}
	cream := freezer.Ingredient{Kind: freezer.Topping, Ingredient: "cream"}
	nuts := freezer.Ingredient{Kind: freezer.Topping, Ingredient: "nuts"}
	book(t, client,
		movement("1", "a", freezer.Out, freezer.Topping, "cream"),
		movement("2", "a", freezer.Out, freezer.Flavour, "vanilla"),
		movement("3", "b", freezer.Out, freezer.Topping, "cream"),
		movement("4", "a", freezer.Out, freezer.Topping, "nuts"),
		movement("5", "a", freezer.Out, freezer.Topping, "cream"))
	demandOut(t, client, "a", cream, vanilla, nuts, cream)
	demandOut(t, client, "b", cream)
	demandStock(t, client, "flavour vanilla 999", "topping cream 997", "topping nuts 999")
	book(t, client,
		movement("6", "a", freezer.In, freezer.Topping, "cream"),
		movement("7", "a", freezer.In, freezer.Flavour, "vanilla"))
	demandOut(t, client, "a", nuts, cream)
	book(t, client,
		movement("8", "a", freezer.In, freezer.Topping, "nuts"),
		movement("9", "a", freezer.In, freezer.Topping, "cream"))
	demandOut(t, client, "a")
	demandOut(t, client, "b", cream)
	demandStock(t, client, "flavour vanilla 1000", "topping cream 999", "topping nuts 1000")

	// More is returned than was taken. The freezer does not refuse it, and shows it.
	book(t, client,
		movement("10", "a", freezer.In, freezer.Topping, "nuts"),
		movement("11", "c", freezer.In, freezer.Topping, "cream"))
	demandOut(t, client, "a")
	demandOut(t, client, "c")
	demandStock(t, client, "flavour vanilla 1000", "topping cream 1000", "topping nuts 1001")

	all, err := client.Movements(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	owned, err := client.Movements(t.Context(), "b")
	if err != nil || len(owned) != 1 || owned[0] != all[2] {
		t.Errorf("Movements(b) = %v (%v), want %v", owned, err, all[2])
	}
	for n, m := range all {
		if m.ID != fmt.Sprint(n+1) {
			t.Errorf("movement %d is %s", n+1, m.ID)
		}
		if n > 0 && m.Booked.Before(all[n-1].Booked) {
			t.Errorf("%s was booked at %s, but is listed after %s at %s", m.ID, m.Booked, all[n-1].ID, all[n-1].Booked)
		}
	}
}

func TestLastIngredientIsTakenOnce(t *testing.T) {
	t.Parallel()
	client, _ := serve(t, freezer.New())
	// A thousand and fifty owners want one, each of them twice, and all at once.
	const wanting, workers = freezer.InitialStock + 50, 8
	var mutex sync.Mutex
	refused := map[string]int{}
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for n := worker; n < 2*wanting; n += workers {
				id := fmt.Sprint(n % wanting)
				_, err := client.Book(t.Context(), movement(id, "owner-"+id, freezer.Out, freezer.Topping, "cream"))
				var problem *freezer.Error
				switch {
				case err == nil:
				case errors.As(err, &problem) && problem.Status == http.StatusConflict &&
					strings.Contains(problem.Detail, "none left"):
					mutex.Lock()
					refused[id]++
					mutex.Unlock()
				default:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if len(refused) != 50 {
		t.Errorf("%d movements were refused, want 50", len(refused))
	}
	demandStock(t, client, "topping cream 0")
	for id := range refused {
		// A refused movement is not booked. Under the same id it succeeds when there is some again.
		book(t, client, movement("back", "owner-x", freezer.In, freezer.Topping, "cream"),
			movement(id, "owner-"+id, freezer.Out, freezer.Topping, "cream"))
		break
	}
	// An owner that already has it does not get the answer that there is none.
	movements, err := client.Movements(t.Context(), "")
	if err != nil || len(movements) != freezer.InitialStock+2 {
		t.Fatalf("%d movements are booked: %v", len(movements), err)
	}
	book(t, client, movements[0])
	demandStock(t, client, "topping cream 0")
}

func TestClientErrors(t *testing.T) {
	t.Parallel()
	client, _ := serve(t, freezer.New())
	_, err := client.Book(t.Context(), movement("1", "", freezer.Out, freezer.Topping, "cream"))
	if err == nil || !strings.HasPrefix(err.Error(), "asking the freezer (PUT /v1/movements/1): "+
		`the freezer answers 400: the owner "" is not one`) {
		t.Errorf("error = %v", err)
	}
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/owners") {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, "{")
	}))
	t.Cleanup(broken.Close)
	other := freezer.NewClient(broken.URL)
	if _, err := other.Out(t.Context(), "a/b"); err == nil ||
		err.Error() != "asking the freezer (GET /v1/owners/a%2Fb): the freezer answers 502: 502 Bad Gateway" {
		t.Errorf("error = %v", err)
	}
	if _, err := other.Stock(t.Context()); err == nil ||
		!strings.HasPrefix(err.Error(), "asking the freezer (GET /v1/stock): ") {
		t.Errorf("error = %v", err)
	}
	broken.Close()
	if _, err := other.Movements(t.Context(), "a&b"); err == nil ||
		!strings.HasPrefix(err.Error(), "asking the freezer (GET /v1/movements?owner=a%26b): ") {
		t.Errorf("error = %v", err)
	}
}

func TestDescribeRequest(t *testing.T) {
	t.Parallel()
	const cream = `{"owner":"7f","direction":"out","kind":"topping","ingredient":"cream"}`
	for _, test := range []struct{ method, path, body, want string }{
		{"PUT", "/v1/movements/7f-1-out-cream", cream, "topping cream out for 7f, id 7f-1-out-cre…"},
		{"PUT", "/v1/movements/m-1", cream, "topping cream out for 7f, id m-1"},
		{"PUT", "/v1/movements/m-1", "{}", ""},
		{"PUT", "/v1/movements/m-1", "cream", ""},
		{"GET", "/v1/movements", "", ""},
		{"PUT", "/v1/stock", cream, ""},
	} {
		if got := freezer.New().Describe(httptest.NewRequest(test.method, test.path, nil),
			[]byte(test.body)); got != test.want {
			t.Errorf("%s %s %s is described as %q, want %q", test.method, test.path, test.body, got, test.want)
		}
	}
}
