// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package audit

import (
	"net/http"
	"slices"
	"sync"
)

// accounts are the ServiceAccounts that users have created or requested a token for.
type accounts struct {
	mutex    sync.RWMutex
	creators map[string][]string // by account
}

// add records the account that an event is about.
func (a *accounts) add(event Event) {
	// A client requests a token by creating the subresource token of a ServiceAccount.
	if event.Verb != "create" || event.Group != "" || event.Resource != "serviceaccounts" ||
		event.Code != http.StatusCreated || event.Name == "" {
		return
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	account := "system:serviceaccount:" + event.Namespace + ":" + event.Name
	if !slices.Contains(a.creators[account], event.User) {
		a.creators[account] = append(a.creators[account], event.User)
	}
}

// belongs reports whether an account is a user's own, or was created by one of the user's own accounts.
func (a *accounts) belongs(account, user string) bool {
	if account == user {
		return true
	}
	a.mutex.RLock()
	defer a.mutex.RUnlock()
	seen := map[string]bool{}
	for queue := []string{account}; len(queue) > 0; queue = queue[1:] {
		if queue[0] == user {
			return true
		}
		if !seen[queue[0]] {
			seen[queue[0]] = true
			queue = append(queue, a.creators[queue[0]]...)
		}
	}
	return false
}

// MostlyBy reports whether requests that By matches for one of these users are more than half of the log, in bytes.
func (l *Log) MostlyBy(users ...string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var all, theirs int64
	for account, size := range l.sizes {
		all += size
		if slices.ContainsFunc(users, func(user string) bool { return l.accounts.belongs(account, user) }) {
			theirs += size
		}
	}
	return 2*theirs > all
}

// By matches the requests of a user, and those of ServiceAccounts that this user has created or requested a token for.
func (l *Log) By(user string) Match {
	return func(e Event) bool { return l.accounts.belongs(e.User, user) }
}
