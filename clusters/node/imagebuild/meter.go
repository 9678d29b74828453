// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"sync"
	"time"

	"lva.io/operators/clusters/progress"
)

// interval is the time between two reports of a meter. Each report costs the API server an update of an Event.
const interval = 3 * time.Second

// meter reports the progress of building an image. All methods are safe for concurrent use.
type meter struct {
	report func(message string)

	mutex sync.Mutex
	// started has the time at which the compilation of each program began.
	started  map[string]time.Time
	reported time.Time
}

// note is an images.Progress. A total is a number of packages, because nothing else of an image is counted.
func (m *meter) note(what string, done, total int64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	now := time.Now()
	if total > 0 && m.started[what].IsZero() {
		if m.started == nil {
			m.started = map[string]time.Time{}
		}
		m.started[what] = now
	}
	if now.Sub(m.reported) < interval {
		return
	}
	m.reported = now
	message := what
	if total > 0 {
		message = fmt.Sprintf("%s, %d of %d packages compiled", what, done, total)
		if left := progress.Left(int(done), int(total), now.Sub(m.started[what])); left != "" {
			message += ", about " + left + " left"
		}
	}
	m.report(message)
}
