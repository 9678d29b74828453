// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package freezer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"lva.io/operators/scripts/services/service"
)

const (
	// Service is the freezer's name in labs.yaml, in schedules of faults and in reports.
	Service = "freezer"
	// Variable is the environment variable in which an operator finds the freezer's URL.
	Variable = "FREEZER_URL"
)

// maxBody is how long the body of a request may be, in bytes. A movement is far shorter.
const maxBody = 64 << 10

// Freezer is the service, an http.Handler. It is safe for concurrent use.
type Freezer struct {
	ledger *ledger
	routes *http.ServeMux
}

// New returns a full freezer. It forgets everything when the program ends.
func New() *Freezer { return newFreezer(newLedger(nil)) }

func newFreezer(l *ledger) *Freezer {
	f := &Freezer{ledger: l, routes: http.NewServeMux()}
	f.route(http.MethodGet, "/v1/stock", f.getStock)
	f.route(http.MethodGet, "/v1/owners/{owner}", f.getOwner)
	f.route(http.MethodGet, "/v1/movements", f.getMovements)
	f.route(http.MethodPut, "/v1/movements/{id}", f.putMovement)
	f.routes.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		service.Refuse(w, http.StatusNotFound,
			fmt.Sprintf("there is nothing at %.200q: "+
				"try /v1/stock, /v1/owners/OWNER, /v1/movements or /v1/movements/ID", r.URL.Path))
	})
	return f
}

func (f *Freezer) route(method, path string, handle http.HandlerFunc) {
	f.routes.HandleFunc(method+" "+path, handle)
	f.routes.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", method)
		service.Refuse(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s is not for %s: use %s", r.URL.Path, r.Method, method))
	})
}

func (f *Freezer) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.routes.ServeHTTP(w, r) }

// The bodies of answers, as Client decodes them.
type (
	stock struct {
		Items []Item `json:"items"`
	}
	owner struct {
		Owner string       `json:"owner"`
		Out   []Ingredient `json:"out"`
	}
	movements struct {
		Movements []Movement `json:"movements"`
	}
)

func (f *Freezer) getStock(w http.ResponseWriter, _ *http.Request) {
	service.Answer(w, http.StatusOK, stock{f.ledger.items()})
}

func (f *Freezer) getOwner(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("owner")
	service.Answer(w, http.StatusOK, owner{name, f.ledger.out(name)})
}

func (f *Freezer) getMovements(w http.ResponseWriter, r *http.Request) {
	service.Answer(w, http.StatusOK, movements{f.ledger.movementsOf(r.URL.Query().Get("owner"))})
}

// Describe returns the movement that a request asks to book: "topping cream out for 2f1e…, id 9c0d…". It returns an
// empty string for all other requests.
func (f *Freezer) Describe(r *http.Request, body []byte) string {
	id, found := strings.CutPrefix(r.URL.Path, "/v1/movements/")
	var m Movement
	if r.Method != http.MethodPut || !found || json.Unmarshal(body, &m) != nil || m.Ingredient.Ingredient == "" {
		return ""
	}
	return fmt.Sprintf("%s %s %s for %s, id %s", m.Kind, m.Ingredient.Ingredient, m.Direction, m.Owner, service.Shorten(id))
}

func (f *Freezer) putMovement(w http.ResponseWriter, r *http.Request) {
	var m Movement
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&m); err != nil {
		service.Refuse(w, http.StatusBadRequest, fmt.Sprintf("the body is not a movement: %v; "+
			"send JSON with owner, direction, kind and ingredient", err))
		return
	}
	m.ID = r.PathValue("id") // the address names it, regardless of the body
	if err := m.check(); err != nil {
		service.Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	booked, fresh, err := f.ledger.book(m)
	switch {
	case errors.Is(err, errNoneLeft):
		service.Refuse(w, http.StatusConflict,
			fmt.Sprintf("there is none left of the %s %s: return some first", m.Kind, m.Ingredient.Ingredient))
	case errors.Is(err, errOther):
		service.Refuse(w, http.StatusConflict, fmt.Sprintf("under the id %s another movement is booked (%s %s %s for %s): "+
			"take a new id for a new movement",
			m.ID, booked.Direction, booked.Kind, booked.Ingredient.Ingredient, booked.Owner))
	case err != nil:
		service.Refuse(w, http.StatusInternalServerError, err.Error())
	case fresh:
		service.Answer(w, http.StatusCreated, booked)
	default:
		service.Answer(w, http.StatusOK, booked)
	}
}

// Problem is the body of every answer that is an error.
type Problem = service.Problem
