// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cloud

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lva.io/operators/scripts/services/service"
)

// State is the state of an instance.
type State string

// The states of an instance, in the order in which it passes through them.
const (
	Pending    State = "pending"
	Running    State = "running"
	Terminated State = "terminated"
)

// Prices are cents for each started hour, by the type of an instance.
var Prices = map[string]int{"small": 5, "medium": 10, "large": 20}

// Instance is a machine that costs money from its launch until it is terminated.
type Instance struct {
	// ID is chosen by the cloud. No two instances ever have the same ID.
	ID    string `json:"id"`
	Type  string `json:"type"`
	Image string `json:"image"`
	State State  `json:"state"`
	// Tags are the customer's notes. A tag that has a value keeps that value.
	Tags     map[string]string `json:"tags"`
	Launched time.Time         `json:"launched"`
	// Ended is when it was terminated, or zero if it was not.
	Ended time.Time `json:"ended,omitzero"`
}

// Launch is a request to launch an instance.
type Launch struct {
	// Token is chosen by the caller. As long as the cloud remembers it, no second instance is launched for it. If it is
	// empty, each call launches an instance.
	Token string            `json:"token,omitempty"`
	Type  string            `json:"type"`
	Image string            `json:"image"`
	Tags  map[string]string `json:"tags,omitempty"`
}

// Settings are how the cloud behaves.
type Settings struct {
	// Retention is how long a client token is remembered after the launch.
	Retention metav1.Duration `json:"retention"`
	// Lag is how stale the answers to get and list are.
	Lag metav1.Duration `json:"lag"`
	// Boot is how long an instance is pending.
	Boot metav1.Duration `json:"boot"`
	// Rate is how many requests per second are answered in the long run, and Burst how many are answered at once.
	Rate  float64 `json:"rate"`
	Burst int     `json:"burst"`
}

// Defaults returns the settings of a new cloud.
func Defaults() Settings {
	return Settings{
		Retention: metav1.Duration{Duration: 10 * time.Minute}, Lag: metav1.Duration{Duration: 50 * time.Millisecond},
		Boot: metav1.Duration{Duration: 50 * time.Millisecond}, Rate: 50, Burst: 200,
	}
}

// Bill is the cost of all instances so far.
type Bill struct {
	Lines []Line `json:"lines"`
	// Cents is the sum.
	Cents int `json:"cents"`
}

// Line is the cost of one instance. Each started hour counts.
type Line struct {
	Instance
	Hours int `json:"hours"`
	Cents int `json:"cents"`
}

// refusal is the reason why a request is refused, for the client that sent it.
type refusal struct {
	code   int
	detail string
}

func (r *refusal) Error() string { return r.detail }

func refuse(code int, detail string, values ...any) error {
	return &refusal{code: code, detail: fmt.Sprintf(detail, values...)}
}

// state is the part of an account that is saved.
type state struct {
	Instances []record `json:"instances"`
	Tokens    []token  `json:"tokens"`
}

// record is an instance, with what is needed to return its earlier states.
type record struct {
	Instance
	// Tagged is the time of each tag that was added after the launch.
	Tagged map[string]time.Time `json:"tagged,omitempty"`
}

// token is a launch that can be repeated.
type token struct {
	Launch
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// account holds all instances of a customer, including terminated ones, and the tokens.
type account struct {
	// now is the clock. keep saves a state before the response reports it. If it is nil, the state is only in memory.
	now  func() time.Time
	keep func(state) error

	mutex    sync.Mutex
	settings Settings
	state    state
}

func newAccount(kept state) *account {
	return &account{now: func() time.Time { return time.Now().UTC() }, settings: Defaults(), state: kept}
}

func (a *account) settingsNow() Settings {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.settings
}

func (a *account) set(settings Settings) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.settings = settings
}

// change lets a function change a copy of the state, which takes effect when it is saved. The account is locked.
func (a *account) change(edit func(*state)) error {
	next := state{Tokens: slices.Clone(a.state.Tokens)}
	for _, r := range a.state.Instances {
		r.Tags, r.Tagged = copied(r.Tags), maps.Clone(r.Tagged)
		next.Instances = append(next.Instances, r)
	}
	edit(&next)
	if a.keep != nil {
		if err := a.keep(next); err != nil {
			return err
		}
	}
	a.state = next
	return nil
}

// at returns an instance as it was at a moment, or false before it was launched.
func (a *account) at(r record, moment time.Time) (Instance, bool) {
	i := r.Instance
	i.Tags = map[string]string{}
	for key, value := range r.Tags {
		if !r.Tagged[key].After(moment) {
			i.Tags[key] = value
		}
	}
	switch {
	case !i.Ended.IsZero() && !i.Ended.After(moment):
		i.State = Terminated
	case moment.Before(i.Launched.Add(a.settings.Boot.Duration)):
		i.State, i.Ended = Pending, time.Time{}
	default:
		i.State, i.Ended = Running, time.Time{}
	}
	return i, !i.Launched.After(moment)
}

// moment returns the time of the state that a customer sees, or the console. The account is locked.
func (a *account) moment(customer bool) time.Time {
	if customer {
		return a.now().Add(-a.settings.Lag.Duration)
	}
	return a.now()
}

// find returns the index of an instance, or -1. The account is locked.
func (a *account) find(id string) int {
	return slices.IndexFunc(a.state.Instances, func(r record) bool { return r.ID == id })
}

func (a *account) launch(wanted Launch) (launched Instance, fresh bool, err error) {
	if err := wanted.check(); err != nil {
		return Instance{}, false, err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	now := a.now()
	remembered := func(t token) bool { return now.Sub(t.At) < a.settings.Retention.Duration }
	i := slices.IndexFunc(a.state.Tokens, func(t token) bool { return t.Token == wanted.Token && remembered(t) })
	if wanted.Token != "" && i >= 0 {
		before := a.state.Tokens[i]
		if !before.same(wanted) {
			return Instance{}, false, refuse(http.StatusConflict,
				"with the token %s something else was launched (%s %s, %s): "+
					"take a new token for a new launch", service.Shorten(wanted.Token), before.Type, before.Image, before.ID)
		}
		launched, _ = a.at(a.state.Instances[a.find(before.ID)], now)
		return launched, false, nil
	}
	r := record{Instance: Instance{
		ID: "i-" + strings.ToLower(rand.Text()[:12]), Type: wanted.Type, Image: wanted.Image,
		Tags: copied(wanted.Tags), Launched: now,
	}}
	if err := a.change(func(s *state) {
		s.Instances = append(s.Instances, r)
		s.Tokens = slices.DeleteFunc(s.Tokens, func(t token) bool { return !remembered(t) })
		if wanted.Token != "" {
			s.Tokens = append(s.Tokens, token{Launch: wanted, ID: r.ID, At: now})
		}
	}); err != nil {
		return Instance{}, false, err
	}
	launched, _ = a.at(r, now)
	return launched, true, nil
}

func (l Launch) same(other Launch) bool {
	return l.Type == other.Type && l.Image == other.Image && maps.Equal(l.Tags, other.Tags)
}

func (a *account) get(id string, customer bool) (Instance, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if i := a.find(id); i >= 0 {
		if seen, visible := a.at(a.state.Instances[i], a.moment(customer)); visible {
			return seen, nil
		}
	}
	return Instance{}, unknown(id)
}

func unknown(id string) error {
	return refuse(http.StatusNotFound, "there is no instance %.40q, or this answer is behind: "+
		"one that was just launched is seen a moment later", id)
}

// list returns all instances with these tags, in the order in which they were launched, including terminated ones.
func (a *account) list(wanted map[string]string, customer bool) []Instance {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	found := []Instance{}
	for _, r := range a.state.Instances {
		if seen, visible := a.at(r, a.moment(customer)); visible && matches(seen.Tags, wanted) {
			found = append(found, seen)
		}
	}
	return found
}

func (a *account) terminate(id string) (Instance, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	i := a.find(id)
	if i < 0 {
		return Instance{}, unknown(id)
	}
	if a.state.Instances[i].Ended.IsZero() {
		if err := a.change(func(s *state) { s.Instances[i].Ended = a.now() }); err != nil {
			return Instance{}, err
		}
	}
	ended, _ := a.at(a.state.Instances[i], a.now())
	return ended, nil
}

func (a *account) tag(id, key, value string) (Instance, error) {
	if err := checkTag(key, value); err != nil {
		return Instance{}, err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	i := a.find(id)
	if i < 0 {
		return Instance{}, unknown(id)
	}
	is, tagged := a.state.Instances[i].Tags[key]
	switch {
	case tagged && is != value:
		return Instance{}, refuse(http.StatusConflict, "the tag %s of %s is %q, and stays so", key, id, is)
	case !tagged && len(a.state.Instances[i].Tags) >= maxTags:
		return Instance{}, refuse(http.StatusBadRequest,
			"%s has %d tags already, which is as many as it may have", id, maxTags)
	case !tagged:
		if err := a.change(func(s *state) {
			r := &s.Instances[i]
			r.Tags[key] = value
			if r.Tagged == nil {
				r.Tagged = map[string]time.Time{}
			}
			r.Tagged[key] = a.now()
		}); err != nil {
			return Instance{}, err
		}
	}
	seen, _ := a.at(a.state.Instances[i], a.now())
	return seen, nil
}

// forget forgets all client tokens.
func (a *account) forget() error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.change(func(s *state) { s.Tokens = nil })
}

func (a *account) bill() Bill {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	bill := Bill{Lines: []Line{}}
	now := a.now()
	for _, r := range a.state.Instances {
		seen, _ := a.at(r, now)
		until := now
		if !seen.Ended.IsZero() {
			until = seen.Ended
		}
		line := Line{Instance: seen, Hours: 1 + int(until.Sub(seen.Launched)/time.Hour)}
		line.Cents = line.Hours * Prices[seen.Type]
		bill.Lines = append(bill.Lines, line)
		bill.Cents += line.Cents
	}
	return bill
}

// allowed matches tokens, and the keys of tags. maxTags is how many tags an instance may have. maxText is how long an
// image and the value of a tag may be, in bytes.
var allowed = regexp.MustCompile(`^[A-Za-z0-9._:/-]{1,64}$`)

const (
	maxTags = 20
	maxText = 200
)

// check describes in one sentence what is wrong with a launch.
func (l Launch) check() error {
	switch {
	case l.Token != "" && !allowed.MatchString(l.Token):
		return refuse(http.StatusBadRequest,
			"the token %.40q is not one: take 1 to 64 of the characters A-Z a-z 0-9 . _ : / -", l.Token)
	case Prices[l.Type] == 0:
		return refuse(http.StatusBadRequest, "the type %.40q is not one: take one of %s",
			l.Type, strings.Join(slices.Sorted(maps.Keys(Prices)), ", "))
	case l.Image == "" || len(l.Image) > maxText:
		return refuse(http.StatusBadRequest, "the image is missing or too long: say in at most %d bytes what runs", maxText)
	case len(l.Tags) > maxTags:
		return refuse(http.StatusBadRequest, "these are %d tags: take at most %d", len(l.Tags), maxTags)
	}
	for key, value := range l.Tags {
		if err := checkTag(key, value); err != nil {
			return err
		}
	}
	return nil
}

func checkTag(key, value string) error {
	if !allowed.MatchString(key) || strings.Contains(key, "/") || value == "" || len(value) > maxText {
		return refuse(http.StatusBadRequest, "the tag %.40q is not one: take 1 to 64 of the characters "+
			"A-Z a-z 0-9 . _ : - for its key, and a value of at most %d bytes", key, maxText)
	}
	return nil
}

// decode reads a saved state.
func decode(content []byte) (state, error) {
	var kept state
	if err := json.Unmarshal(content, &kept); err != nil {
		return state{}, err
	}
	known := map[string]bool{}
	for i, r := range kept.Instances {
		if r.ID == "" || known[r.ID] || Prices[r.Type] == 0 || r.Launched.IsZero() {
			return state{}, fmt.Errorf("instance %d (%q) is invalid", i+1, r.ID)
		}
		known[r.ID] = true
	}
	for _, t := range kept.Tokens {
		if !known[t.ID] {
			return state{}, fmt.Errorf("the token %s belongs to an instance that does not exist", service.Shorten(t.Token))
		}
	}
	return kept, nil
}
