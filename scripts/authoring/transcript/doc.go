// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package transcript runs the commands that pages show, and compares what they print with transcripts in
// docs/transcripts.
//
// A page is a reader's session: all its blocks of the language sh run in one shell, one after the other, at the root of
// the checkout. Comments in the page describe what a reader does between the blocks, or skips:
//
//	<!-- not run: needs a registry -->
//	<!-- run before: make run-2 & -->
//	<!-- interrupt -->
//	<!-- printed -->
//
// Each comment is directly above a block. The first one skips the block, and gives the reason. The second one first
// runs other commands, which the page describes in words, and which must succeed. The third one presses Ctrl-C if the
// last command of the block would not end. The fourth one is above a block of another language that shows what the
// commands before it print. The lines of that block must be in the transcript, in the same order.
//
// In a transcript and in a printed block, … matches any text within a line, and a line with only … matches any number
// of lines. A run of spaces counts as one space, since columns are as wide as their content.
//
// The package compares only the output of commands. It does not check their effects.
package transcript
