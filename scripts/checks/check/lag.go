// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"sync"
	"time"
)

// Lag measures how long it takes from sending the create of an object until a watch reports it, which shows how busy
// the machine is. The zero value is ready to use.
type Lag struct {
	mutex sync.Mutex
	sent  map[string]time.Time // by the object's name
	last  time.Duration
}

// Sent records that the create of an object is being sent.
func (l *Lag) Sent(name string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.sent == nil {
		l.sent = map[string]time.Time{}
	}
	l.sent[name] = time.Now()
}

// Arrived records that the watch has reported an object. It ignores objects that others have created.
func (l *Lag) Arrived(name string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if at, ours := l.sent[name]; ours {
		l.last = time.Since(at)
		delete(l.sent, name)
	}
}

// Now returns the lag of the object that arrived last. It is 0 before the first object.
func (l *Lag) Now() time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.last
}
