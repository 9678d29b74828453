// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package transcript runs the commands that pages show, and compares what they print with transcripts in
// docs/transcripts.
//
// A page is a reader's session: all its blocks of the language sh run in one shell, one after the other, at the root of
// the checkout. Comments in the page say what a reader does between the blocks, or does not do:
//
//	<!-- not run: needs a registry -->
//	<!-- run before: make run-2 & -->
//	<!-- interrupt -->
//	<!-- printed -->
//
// Each stands directly above a block. The first keeps the block from being run, and gives the reason. The second runs
// more commands first, which the page describes in words, and which must succeed. The third presses Ctrl-C where the
// last command of the block would not end. The fourth stands above a block of another language that shows what the
// commands before it print: its lines must be in the transcript, in their order.
//
// In a transcript and in a printed block, … stands for any text within a line, and a line of nothing but … for any
// number of lines. Spaces are compared as one, since columns are as wide as what is in them.
//
// The package looks at commands and at what they print. It does not judge what they do.
package transcript
