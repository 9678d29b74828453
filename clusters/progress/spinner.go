// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package progress

import (
	"sync"
	"time"
)

// ClearLine moves the cursor of a terminal to the beginning of the current line, and clears the line.
const ClearLine = "\r\x1b[2K"

const (
	// FrameTime is how long each frame of a spinner is shown.
	FrameTime = 100 * time.Millisecond
	// QuietTime is the minimum time between two progress reports of a step where each report is a new line.
	QuietTime = 10 * time.Second
)

// Frames returns the frames of a spinner, in their order: for a terminal that can show all characters, or only
// ASCII.
func Frames(unicode bool) []rune {
	if unicode {
		return []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	}
	return []rune(`|/-\`)
}

// Spin calls draw with one frame after the other, until end is called, which waits for the current call of draw. The
// caller manages the rest of the line and other writers. end may be called more than once.
func Spin(unicode bool, draw func(frame rune)) (end func()) {
	frames := Frames(unicode)
	frame := 0
	return every(FrameTime, func() {
		draw(frames[frame%len(frames)])
		frame++
	})
}

// every calls do after each interval, until end is called. See Spin about end.
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
