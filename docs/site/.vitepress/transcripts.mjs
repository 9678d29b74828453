// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// What the commands of a page print, from docs/transcripts (scripts/authoring/transcript says how they are written). A reader without a playground
// sees it below each block, folded.
import fs from 'node:fs'
import path from 'node:path'
import { root } from './sources.mjs'

/** load returns the commands of a page with what they print, in their order. A page without a transcript has none. */
export function load(source) {
  const file = path.join(root, 'docs/transcripts', path.basename(source, '.md') + '.txt')
  if (!/^docs\/(lectures|guides)\//.test(source) || !fs.existsSync(file)) return []
  const entries = []
  for (const line of fs.readFileSync(file, 'utf8').split('\n')) {
    const entry = entries.at(-1)
    if (line.startsWith('$ ')) entries.push({ command: line.slice(2), printed: [] })
    else if (line.startsWith('>') && entry) entry.command += '\n' + line.slice(2)
    else if (line !== '' && entry) entry.printed.push(line.replace(/^ {2}/, ''))
    else if (entry?.printed.length) entry.printed.push('')
  }
  return entries
}

/** take removes the commands of a block from the front of entries, and returns them. A block that was not run has none. */
export function take(entries, block) {
  let rest = block
  let count = 0
  for (const { command } of entries) {
    const next = rest.trimStart()
    if (!next.startsWith(command)) break
    rest = next.slice(command.length)
    count++
  }
  return rest.trim() === '' ? entries.splice(0, count) : []
}

/** show is what a terminal shows of commands, with the first line of each; empty: they print nothing. */
export function show(entries) {
  return entries.filter(({ printed }) => printed.length)
    .map(({ command, printed }) => `$ ${command.replace(/\n[^]*/, ' …')}\n${printed.join('\n').trimEnd()}\n`).join('\n')
}
