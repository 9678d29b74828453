// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package check

import (
	"sync"
	"time"
)

// Lag measures how long it takes from sending the create of an object until a watch tells of it: how busy the machine
// is. The zero value is ready.
type Lag struct {
	mutex sync.Mutex
	sent  map[string]time.Time // by the object's name
	last  time.Duration
}

// Sent says that the create of an object is being sent.
func (l *Lag) Sent(name string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.sent == nil {
		l.sent = map[string]time.Time{}
	}
	l.sent[name] = time.Now()
}

// Arrived says that the watch has told of an object. What others have made does not count.
func (l *Lag) Arrived(name string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if at, ours := l.sent[name]; ours {
		l.last = time.Since(at)
		delete(l.sent, name)
	}
}

// Now is the lag of the object that arrived last; 0: none has.
func (l *Lag) Now() time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.last
}
