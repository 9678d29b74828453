// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cloud

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"golang.org/x/time/rate"

	"lva.io/operators/scripts/services/service"
)

const (
	// Service is the cloud's name in labs.yaml, in schedules of faults and in reports.
	Service = "cloud"
	// Variable is the environment variable in which an operator finds the cloud's URL.
	Variable = "CLOUD_URL"
)

// maxBody is how long the body of a request may be, in bytes.
const maxBody = 64 << 10

// Cloud is the service. Its customers use it as an http.Handler. See Console for everything else. It is safe for
// concurrent use.
type Cloud struct {
	account *account
	routes  *http.ServeMux
	limiter *rate.Limiter // of customers
}

// New returns a cloud without instances. It forgets everything when the program ends.
func New() *Cloud { return newCloud(newAccount(state{})) }

func newCloud(a *account) *Cloud {
	c := &Cloud{
		account: a,
		routes:  http.NewServeMux(),
		limiter: rate.NewLimiter(rate.Limit(a.settings.Rate), a.settings.Burst),
	}
	c.addRoutes(c.routes, true)
	return c
}

// addRoutes adds the API. A customer sees the state of a moment ago. The console sees the current state.
func (c *Cloud) addRoutes(routes *http.ServeMux, customer bool) {
	for path, methods := range map[string]map[string]http.HandlerFunc{
		"/v1/instances":                 {http.MethodGet: c.list(customer), http.MethodPost: c.launch},
		"/v1/instances/{id}":            {http.MethodGet: c.get(customer), http.MethodDelete: c.terminate},
		"/v1/instances/{id}/tags/{key}": {http.MethodPut: c.tag},
		"/v1/bill":                      {http.MethodGet: c.bill},
	} {
		route(routes, path, methods)
	}
	routes.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		service.Refuse(w, http.StatusNotFound,
			fmt.Sprintf("there is nothing at %.200q: "+
				"try /v1/instances, /v1/instances/ID, /v1/instances/ID/tags/KEY or /v1/bill", r.URL.Path))
	})
}

func route(routes *http.ServeMux, path string, methods map[string]http.HandlerFunc) {
	allowed := ""
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if handle, ok := methods[method]; ok {
			routes.HandleFunc(method+" "+path, handle)
			allowed = strings.TrimPrefix(allowed+", "+method, ", ")
		}
	}
	routes.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed)
		service.Refuse(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s is not for %s: use %s", r.URL.Path, r.Method, allowed))
	})
}

// ServeHTTP answers a customer, with throttling.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.limiter.AllowN(c.account.now(), 1) {
		w.Header().Set("Retry-After", "1")
		service.Refuse(w, http.StatusTooManyRequests, "too many requests: slow down, and try again later")
		return
	}
	c.routes.ServeHTTP(w, r)
}

// Console returns the handler for those who run the cloud. It serves the same API without throttling and without delay,
// the settings at /console/settings (GET, PUT), and DELETE /console/tokens, which makes the cloud forget all client
// tokens, as if they had expired.
func (c *Cloud) Console() http.Handler {
	routes := http.NewServeMux()
	c.addRoutes(routes, false)
	route(routes, "/console/settings", map[string]http.HandlerFunc{
		http.MethodGet: func(w http.ResponseWriter, _ *http.Request) {
			service.Answer(w, http.StatusOK, c.account.settingsNow())
		},
		http.MethodPut: c.putSettings,
	})
	route(routes, "/console/tokens", map[string]http.HandlerFunc{
		http.MethodDelete: func(w http.ResponseWriter, _ *http.Request) {
			respond(w, http.StatusOK, struct{}{}, c.account.forget())
		},
	})
	return routes
}

func (c *Cloud) launch(w http.ResponseWriter, r *http.Request) {
	var wanted Launch
	if !read(w, r, &wanted, "a launch; send JSON with token, type, image and tags") {
		return
	}
	launched, fresh, err := c.account.launch(wanted)
	code := http.StatusOK
	if fresh {
		code = http.StatusCreated
	}
	respond(w, code, launched, err)
}

func (c *Cloud) list(customer bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		wanted := map[string]string{}
		for _, tag := range r.URL.Query()["tag"] {
			key, value, ok := strings.Cut(tag, "=")
			if !ok {
				service.Refuse(w, http.StatusBadRequest, fmt.Sprintf("the tag %.40q is not one: write ?tag=KEY=VALUE", tag))
				return
			}
			wanted[key] = value
		}
		service.Answer(w, http.StatusOK, instances{c.account.list(wanted, customer)})
	}
}

func (c *Cloud) get(customer bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		found, err := c.account.get(r.PathValue("id"), customer)
		respond(w, http.StatusOK, found, err)
	}
}

func (c *Cloud) terminate(w http.ResponseWriter, r *http.Request) {
	ended, err := c.account.terminate(r.PathValue("id"))
	respond(w, http.StatusOK, ended, err)
}

func (c *Cloud) tag(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Value string `json:"value"`
	}
	if !read(w, r, &body, `a tag; send JSON with value`) {
		return
	}
	tagged, err := c.account.tag(r.PathValue("id"), r.PathValue("key"), body.Value)
	respond(w, http.StatusOK, tagged, err)
}

func (c *Cloud) bill(w http.ResponseWriter, _ *http.Request) {
	service.Answer(w, http.StatusOK, c.account.bill())
}

func (c *Cloud) putSettings(w http.ResponseWriter, r *http.Request) {
	var settings Settings
	if !read(w, r, &settings, "settings") {
		return
	}
	c.account.set(settings)
	now := c.account.now()
	c.limiter.SetLimitAt(now, rate.Limit(settings.Rate))
	c.limiter.SetBurstAt(now, settings.Burst)
	service.Answer(w, http.StatusOK, settings)
}

// Describe describes a request if its URL does not: "launch small nginx, token 9c0d…". It returns an empty string for
// other requests.
func (c *Cloud) Describe(r *http.Request, body []byte) string {
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/v1/instances":
		var wanted Launch
		if json.Unmarshal(body, &wanted) != nil {
			return ""
		}
		return fmt.Sprintf("launch %s %s, token %s",
			wanted.Type, wanted.Image, cmp.Or(service.Shorten(wanted.Token), "none"))
	case r.Method == http.MethodGet && r.URL.Path == "/v1/instances":
		return strings.Join(r.URL.Query()["tag"], ", ")
	}
	return ""
}

// instances is the answer to a list.
type instances struct {
	Instances []Instance `json:"instances"`
}

// read reads the body of a request, or responds that the body is invalid.
func read(w http.ResponseWriter, r *http.Request, target any, what string) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(target); err != nil {
		service.Refuse(w, http.StatusBadRequest, fmt.Sprintf("the body is not %s: %v", what, err))
		return false
	}
	return true
}

// respond answers with a value, or with the problem that an error describes.
func respond(w http.ResponseWriter, code int, value any, err error) {
	refused := (*refusal)(nil)
	switch {
	case err == nil:
		service.Answer(w, code, value)
	case errors.As(err, &refused):
		service.Refuse(w, refused.code, refused.detail)
	default:
		service.Refuse(w, http.StatusInternalServerError, err.Error())
	}
}

// matches reports whether tags contains all wanted tags.
func matches(tags, wanted map[string]string) bool {
	for key, value := range wanted {
		if is, ok := tags[key]; !ok || is != value {
			return false
		}
	}
	return true
}

func copied(tags map[string]string) map[string]string {
	if tags == nil {
		return map[string]string{}
	}
	return maps.Clone(tags)
}
