// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package progress

import (
	"sync"
	"time"
)

// ClearLine takes a terminal to the beginning of its last line, and empties that.
const ClearLine = "\r\x1b[2K"

const (
	// FrameTime is how long a picture of a spinner stands.
	FrameTime = 100 * time.Millisecond
	// QuietTime is how long a step's next progress stays unsaid where every word is a new line.
	QuietTime = 10 * time.Second
)

// Pictures are those of a spinner, in their order: for a terminal that can show all characters, or only those of ASCII.
func Pictures(unicode bool) []rune {
	if unicode {
		return []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	}
	return []rune(`|/-\`)
}

// Spin calls draw with one picture after the other, until end is called, which waits for a draw that is under way. What
// else is in the line, and who may write meanwhile, is the caller's business. End may be called more than once.
func Spin(unicode bool, draw func(picture rune)) (end func()) {
	pictures := Pictures(unicode)
	frame := 0
	return every(FrameTime, func() {
		draw(pictures[frame%len(pictures)])
		frame++
	})
}

// every calls do after each interval, until end is called, as Spin says of it.
func every(interval time.Duration, do func()) (end func()) {
	stop := make(chan struct{})
	var repeating sync.WaitGroup
	repeating.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				do()
			}
		}
	})
	stopping := sync.OnceFunc(func() { close(stop) })
	return func() {
		stopping()
		repeating.Wait()
	}
}
